"""SIC through an inner equi-join within windows (themis-2016, Eq. 3).

The join is one operator: of a window it takes both sides' rows and gives the pairs, and the pairs share
the rows' SIC. So a row without a partner is not lost as long as its window has a pair at all
(`alone="shared"`): it took part in finding them, and section 7 finds an SIC of 1 for TOP-5 without
shedding, though that query joins and filters. With `alone="lost"` each key is an operator of its own,
and a key that only one side has loses its rows' SIC.

Both sides are put into one stream and grouped by window and key: one state and one shuffle, where
Spark's join of two streams has a state and a shuffle a side. Results come when the watermark passes the
window's end. "Shared" needs a second aggregate, by window alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.errors import BadArgument
from headgate.spark.gate.shape import quoted
from headgate.spark.sic.column import SIC, require_sic, total
from headgate.spark.sic.outputs import names_of
from headgate.spark.sic.windows import WINDOW

# isort: split
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StructField, StructType

__all__ = ["join"]

_ALONE = ("shared", "lost")
_LEFT, _RIGHT, _KEYS, _PAIRS = "_headgate_left", "_headgate_right", "_headgate_keys", "_headgate_pairs"
#: The only field of a side that has no other columns.
_ROW = "row"


def join(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str],
    within: str | Sequence[str] = WINDOW,
    *,
    alone: str = "shared",
) -> DataFrame:
    """Pairs of rows that are equal in `on`, and in `within`: the columns that tell windows apart.

    The result has `within` and `on` once, all other columns twice (``value_left``, ``value_right``) and
    `_sic`. Null keys have no partner. All rows of a window and key are held until its end, so this is
    for windows whose keys have few rows a side; `hg.join` is for large ones.
    """
    if alone not in _ALONE:
        raise BadArgument(f"alone={alone!r}: one of {', '.join(map(repr, _ALONE))}")
    require_sic(left, "left")
    require_sic(right, "right")
    if left.isStreaming != right.isStreaming:
        raise BadArgument("left and right: one is a stream and one is not; give two of a kind")
    groups, keys = names_of(left, within, "within"), names_of(left, on, "on")
    if set(groups) & set(keys):
        raise BadArgument(f"on={on!r} and within={within!r} have a column in common; name it once")
    names_of(right, [*groups, *keys], "on and within")
    for name in (*groups, *keys):
        _same_type(left, right, name)
    fixed = (*groups, *keys, SIC)
    rest = [[name for name in side.columns if name not in fixed] for side in (left, right)]
    both = _side(left, fixed, _LEFT, rest[0], _RIGHT, _kind(right, rest[1])).unionByName(
        _side(right, fixed, _RIGHT, rest[1], _LEFT, _kind(left, rest[0]))
    )
    found = both.groupBy(*map(quoted, (*groups, *keys))).agg(
        F.collect_list(_LEFT).alias(_LEFT), F.collect_list(_RIGHT).alias(_RIGHT), total()
    )
    pairs = _pairs(found, groups, keys, alone)
    each = (F.col(SIC) / F.size(_PAIRS)).alias(SIC)
    rows = pairs.select(*map(quoted, groups), F.explode(_PAIRS).alias(_PAIRS), each)
    pair = F.col(_PAIRS)
    return rows.select(
        *map(quoted, groups),
        *[pair[_KEYS][name].alias(name) for name in keys],
        *[pair[_LEFT][name].alias(f"{name}_left") for name in rest[0]],
        *[pair[_RIGHT][name].alias(f"{name}_right") for name in rest[1]],
        SIC,
    )


def _same_type(left: DataFrame, right: DataFrame, name: str) -> None:
    kinds = [side.schema[name].dataType.simpleString() for side in (left, right)]
    if kinds[0] != kinds[1]:
        raise BadArgument(
            f"{name!r} is a {kinds[0]} on the left and a {kinds[1]} on the right: cast one of them"
        )


def _row(names: Sequence[str]) -> Column:
    # A struct has at least one field.
    return F.struct(*map(quoted, names)) if names else F.struct(F.lit(True).alias(_ROW))


def _side(
    side: DataFrame, fixed: Sequence[str], mine: str, own: Sequence[str], theirs: str, null: StructType
) -> DataFrame:
    """A side's rows as the union has them: its own struct, and null for the other's."""
    nothing = F.lit(None).cast(null).alias(theirs)
    return side.select(*map(quoted, fixed), _row(own).alias(mine), nothing)


def _kind(side: DataFrame, names: Sequence[str]) -> StructType:
    fields = [StructField(name, side.schema[name].dataType) for name in names]
    return StructType(fields or [StructField(_ROW, BooleanType())])


def _pairs(found: DataFrame, groups: Sequence[str], keys: Sequence[str], alone: str) -> DataFrame:
    """`groups`, an array of pairs, and the sum of their SIC."""
    known = F.lit(True)
    for name in keys:
        known = known & quoted(name).isNotNull()
    named = F.struct(*map(quoted, keys)).alias(_KEYS)
    pairs = F.flatten(
        F.transform(
            _LEFT,
            lambda one: F.transform(
                _RIGHT,
                lambda other: F.struct(named, one.alias(_LEFT), other.alias(_RIGHT)),
            ),
        )
    )
    of_key = found.select(*map(quoted, groups), F.when(known, pairs).alias(_PAIRS), SIC)
    if alone == "lost":
        return of_key
    lists = of_key.groupBy(*map(quoted, groups)).agg(F.collect_list(_PAIRS).alias(_PAIRS), total())
    return lists.withColumn(_PAIRS, F.flatten(_PAIRS))
