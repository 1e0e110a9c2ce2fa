"""A group's earlier windows beside its own: those of the same result, and of results that were stored.

The windows of a group that ended before this one began, of the same length and side by side: the
last `MOST_WINDOWS` of them, wherever windows slide. Nothing depends on when the query ran, only on
windows: in append mode a window is final before a later one is told, so that a batch that is replayed
reads the very same history, and a row that it has stored itself already is not read twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from headgate.errors import BadArgument
from headgate.spark.estimates.intervals.algebra import SqlAlgebra, terms
from headgate.spark.estimates.remembering import MOVES, WINDOWS, moves_of, remembered, windows_of
from headgate.spark.estimates.sql import FIELDS, SAMPLE

__all__ = ["KNOWN_AS", "MOST_WINDOWS", "known_texts", "time_windows", "with_known"]

#: Earlier windows that are looked at.
MOST_WINDOWS = 10
#: The columns of what is known of a group, one for each estimate.
KNOWN_AS = "_headgate_known"

_ROW, _NEW, _PAST, _KEY = "_headgate_row", "_headgate_new", "_headgate_past", "_headgate_key"
_NUMBER, _PHASE, _LENGTH, _TURN = (f"_headgate_{n}" for n in ("number", "phase", "length", "turn"))


def time_windows(result: DataFrame) -> list[str]:
    """The result's columns of time windows, as `F.window` makes them."""
    return [
        field.name
        for field in result.schema.fields
        if isinstance(field.dataType, StructType)
        and field.dataType.names == ["start", "end"]
        and all(isinstance(f.dataType, TimestampType | TimestampNTZType) for f in field.dataType.fields)
    ]


def time_window_of(result: DataFrame) -> str:
    """The one column of time windows that a result has."""
    found = time_windows(result)
    if len(found) != 1:
        raise BadArgument(
            f"by=...: earlier windows need one column of time windows, and the result has {len(found)} "
            f"among {', '.join(result.columns)}: keep the column that F.window makes as it is"
        )
    return found[0]


def with_known(
    result: DataFrame,
    by: Sequence[str],
    estimates: Sequence[str],
    earlier: DataFrame | None,
    quoted: Callable[[str], str],
) -> DataFrame:
    """The result with a column `KNOWN_AS` for each estimate: its rows and those of earlier windows."""
    window, columns = time_window_of(result), result.columns
    keys = [F.col(quoted(name)).alias(f"{_KEY}{i}") for i, name in enumerate(by)]

    def shaped(frame: DataFrame, row: Column, new: bool) -> DataFrame:
        start, end = (F.unix_micros(_instant(F.col(quoted(window))[edge])) for edge in ("start", "end"))
        samples = [
            F.col(quoted(name))["sample"].alias(f"{_PAST}{i}") for i, name in enumerate(estimates)
        ]
        rows = F.greatest(*[F.col(quoted(n))["rows"] for n in estimates], F.lit(0)).alias(_TURN)
        length = F.nullif(end - start, F.lit(0)).alias(_LENGTH)
        return frame.select(
            *keys, start.alias(_NUMBER), length, *samples, rows, row.alias(_ROW), F.lit(new).alias(_NEW)
        )

    names = [*(f"{_KEY}{i}" for i in range(len(by))), _LENGTH]
    every = shaped(result, F.struct(*[F.col(quoted(name)) for name in columns]), True)
    if earlier is not None:
        _check(earlier, [window, *by], estimates)
        nothing = F.lit(None).cast(every.schema[_ROW].dataType)
        every = _once(every.unionByName(shaped(earlier, nothing, False)), names)
    # Windows side by side are numbered without a gap; those that slide are told apart by their phase.
    every = every.withColumns(
        {
            _PHASE: F.expr(f"pmod({_NUMBER}, {_LENGTH})"),
            _NUMBER: F.expr(f"({_NUMBER} - pmod({_NUMBER}, {_LENGTH})) div {_LENGTH}"),
        }
    )
    before = Window.partitionBy(*names, _PHASE).orderBy(_NUMBER).rangeBetween(-MOST_WINDOWS, -1)
    lists = {f"{_PAST}{i}": F.collect_list(f"{_PAST}{i}").over(before) for i in range(len(estimates))}
    mine = every.withColumns(lists).where(_NEW)
    known = [
        known_texts(f"{_ROW}.{quoted(name)}.sample", f"{_PAST}{i}") for i, name in enumerate(estimates)
    ]
    for turn in range(3):
        mine = mine.withColumns({n: F.expr(text) for one in known for n, text in one[turn].items()})
    return mine.select(
        *[F.col(f"{_ROW}.{quoted(name)}").alias(name) for name in columns],
        *[F.col(f"{_PAST}{i}_known").alias(f"{KNOWN_AS}{i}") for i in range(len(estimates))],
    )


