"""A row's identity as a 62-bit number that is the same in every process, and a group's key."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegralType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from headgate.errors import BadArgument, UnknownColumn
from headgate.policies.group_rates import label

__all__ = ["group_key", "named_keys", "require_columns", "require_timestamp", "row_hash", "seed_of"]

#: Keeps the hash of a row apart from the hash of its group.
_GROUP_SEED = 0x68656164
#: The key of the null group among whole numbers: as likely to meet a real one as two hashes are.
_NULL_GROUP = -0x5E6D3A91C4B7F203


def seed_of(gate: str) -> int:
    """A gate's own seed, from its name: two gates in one query decide independently."""
    return int.from_bytes(hashlib.sha256(gate.encode()).digest()[:7], "big")


def require_columns(frame: DataFrame, names: Sequence[str], argument: str) -> list[DataType]:
    """The columns' types; `UnknownColumn` if one is not there."""
    types = []
    for name in names:
        try:
            types.append(frame.select(F.col(name).alias("c")).schema["c"].dataType)
        except AnalysisException as error:
            raise UnknownColumn(
                f"{argument}={name!r}: the DataFrame has no such column; "
                f"it has {', '.join(frame.columns) or 'none'}"
            ) from error
    return types


def require_timestamp(frame: DataFrame, name: str, argument: str) -> None:
    """Refuse an arrival column that is not a timestamp."""
    (kind,) = require_columns(frame, [name], argument)
    if not isinstance(kind, TimestampType):
        hint = (
            " (cast it to timestamp)"
            if not isinstance(kind, TimestampNTZType)
            else (" (timestamp_ntz has no time zone: cast it to timestamp)")
        )
        raise BadArgument(f"{argument}={name!r} is a {kind.simpleString()}, not a timestamp{hint}")


def _hashable(column: Column, kind: DataType) -> Column:
    """Spark hashes every type but maps and variants; those are hashed by their entries."""
    if isinstance(kind, MapType) and not _has_map(kind.keyType) and not _has_map(kind.valueType):
        return F.array_sort(F.map_entries(column))
    if _has_map(kind):
        return F.to_json(F.struct(column.alias("c")))
    return column


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, MapType | VariantType):
        return True
    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    return False


def row_hash(frame: DataFrame, columns: Sequence[str], seed: int) -> Column:
    """62 bits of a seeded xxHash64 of the columns: uniform, native, and equal for equal rows.

    Spark's hash passes over nulls, so rows that differ only in which column is null share a fate;
    that costs nothing but independence between such rows.
    """
    kinds = require_columns(frame, columns, "identity")
    parts = [_hashable(F.col(name), kind) for name, kind in zip(columns, kinds, strict=True)]
    return F.shiftrightunsigned(F.xxhash64(F.lit(seed), *parts), 2)


def group_key(frame: DataFrame, columns: Sequence[str]) -> Column:
    """A 64-bit key of the grouping columns' values; null is a value like any other.

    One column of whole numbers is its own key, and cheaper for it; everything else is hashed.
    """
    kinds = require_columns(frame, columns, "by")
    for name, kind in zip(columns, kinds, strict=True):
        if _has_map(kind):
            raise BadArgument(
                f"by={name!r} is a {kind.simpleString()}: rows cannot be grouped by maps or "
                "variants; group by one of its values"
            )
    if len(kinds) == 1 and isinstance(kinds[0], IntegralType):
        return F.coalesce(F.col(columns[0]).cast("bigint"), F.lit(_NULL_GROUP))
    return F.xxhash64(F.lit(_GROUP_SEED), *[F.col(name) for name in columns])


def named_keys(
    spark: SparkSession,
    frame: DataFrame,
    columns: Sequence[str],
    named: Sequence[tuple[object, ...]],
) -> dict[str, int]:
    """The keys of groups that people named, by label; computed by Spark, in the columns' types."""
    if not named:
        return {}
    kinds = require_columns(frame, columns, "by")
    names = [f"c{i}" for i in range(len(columns))]
    schema = StructType([StructField(n, k, True) for n, k in zip(names, kinds, strict=True)])
    try:
        groups = spark.createDataFrame([tuple(values) for values in named], schema)
        rows = groups.select(group_key(groups, names).alias("k")).collect()
    except (TypeError, ValueError) as error:
        raise BadArgument(f"a named group does not fit the columns {columns!r}: {error}") from error
    return {label(values): row.k for values, row in zip(named, rows, strict=True)}
