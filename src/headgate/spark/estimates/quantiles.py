"""`quantile` and `median` of what arrived, with error bars, from the rows that were kept.

The estimate is the value below which a share p of the weight lies (Särndal, Swensson and Wretman,
*Model Assisted Survey Sampling*, 1992, chapter 5). Spark's `percentile` takes whole frequencies, so a
row counts ``round(1024 w)`` times: between neighbours it steps, where Spark's own interpolates. The
median of what was never shed is Spark's to the last bit; other quantiles may lie one row beside it.

The interval is Woodruff's (1952; same chapter): the share below the true quantile is estimated with a
standard error of √(p (1 - p) Σv) / Σw, and the quantiles at p ∓ t of those are its ends. Spark wants the
percentages as literals, so one call asks for a fixed fan of them, dense around p and reaching to the
least and the greatest row, and the ends are interpolated. An end outside the sample is null: so few rows
do not say how far it goes. The formula takes the shed rows to be spread like all of them; where a gate
sheds one end of the values only (``keep="fare > 50"``), quantiles there have a larger error than stated.
"""

from __future__ import annotations

from operator import sub

from pyspark.sql import Column
from pyspark.sql import functions as F

from headgate.errors import BadArgument
from headgate.spark.estimates.intervals.student import t_sql
from headgate.spark.estimates.moments import Weighted, number, number_of, text_of, total
from headgate.spark.estimates.sql import check_confidence, effective, estimate, fields, let, literal
from headgate.spark.gate.shape import WEIGHT

__all__ = ["FAN", "FREQUENCY", "median", "quantile"]

#: A row of weight 1 counts so often.
FREQUENCY = 1024.0
#: Greater weights count as this one, lest the frequencies overflow.
_MOST = 2.0**30
_PER_OCTAVE, _OCTAVES = 3, 9
#: The fan, as shares of the way from p to 0 and from p to 1: three steps an octave.
FAN = [0.0] + [2.0 ** (i / _PER_OCTAVE - _OCTAVES) for i in range(_PER_OCTAVE * _OCTAVES + 1)]


def quantile(
    column: str | Column, p: float, *, confidence: float = 0.95, weight: str | Column = WEIGHT
) -> Column:
    """The value below which a share `p` of all that arrived lies; `p` strictly between 0 and 1.

    Exact for a group of which nothing was shed; else null error and interval unless two shed rows have
    a value.
    """
    if not isinstance(p, int | float) or isinstance(p, bool) or not 0.0 < p < 1.0:
        raise BadArgument(
            f"p={p!r} is not between 0 and 1 (0.9 for the 90 % quantile); the least and the greatest "
            "value cannot be estimated from a sample: keep= the rows that matter, then F.min or F.max"
        )
    return _quantile(column, float(p), confidence, weight, f"quantile({text_of(column)}, {p:g})")


def median(column: str | Column, *, confidence: float = 0.95, weight: str | Column = WEIGHT) -> Column:
    """The median of all that arrived: `quantile` at 0.5."""
    return _quantile(column, 0.5, confidence, weight, f"median({text_of(column)})")


def _quantile(
    column: str | Column, p: float, confidence: float, weight: str | Column, name: str
) -> Column:
    check_confidence(confidence)
    y, row = number_of(column), Weighted.of(weight)
    there = y.isNotNull()
    below = [max(0.0, p * (1.0 - g)) for g in FAN]
    above = [min(1.0, p + (1.0 - p) * g) for g in FAN]
    often = F.rint(F.least(row.w, F.lit(_MOST)) * FREQUENCY).cast("bigint")
    moments = {
        "rows": F.count(y),
        "shed": number(there & row.shed),
        "thinned": number(row.shed),
        "w": total(row.w, there),
        "v": total(row.v, there),
        "vv": total(row.v * row.v, there),
        "fan": F.percentile(y, [*below, *above], often),
    }
    freedom = f"coalesce({effective('m.v', 'm.vv')} - 1, 1D)"
    first = {"t": let("f", {"n": freedom}, t_sql("f.n", confidence))}
    width = f"d.t * try_divide(sqrt(m.v * {literal(p * (1.0 - p))}), m.w)"
    reach = {"low": f"{width} / {literal(p)}", "high": f"{width} / {literal(1.0 - p)}"}
    known_when = "m.rows > 0 AND (m.thinned = 0 OR m.shed > 1)"
    ends = {
        "low": f"CASE WHEN {known_when} THEN {_at(0, 'r.low')} END",
        "high": f"CASE WHEN {known_when} THEN {_at(len(FAN), 'r.high')} END",
    }
    answer = fields("m.fan[0]", "(e.high - e.low) / (2 * d.t)", "e.low", "e.high")
    return estimate(name, moments, let("d", first, let("r", reach, let("e", ends, answer))))


def _at(first: int, reach: str) -> str:
    """The value at `reach` on the fan whose percentiles begin at index `first`; null beyond its end."""
    starts, spans = (f"array({', '.join(map(literal, xs))})" for xs in (FAN, map(sub, FAN[1:], FAN)))
    step = f"1 + floor({_PER_OCTAVE} * (log2(greatest({reach}, {literal(FAN[1])})) + {_OCTAVES}))"
    index = f"int(CASE WHEN {reach} < {literal(FAN[1])} THEN 0 ELSE least({step}, {len(FAN) - 2}) END)"
    values = {
        "low": f"m.fan[i.at + {first}]",
        "high": f"m.fan[i.at + {first + 1}]",
        "way": f"({reach} - {starts}[i.at]) / {spans}[i.at]",
    }
    between = let("i", {"at": index}, let("p", values, "p.low + (p.high - p.low) * p.way"))
    return f"CASE WHEN {reach} <= 1 THEN {between} END"