def _instant(edge: Column) -> Column:
    return edge.cast("timestamp")


def _check(earlier: DataFrame, names: Sequence[str], estimates: Sequence[str]) -> None:
    if earlier.isStreaming:
        raise BadArgument("earlier= is a stream: give stored results, such as spark.read.table(...)")
    for name in (*names, *estimates):
        if name not in earlier.columns:
            raise BadArgument(
                f"earlier= has no column {name!r}, only {', '.join(earlier.columns)}: give stored "
                "results of the same query, with window, groups and estimates as they were"
            )
    for name in estimates:
        kind = earlier.schema[name].dataType
        if not (isinstance(kind, StructType) and tuple(kind.names) == FIELDS):
            raise BadArgument(
                f"earlier= has a column {name!r} that is no estimate: store results with whole "
                "estimates, whose sample is what later windows read"
            )


def _once(every: DataFrame, names: Sequence[str]) -> DataFrame:
    """Of a stored window that the result has, too, the result's; of one stored twice, the fuller one."""
    same = Window.partitionBy(*names, _NUMBER)
    there = F.max(_NEW).over(same)
    turn = F.row_number().over(same.orderBy(F.col(_NEW).desc(), F.col(_TURN).desc()))
    marked = every.withColumns({_PHASE: there, _TURN: turn})
    return marked.where(F.col(_NEW) | (~F.col(_PHASE) & (F.col(_TURN) == 1))).drop(_PHASE)


def known_texts(sample: str, past: str) -> list[dict[str, str]]:
    """Three looks at the list of a group's earlier samples, each a column of the one before."""
    ops = SqlAlgebra(0.95)
    own, one = terms(sample, SAMPLE), terms("x", SAMPLE)

    def added(parts: dict[str, Any]) -> dict[str, str]:
        return {
            key: f"aggregate({past}, 0D, (a, x) -> a + coalesce({part}, 0D))"
            for key, part in parts.items()
        }

    def struct(parts: dict[str, str]) -> str:
        return "named_struct(" + ", ".join(f"'{key}', {part}" for key, part in parts.items()) + ")"

    def with_own(sums: dict[str, str], parts: dict[str, Any]) -> dict[str, str]:
        return {key: f"({sums[key]} + coalesce({parts[key]}, 0D))" for key in sums}

    windows = added(windows_of(ops, one))
    first = {f"{past}_earlier": struct(windows)}
    names = {key: f"{past}_earlier.{key}" for key in windows}
    second = {f"{past}_every": struct(with_own(names, windows_of(ops, own)))}
    every, earlier = terms(f"{past}_every", WINDOWS), terms(f"{past}_earlier", WINDOWS)
    moves = with_own(added(moves_of(ops, one, every)), moves_of(ops, own, every))
    body = remembered(ops, own, earlier, every, terms("m", MOVES))
    bound = ", ".join(f"'{key}', {part}" for key, part in moves.items())
    text = f"zip_with(array(named_struct({bound})), array(0), (m, nothing) -> {body})[0]"
    return [first, second, {f"{past}_known": text}]
