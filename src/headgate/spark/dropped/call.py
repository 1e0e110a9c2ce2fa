"""``dropped=`` of a guard's or a join's call: what it may say, checked before anything is built."""

from __future__ import annotations

import os

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headgate.errors import BadArgument
from headgate.spark.dropped.reading import dropped_folder
from headgate.spark.dropped.writing import require_writable
from headgate.spark.versions.arrow import arrow_schema
from headgate.store.folder import open_control_folder

__all__ = ["dropped_by"]


def dropped_by(
    frame: DataFrame,
    folder: str | os.PathLike[str],
    name: str,
    booked: bool,
    whose: str = "the DataFrame",
) -> str:
    """Where the rows of this frame go that `name` drops; `booked`: it has a control folder."""
    if not frame.isStreaming:
        raise BadArgument(
            f"dropped={os.fspath(folder)!r} needs a stream: a batch DataFrame may be run never, twice "
            "or in part, and nobody reports what it dropped; the result's own rows tell what was kept"
        )
    if not booked:
        raise BadArgument(
            f"dropped={os.fspath(folder)!r} needs control=: which rows were dropped for good is known "
            "from the reports that the ledger is made of"
        )
    found = dropped_folder(folder, name)
    try:
        schema = arrow_schema(frame.schema)
    except PySparkException as error:
        raise BadArgument(
            f"dropped=: {whose} has a column that cannot be set aside ({error}): cast it to a string in "
            "front of this call"
        ) from error
    require_writable(schema, whose)
    open_control_folder(found)
    return found
