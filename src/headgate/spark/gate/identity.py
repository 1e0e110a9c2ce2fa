"""A row's identity as a 62-bit number that is the same in every process, a group's key, and the columns
that they are made of, found as Spark finds them."""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Callable, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
    VariantType,
)

from headgate.errors import BadArgument, UnknownColumn
from headgate.policies.group_rates import label

__all__ = [
    "group_key",
    "identity_of",
    "named_keys",
    "require_columns",
    "require_own_column",
    "require_timestamp",
    "row_hash",
    "seed_of",
]

#: Keeps the hash of a row apart from the hash of its group.
_GROUP_SEED = 0x68656164
#: The key of the null group among whole numbers: as likely to meet a real one as two hashes are.
_NULL_GROUP = -0x5E6D3A91C4B7F203
#: Whether two names are one.
Same = Callable[[str, str], bool]
#: A part of a column's name, in backticks (doubled inside of them) or without; then a dot or the end.
_PART = re.compile(r"(?:`((?:[^`]|``)*)`|([^`.]+))(?=\.(?=.)|\Z)", re.DOTALL)
#: The hidden column that Spark's file sources have.
_FILE = "_metadata"


def seed_of(gate: str, given: int | None = None) -> int:
    """The seed that people gave; else a gate's own, from its name, so that two gates in one query decide
    independently.

    Spark's plans hold it as a signed number of 64 bits, and so does whoever repays shed rows.
    """
    if given is None:
        return int.from_bytes(hashlib.sha256(gate.encode()).digest()[:7], "big")
    if isinstance(given, bool) or not isinstance(given, int) or not -(1 << 63) <= given < 1 << 63:
        raise BadArgument(
            f"seed={given!r}: give a whole number from -2**63 to 2**63 - 1, or leave it out for the "
            "name's own"
        )
    return given


def identity_of(given: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """The columns that tell rows apart, as people gave them; None: all."""
    if given is None:
        return None
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not names or not all(isinstance(n, str) and n for n in names):
        raise BadArgument(
            f"identity={given!r}: give a column's name, or a list of them; without any, all rows of a "
            "batch would share one fate. Leave it out to tell rows apart by all their columns"
        )
    return tuple(names)


def require_columns(frame: DataFrame, names: Sequence[str], argument: str) -> list[DataType]:
    """The columns' types; `UnknownColumn` if one is not there.

    The schema is asked first: pyspark logs what its analyser refuses as an error of its own, before
    anybody can catch it and say it better.
    """
    same = _same_names(frame)
    return [_type_of(frame, name, argument, same) for name in names]


def _type_of(frame: DataFrame, name: str, argument: str, same: Same) -> DataType:
    parts = _parts(name) if isinstance(name, str) else None
    if parts is None:
        raise UnknownColumn(
            f"{argument}={name!r} is not how a column is named: give its name, a field of a struct as "
            "'place.lat', and in backticks a name that has dots or backticks itself ('`a.b`')"
        )
    found = _below(frame.schema, parts, same)
    if found:
        return found[0]
    if found is None or _beside_the_schema(frame, parts):
        try:
            return frame.select(F.col(name).alias("c")).schema["c"].dataType
        except AnalysisException as error:
            raise _unknown(frame, name, parts, argument, same) from error
    raise _unknown(frame, name, parts, argument, same)


def _same_names(frame: DataFrame) -> Same:
    """How the frame's session compares names."""
    if frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true":
        return operator.eq
    return lambda one, other: one.lower() == other.lower()


def _parts(name: str) -> list[str] | None:
    """A name cut at its dots as Spark cuts it: not inside backticks. None if Spark would not read it."""
    parts: list[str] = []
    rest = name
    while True:
        found = _PART.match(rest)
        if found is None:
            return None
        quoted, plain = found.groups()
        parts.append(plain if quoted is None else quoted.replace("``", "`"))
        if found.end() == len(rest):
            return parts
        rest = rest[found.end() + 1 :]  # what ended the part is a dot


def _below(kind: DataType, parts: Sequence[str], same: Same) -> list[DataType] | None:
    """The type that a name has inside of `kind`, or none; None if only Spark's analyser can tell."""
    if not parts:
        return [kind]
    first, rest = parts[0], parts[1:]
    if isinstance(kind, StructType):
        found = [field for field in kind.fields if same(field.name, first)]
        if len(found) > 1:
            return None  # one column selected twice is no riddle to Spark, two of one name are
        return _below(found[0].dataType, rest, same) if found else []
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return _below(kind.valueType, rest, same)
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        found = [field for field in kind.elementType.fields if same(field.name, first)]
        if len(found) != 1:
            return None if found else []
        holes = kind.containsNull or found[0].nullable
        return _below(ArrayType(found[0].dataType, holes), rest, same)
    return None if isinstance(kind, ArrayType | MapType | UserDefinedType) else []


def _beside_the_schema(frame: DataFrame, parts: Sequence[str]) -> bool:
    """Whether a name may mean what no schema shows: a file's metadata, a column by its table's name."""
    if parts[0].lower() == _FILE:
        return True
    # A pattern that nothing matches selects nothing, where a name would be an error.
    tables = [part for part in parts[:-1] if part and "`" not in part]
    return any(frame.select(frame.colRegex(f"{table}.`.*`")).columns for table in tables)


def _unknown(
    frame: DataFrame, name: str, parts: Sequence[str], argument: str, same: Same
) -> UnknownColumn:
    if name in frame.columns and parts != [name]:
        return UnknownColumn(
            f"{argument}={name!r}: without backticks a dot stands before a field of a struct; "
            f"name the column {'`' + name.replace('`', '``') + '`'!r}"
        )
    twins = [column for column in frame.columns if same(column, parts[0])]
    if len(twins) > 1:
        return UnknownColumn(
            f"{argument}={name!r}: the DataFrame has {len(twins)} columns of this name "
            f"({', '.join(twins)}); rename or drop all but one"
        )
    return UnknownColumn(
        f"{argument}={name!r}: the DataFrame has no such column; "
        f"it has {', '.join(frame.columns) or 'none'}"
    )


def require_own_column(frame: DataFrame, name: str, argument: str) -> DataType:
    """The type of a column by its exact name: workers know no fields inside of columns."""
    twice = sorted({c for c in frame.columns if frame.columns.count(c) > 1})
    if twice:
        raise BadArgument(f"the DataFrame has more than one column {twice[0]!r}: rename one of them")
    if name not in frame.columns:
        require_columns(frame, [name], argument)
        raise UnknownColumn(
            f"{argument}={name!r} is no column by this exact name; the DataFrame has "
            f"{', '.join(frame.columns)}. Add a field of a struct as a column of its own (withColumn)"
        )
    return frame.schema[name].dataType


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
