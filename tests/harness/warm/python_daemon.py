"""Spark's Python daemon with everything imported that workers import: they come from it by a fork.

Spark starts this module in place of its own daemon (``spark.python.daemon.module``). A worker of Spark's
own daemon imports PySpark, pandas, Arrow and Headgate after the fork, each worker anew: one to three
seconds of a core, some hundred times in a run. What workers do is the same.
"""

from __future__ import annotations

import gc
import importlib

__all__ = ["WARM_WORKERS"]

WARM_WORKERS = {"spark.python.daemon.module": "tests.harness.warm.python_daemon"}
_IMPORTS = (
    *(
        "numpy",
        "pandas",
        "pyarrow",
        "pyarrow.compute",
        "pyspark.worker",
        "pyspark.sql.pandas.serializers",
    ),
    *("headgate", "headgate.spark.gate.pin.plan_source", "headgate.spark.guard.task"),
    *("headgate.spark.join.operator", "headgate.spark.groups.task"),
)

if __name__ == "__main__":
    from pyspark.daemon import manager

    for name in _IMPORTS:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a worker looks for garbage behind each task: not among what was imported
    manager()
