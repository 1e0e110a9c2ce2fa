"""A query whose Python worker came too late, once more: a busy machine is no fault of what is tested.

Spark plans a stateful Python operator (``transformWithState``, which joins are made of) with a process
that it starts for each query: `StreamingPythonRunner` switches the daemon off that other workers come
from, so the process imports PySpark and the operator anew, and `PythonWorkerFactory.createSimpleWorker`
gives it 10 s to connect (``10000`` in the code of 4.3.0; ``spark.python.authenticate.socketTimeout`` is
about what comes after that, and no other setting is read there). That is a second of a core, which at a
load of 8 to 15 on two cores takes too long now and then. Nothing has been read or written by then.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException

__all__ = ["LATE", "run_stateful"]

#: What Spark says then, and only then.
LATE = "Python worker failed to connect back"


def _to_its_end(query: Any) -> None:
    query.awaitTermination()


def run_stateful(
    start: Callable[[], Any], checkpoint: Path, wait: Callable[[Any], object] = _to_its_end
) -> Any:
    """Start a query and wait for it; if its worker was late, start it once more. The query that ran.

    Where no batch was committed, the second one begins at the beginning, under the same identity: sinks
    in memory cannot go on from a checkpoint.
    """
    query = start()
    try:
        wait(query)
    except StreamingQueryException as error:
        if LATE not in f"{error} {getattr(error, '_stackTrace', '')}":  # or what it was caused by
            raise
        query.stop()
        if not any((checkpoint / "commits").glob("[0-9]*")):
            for folder in [path for path in checkpoint.iterdir() if path.is_dir()]:
                shutil.rmtree(folder)
        query = start()
        wait(query)
    return query
