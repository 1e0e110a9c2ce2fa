"""What a join condition needs of each row, computed by Spark before Python sees it.

Items become 64-bit numbers: whole numbers are their own, everything else is hashed (two different items
of a stream share a number with a chance of about one in 10^18 a pair). Sets are sorted and freed of
duplicates and nulls there too, so that the kernels only merge. Rows that cannot match, because their
time or their column is null, go no further.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NumericType,
    ShortType,
    StringType,
    StructType,
)

from headgate.errors import BadArgument
from headgate.joins.conditions import Condition, Equal, InnerProduct, Predicate
from headgate.spark.gate.identity import require_own_column, require_timestamp, row_hash
from headgate.spark.gate.shape import quoted, quoted_name
from headgate.spark.join.pack import COIN, HASH, KEY, KIND, OWN, TIME, VALUE, Grid

__all__ = [
    "KINDS",
    "encoded",
    "has_kinds",
    "require_condition",
    "require_own_names",
    "require_utility",
    "require_watermark",
]

_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_DELAY = "spark.watermarkDelayMs"
#: Row types are told apart up to so many.
KINDS = 64
#: Keeps the spreading of rows over shards apart from every other hash.
_SPREAD_SEED = 0x6A6F696E


def require_watermark(frame: DataFrame, time: str, side: str) -> None:
    """Refuse a side whose time is no timestamp, or has no watermark: its state would only grow."""
    require_own_column(frame, time, "time")
    require_timestamp(frame, quoted_name(time), "time")
    if _DELAY not in frame.schema[time].metadata:
        raise BadArgument(
            f"the {side} stream has no watermark on {time!r}, so its rows would have to be kept for "
            f'ever: {side}.withWatermark("{time}", "10 minutes") says how late a row may come'
        )


def require_own_names(frame: DataFrame, side: str) -> None:
    """Refuse columns that are named like Headgate's own."""
    taken = sorted(set(frame.columns) & set(OWN))
    if taken:
        raise BadArgument(
            f"the {side} DataFrame has a column {taken[0]!r}, which a join adds: rename it"
        )


def require_condition(condition: Condition, left: DataFrame, right: DataFrame) -> str:
    """Refuse columns that do not fit the condition, or each other; what kind of key they make."""
    if isinstance(condition, Predicate):
        for frame, columns in ((left, condition.left_columns), (right, condition.right_columns)):
            for column in columns:
                require_own_column(frame, column, "on")
        return "none"
    ours = require_own_column(left, condition.left, "on")
    theirs = require_own_column(right, condition.right, "on")
    name = type(condition).__name__.lower()
    if isinstance(condition, Equal):
        kinds = [
            _key_kind(condition, c, t) for c, t in ((condition.left, ours), (condition.right, theirs))
        ]
    elif isinstance(condition, InnerProduct):
        kinds = [_weighted_kind(c, t) for c, t in ((condition.left, ours), (condition.right, theirs))]
    else:
        kinds = [_set_kind(name, c, t) for c, t in ((condition.left, ours), (condition.right, theirs))]
    if kinds[0] != kinds[1]:
        raise BadArgument(
            f"on: the left column {condition.left!r} is a {ours.simpleString()} and the right one "
            f"{condition.right!r} a {theirs.simpleString()}: cast one, so that both hold the same kind"
        )
    return kinds[0].split(" ")[0]


def _scalar(kind: DataType) -> str | None:
    if isinstance(kind, _WHOLE):
        return "whole"
    return None if isinstance(kind, ArrayType | MapType | StructType) else kind.simpleString()


def _key_kind(condition: Equal, column: str, kind: DataType) -> str:
    found = _scalar(kind)
    if found is None:
        raise BadArgument(
            f"on=hg.equal: column {column!r} is a {kind.simpleString()}: equality compares single "
            "values; for sets take hg.overlap, hg.subset or hg.superset, for a struct one of its fields"
        )
    return f"key {found}"


def _set_kind(name: str, column: str, kind: DataType) -> str:
    if not isinstance(kind, ArrayType) or _scalar(kind.elementType) is None:
        raise BadArgument(
            f"on=hg.{name}: column {column!r} is a {kind.simpleString()}, not a set: give an array of "
            f"numbers or strings, such as split({column}, ' ')"
        )
    return f"set {_scalar(kind.elementType)}"


