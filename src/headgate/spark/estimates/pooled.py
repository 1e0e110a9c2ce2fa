"""`pooled`: the error bars of a result, with what its other groups say about spread and skew.

A result of few rows a group knows little about its own errors; what it knows is in the ``sample`` of
every estimate, and a second look at the result puts them together (`borrowing`). In a batch, and so
inside ``foreachBatch``, that is a window function over the result. In a stream it is a second aggregate
over the groups of a time window, in append mode: its state holds the results of windows that are still
open, and no more. What the group's own earlier windows say comes in beside it (`earlier`), in batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headgate.errors import BadArgument
from headgate.spark.estimates.earlier import KNOWN_AS, time_windows, with_known
from headgate.spark.estimates.intervals.algebra import Sql, SqlAlgebra, terms
from headgate.spark.estimates.intervals.borrowing import (
    FIRST,
    SECOND,
    borrowed,
    first_terms,
    second_terms,
)
from headgate.spark.estimates.remembering import KNOWN, LASTING, lasting_of, need_of, told_alone
from headgate.spark.estimates.sql import FIELDS, SAMPLE, check_confidence, let

__all__ = ["answer_text", "pooled"]

_CELLS, _POOL, _PEERS = "_headgate_cells", "_headgate_pool", "_headgate_peers"


def pooled(
    within: str | Sequence[str] = (),
    *,
    by: str | Sequence[str] | None = None,
    earlier: DataFrame | None = None,
    confidence: float = 0.95,
) -> Callable[[DataFrame], DataFrame]:
    """Error bars with the spread of like groups: ``result.transform(hg.pooled("window"))``.

    Groups are alike that agree in the columns `within`; by default all rows of the result are. Every
    estimate of a mean, sum or ratio in the result gets a new standard error and interval; estimates
    stay as they are, and so do counts, quantiles, shares and plain intervals. `confidence` is that of
    the new intervals. A stream is pooled within its time window, which must be named: in append mode,
    or inside ``foreachBatch`` in any.

    A group alone in its time window has nobody to borrow from there, and borrows from the groups that
    are alone in the other windows of the result; in a stream nothing changes for it.

    `by` names the columns by which a group is the same one in every window: its last ten windows then
    say what its spread is, too, as far as they are in this result or in `earlier`, stored results of
    the same query. For batches, and so inside ``foreachBatch``. ``by=()`` is for a result that has
    windows only.
    """
    check_confidence(confidence)
    names, group = _names("within", within), None if by is None else _names("by", by)
    if earlier is not None and (group is None or not isinstance(earlier, DataFrame)):
        raise BadArgument(
            f"earlier={earlier!r} with by={by!r}: give a DataFrame of stored results, and in by= the "
            "columns by which a group is the same one in every window, () if there is one group only"
        )

    def transform(result: DataFrame) -> DataFrame:
        for argument, given in (("within", names), ("by", group or ())):
            missing = [name for name in given if name not in result.columns]
            if missing:
                raise BadArgument(
                    f"{argument}={missing[0]!r} is no column of the result, which has "
                    f"{', '.join(result.columns)}: name what like groups have in common, such as its "
                    "window, as within, and what a group has in every window as by"
                )
        estimates = [field.name for field in result.schema.fields if _is_estimate(field.dataType)]
        if not estimates:
            raise BadArgument(
                "the result has no estimate whose error bar can be pooled: aggregate with hg.mean, "
                "hg.sum or hg.ratio first, and keep their columns whole"
            )
        if not result.isStreaming:
            if group is not None:
                result = with_known(result, group, estimates, earlier, _quoted)
            return _by_windows(result, names, estimates, confidence, group is not None)
        if group is not None:
            raise BadArgument(
                f"by={by!r}: a stream does not remember its windows; pool inside foreachBatch, with the "
                "results that it stored as earlier="
            )
        if not names:
            raise BadArgument(
                "within=(): a stream has no end to pool over; name the column of its time window, "
                'hg.pooled("window"), or pool inside foreachBatch'
            )
        return _by_aggregate(result, names, estimates, confidence)

    return transform


def _names(argument: str, given: str | Sequence[str]) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(name, str) and name for name in names):
        raise BadArgument(f"{argument}={given!r}: give a column's name, or several")
    return names


def _is_estimate(kind: Any) -> bool:
    return isinstance(kind, StructType) and tuple(kind.names) == FIELDS


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _lent(sample: str, parts: dict[str, Any]) -> dict[str, Any]:
    """What a group lends: nothing where it was kept whole, and so has no sample.

    Spark's ``least(null, 10)`` is 10: its rows would be counted, and its values not.
    """
    return {key: f"IF({sample} IS NULL, 0D, {part})" for key, part in parts.items()}


def _sums(parts: dict[str, Any], add: Callable[[str], Column]) -> Column:
    return F.struct(*[F.coalesce(add(str(part)), F.lit(0.0)).alias(key) for key, part in parts.items()])


def _same(names: Sequence[str]) -> WindowSpec:
    return Window.partitionBy(*[F.col(_quoted(name)) for name in names])


def _alike(result: DataFrame, names: Sequence[str]) -> tuple[DataFrame, WindowSpec]:
    """Which groups are alike: those of a window; and those that are alone in theirs, of all windows."""
    windows = [name for name in time_windows(result) if name in names]
    if len(windows) != 1:
        return result, _same(names)
    among = F.when(F.count(F.lit(1)).over(_same(names)) > 1, F.col(_quoted(windows[0])))
    rest = [name for name in names if name not in windows]
    return result.withColumn(_PEERS, among), _same([_PEERS, *rest])


def _by_windows(
    result: DataFrame, names: Sequence[str], estimates: Sequence[str], confidence: float, known: bool
) -> DataFrame:
    ops, columns = SqlAlgebra(confidence), [n for n in result.columns if not n.startswith(KNOWN_AS)]
    result, alike = (result, _same(names)) if known else _alike(result, names)

    def add(part: str) -> Column:
        return F.sum(F.expr(part)).over(alike)

    for turn in (1, 2):
        found = {}
        for number, name in enumerate(estimates):
            sample = f"{_quoted(name)}.sample"
            own = terms(sample, SAMPLE)
            if turn == 1:
                parts = first_terms(ops, own)
            else:
                parts = second_terms(ops, own, terms(f"{_POOL}1_{number}", FIRST))
            found[f"{_POOL}{turn}_{number}"] = _sums(_lent(sample, parts), add)
            if known and turn == 1:
                lasting = lasting_of(ops, own, terms(f"{KNOWN_AS}{number}", KNOWN))
                found[f"{_POOL}3_{number}"] = _sums(_lent(sample, lasting), add)
        result = result.withColumns(found)
    answers = {
        name: F.expr(
            answer_text(
                _quoted(name),
                f"{_POOL}1_{number}",
                f"{_POOL}2_{number}",
                confidence,
                f"{KNOWN_AS}{number}" if known else "",
                f"{_POOL}3_{number}",
            )
        )
        for number, name in enumerate(estimates)
    }
    return result.select(
        *[answers[name].alias(name) if name in answers else F.col(_quoted(name)) for name in columns]
    )


def _by_aggregate(
    result: DataFrame, names: Sequence[str], estimates: Sequence[str], confidence: float
) -> DataFrame:
    ops, columns = SqlAlgebra(confidence), result.columns
    first = {
        f"{_POOL}1_{number}": _sums(
            _lent(sample, first_terms(ops, terms(sample, SAMPLE))), lambda part: F.sum(F.expr(part))
        )
        for number, sample in enumerate(f"{_quoted(name)}.sample" for name in estimates)
    }
    cells = F.collect_list(F.struct(*[F.col(_quoted(name)) for name in columns])).alias(_CELLS)
    pools = result.groupBy(*[F.col(_quoted(name)) for name in names]).agg(
        cells, *[column.alias(name) for name, column in first.items()]
    )
    second = {}
    for number, name in enumerate(estimates):
        sample = f"x.{_quoted(name)}.sample"
        parts = second_terms(ops, terms(sample, SAMPLE), terms(f"{_POOL}1_{number}", FIRST))
        second[f"{_POOL}2_{number}"] = _sums(
            _lent(sample, parts),
            lambda part: F.expr(f"aggregate({_CELLS}, 0D, (a, x) -> a + coalesce({part}, 0D))"),
        )
    rows = pools.withColumns(second).select(
        F.explode(_CELLS).alias(_CELLS), *[F.col(name) for name in (*first, *second)]
    )
    return rows.select(
        *[
            F.expr(
                answer_text(
                    f"{_CELLS}.{_quoted(name)}",
                    f"{_POOL}1_{estimates.index(name)}",
                    f"{_POOL}2_{estimates.index(name)}",
                    confidence,
                )
            ).alias(name)
            if name in estimates
            else F.col(f"{_CELLS}.{_quoted(name)}").alias(name)
            for name in columns
        ]
    )


def answer_text(
    column: str, first: str, second: str, confidence: float, known: str = "", lasting: str = ""
) -> str:
    """The estimate again, with a new standard error and new ends where there is a sample.

    `known` is the column of what earlier windows added to it (`remembering.KNOWN`), if any, and
    `lasting` that of how well such windows foretell the groups of the pool.
    """
    ops = SqlAlgebra(confidence)

    def finish(error: object, low: object, high: object) -> Sql:
        new = {"stderr": error, "low": low, "high": high}
        inside = ", ".join(f"'{name}', {new.get(name, f'e.e.{name}')}" for name in FIELDS)
        return Sql(f"named_struct({inside})")

    old = finish("e.e.stderr", "e.e.low", "e.e.high")
    sample = terms("e.e.sample", SAMPLE)
    sums = terms("e.first", FIRST), terms("e.second", SECOND)
    bound, value = {"e": column, "first": first, "second": second}, Sql("e.e.estimate")
    if known:
        bound |= {"known": known, "lasting": lasting}
        with_earlier = terms("e.known", KNOWN)
        own = told_alone(ops, value, sample, with_earlier, finish, old)
        need = need_of(ops, with_earlier, terms("e.lasting", LASTING))
        new = borrowed(ops, value, sample, *sums, finish, own, with_earlier, need)
    else:
        new = borrowed(ops, value, sample, *sums, finish, old)
    return let("e", bound, f"CASE WHEN e.e.sample.n > 1 THEN {new} ELSE {old} END")
