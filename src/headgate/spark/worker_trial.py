"""At a call: can one of Spark's Python workers run what the query will send it?"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from headgate.errors import BadArgument, WorkerError
from headgate.spark.worker_errors import pythons_text, said_by_spark, workers_python
from headgate.store.folder import claim_json, unclaim
from headgate.store.places.place import Place

__all__ = ["leave_mark", "try_in_worker"]


def try_in_worker(
    spark: SparkSession, look: Callable[[], None], *, who: str, sent: str, needs: str
) -> None:
    """Run `look` once in a worker, with all that it holds.

    `who` is asking, `sent` is what a person gave that has to travel, and `needs` a sentence on what must
    be there for the workers.
    """

    def check(batches: Any) -> Any:
        yield from batches
        look()

    try:
        spark.range(1).repartition(1).mapInArrow(check, "id bigint").collect()
    except Exception as error:  # cloudpickle raises what it likes
        said = said_by_spark(error)
        if said is None:
            raise BadArgument(
                f"{who}: {sent} cannot be sent to Spark's workers ({type(error).__name__}: {error}): "
                "open connections and models inside the function, on first use"
            ) from error
        raise WorkerError(
            f"{who}: a Python worker of Spark cannot run it. {needs} "
            f"{pythons_text(workers_python(spark))}Spark said: {said}"
        ) from error


def leave_mark(folder: Place, value: Any) -> None:
    """Write to the folder, and clean up: a worker that cannot raises what is wrong."""
    path = folder / f".trial-{uuid.uuid4().hex}"
    claim_json(path, value)
    unclaim(path)
