"""``dropped=`` of a guard's or a join's call: what it may say, checked before anything is built."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headgate.errors import BadArgument
from headgate.spark.dropped.reading import dropped_folder
from headgate.spark.dropped.writing import OWN
from headgate.store.folder import open_control_folder

__all__ = ["dropped_by"]

#: Types that come back from Parquet as what they were; an interval, for one, comes back as a number.
_LASTING = (
    BinaryType, BooleanType, DateType, NumericType, StringType, TimestampNTZType, TimestampType,
)  # fmt: skip


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
    _require_columns(frame, whose)
    open_control_folder(found)
    return found


def _require_columns(frame: DataFrame, whose: str) -> None:
    """Refuse names that dropped rows get, and columns that would not come back as they were."""
    taken = sorted(set(frame.columns) & set(OWN))
    if taken:
        raise BadArgument(
            f"dropped=: {whose} has a column {taken[0]!r}, which dropped rows get: rename it"
        )
    for field in frame.schema.fields:
        odd = _odd_in(field.dataType)
        if odd is not None:
            raise BadArgument(
                f"dropped=: {whose} has a column {field.name!r} of {odd.simpleString()}, which Parquet "
                "cannot hold as it is: cast it to a string in front of this call"
            )


def _odd_in(kind: DataType) -> DataType | None:
    """The first type in this one that files do not keep; None if there is none."""
    parts: list[DataType] = []
    if isinstance(kind, ArrayType):
        parts = [kind.elementType]
    elif isinstance(kind, MapType):
        parts = [kind.keyType, kind.valueType]
    elif isinstance(kind, StructType):
        parts = [field.dataType for field in kind.fields]
    elif not isinstance(kind, _LASTING):
        return kind
    return next((odd for odd in map(_odd_in, parts) if odd is not None), None)