def _weighted_kind(column: str, kind: DataType) -> str:
    if isinstance(kind, MapType) and isinstance(kind.valueType, NumericType):
        if _scalar(kind.keyType) is not None:
            return f"weighted {_scalar(kind.keyType)}"
    elif isinstance(kind, ArrayType) and isinstance(kind.elementType, FloatType | DoubleType):
        return "vector"
    raise BadArgument(
        f"on=hg.inner_product: column {column!r} is a {kind.simpleString()}: give a map from item to "
        "weight, or an array of floats"
    )


def _number(column: Column, kind: DataType) -> Column:
    """An item as a 64-bit number; null stays null."""
    if isinstance(kind, _WHOLE):
        return column.cast("bigint")
    return F.when(column.isNotNull(), F.xxhash64(column))


def _key(condition: Condition, column: str, kind: DataType) -> Column | None:
    """The join column as the kernels read it."""
    if isinstance(condition, Predicate):
        return None
    value = quoted(column)
    if isinstance(condition, Equal):
        return _number(value, kind)
    if isinstance(kind, MapType):
        return F.transform(
            F.map_entries(value),
            lambda e: F.struct(
                _number(e["key"], kind.keyType).alias("item"), e["value"].cast("float").alias("weight")
            ),
        )
    assert isinstance(kind, ArrayType)
    element = kind.elementType
    if isinstance(condition, InnerProduct):
        return value.cast("array<float>")
    if isinstance(element, _WHOLE):
        return value.cast("array<bigint>")
    return F.transform(value, lambda x: _number(x, element))


def _is_its_own_key(condition: Condition, kind: DataType) -> bool:
    """Whether kernels can read the column as it is: then it travels once."""
    if isinstance(condition, Equal):
        return isinstance(kind, LongType)
    whole = isinstance(kind, ArrayType) and isinstance(kind.elementType, LongType)
    return whole and not isinstance(condition, InnerProduct)


def encoded(
    frame: DataFrame,
    side: int,
    condition: Condition,
    time: str,
    grid: Grid,
    utility: str | None,
    has_utility: bool,
) -> DataFrame:
    """The frame with Headgate's columns in front of its own; with `has_utility`, rows without have 0."""
    column = condition.left if side == 0 else condition.right
    kind = require_own_column(frame, column, "on")
    key = _key(condition, column, kind)
    if grid.by_key and key is not None:
        spread = F.xxhash64(F.lit(_SPREAD_SEED), key)
    else:
        names = [time, column]
        if isinstance(condition, Predicate):
            names = [time, *(condition.left_columns if side == 0 else condition.right_columns)]
        spread = row_hash(frame, [quoted_name(name) for name in names], _SPREAD_SEED)
    own = [F.unix_micros(quoted(time)).alias(TIME), spread.alias(HASH)]
    if grid.by_key:  # rows of one key must not share a coin
        coin = row_hash(frame, [quoted_name(name) for name in frame.columns], _SPREAD_SEED)
        own.append(coin.alias(COIN))
    if key is not None and not _is_its_own_key(condition, kind):
        own.append(key.alias(KEY))
    if has_utility:
        own.append(F.lit(0.0).alias(VALUE) if utility is None else _utility(frame, utility))
    elif utility is not None:
        own.append(_utility(frame, utility))
    usable = frame.where(quoted(time).isNotNull())
    if not isinstance(condition, Predicate):
        usable = usable.where(quoted(column).isNotNull())
    return usable.select(*own, *[quoted(name) for name in frame.columns])


def has_kinds(frame: DataFrame, utility: str) -> bool:
    """Whether the column says what type a row is of, and not what it is worth."""
    kind = require_own_column(frame, utility, "utility")
    return not isinstance(kind, NumericType)


def require_utility(frame: DataFrame, utility: str) -> None:
    """Refuse a column that is neither a utility nor a type."""
    kind = require_own_column(frame, utility, "utility")
    if not isinstance(kind, NumericType | StringType | DateType):
        raise BadArgument(
            f"utility={utility!r} is a {kind.simpleString()}: name a column of numbers (what a row is "
            "worth) or of strings (its type)"
        )


def _utility(frame: DataFrame, utility: str) -> Column:
    """A number is what a row is worth; anything else is its type, whose pay-off is learnt."""
    if not has_kinds(frame, utility):
        return F.greatest(F.coalesce(quoted(utility).cast("double"), F.lit(0.0)), F.lit(0.0)).alias(
            VALUE
        )
    return F.pmod(F.xxhash64(quoted(utility)), F.lit(KINDS)).cast("int").alias(KIND)
