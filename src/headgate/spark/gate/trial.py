"""At a gate's call: can Spark's Python workers serve its plan, from the driver's own control folder?"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from headgate.errors import WorkerError
from headgate.spark.worker_errors import pythons_text, said_by_spark, workers_python
from headgate.store.folder import unclaim, write_json
from headgate.store.places.place import Place

__all__ = ["try_workers"]


def try_workers(
    spark: SparkSession, gate: str, control: Place, reader: Callable[[str], DataFrame]
) -> None:
    """Read the plan once, outside any batch: can a worker import Headgate, and is its folder the same?

    The driver writes a mark, and the worker must find it: a folder of the same name on another machine
    would serve no plan, and every batch would fail open without a word.
    """
    mark = f".trial-{uuid.uuid4().hex}"
    try:
        write_json(control / mark, {"trial": mark})
        reader(mark).collect()
    except Exception as error:
        said = said_by_spark(error)
        if said is None:
            raise
        raise WorkerError(
            f"gate {gate!r}: a Python worker of Spark cannot serve its plan. Headgate (with pyarrow), "
            "and the module of a policy of your own, must be installed for the workers' Python "
            f"(PYSPARK_PYTHON), and the control folder {str(control)!r} must be there on every "
            f"executor, and be the driver's. {pythons_text(workers_python(spark))}Spark said: {said}"
        ) from error
    finally:
        unclaim(control / mark)
