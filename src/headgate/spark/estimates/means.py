"""`mean` and `ratio` of what arrived: quotients of two estimated totals."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from headgate.spark.estimates.intervals.answers import careful_or_exact, share_or
from headgate.spark.estimates.moments import (
    Weighted,
    column_of,
    covariance,
    number,
    number_of,
    shape,
    text_of,
    total,
)
from headgate.spark.estimates.sql import (
    about,
    check_confidence,
    check_interval,
    effective,
    estimate,
    let,
    symmetric,
    whole,
)
from headgate.spark.gate.shape import WEIGHT

__all__ = ["mean", "ratio"]

#: Whether every shed row is of a counted draw, and of a whole stratum.
_KNOWN = f"(m.counted = m.shed AND {whole('(m.w - (m.rows - m.shed))', 'm.counted')})"


def mean(
    column: str | Column,
    *,
    confidence: float = 0.95,
    weight: str | Column = WEIGHT,
    interval: str = "careful",
) -> Column:
    """The mean of all that arrived: Σ w y / Σ w.

    Exact (standard error 0) for a group of which nothing was shed, whatever is null. With one shed row
    that has a value, or none, error and interval are null: an error bar needs two. The interval minds
    skew, and is never of no width unless all rows were kept (`careful`); that of a condition is
    Wilson's. ``interval="plain"`` is Student's t.
    """
    check_confidence(confidence)
    careful = check_interval(interval)
    y, row = number_of(column), Weighted.of(weight)
    moments = {
        **_moments(row, y.isNotNull()),
        "middle": F.avg(y),
        "wy": covariance(row.w, y),
        "vy": covariance(row.v, y),
        "vyy": covariance(row.v * y, y),
    }
    values = {"shift": "try_divide(m.rows * m.wy, m.w)", "n": effective("m.v", "m.vv"), "known": _KNOWN}
    # Residuals are from the weighted mean; those of counted rows from their own.
    offset = "CASE WHEN d.known THEN coalesce(try_divide(m.rows * m.vy, m.v), 0D) ELSE d.shift END"
    squares = about("m.rows", "m.v", "m.middle", "m.vy", "m.vyy", "o.offset")
    name = f"mean({text_of(column)})"
    variance = f"try_divide(({squares}) * try_divide(d.n, d.n - 1), m.w * m.w)"
    if not careful:
        body = symmetric("m.middle + d.shift", variance, "d.n", confidence)
        return estimate(name, moments, let("d", values, let("o", {"offset": offset}, body)))
    moments |= {**shape(y, row.shed), "kind": F.typeof(F.any_value(column_of(column, "column")))}
    own = about("m.rows", "m.v", "m.middle", "m.vy", "m.vyy", "o.own")
    offsets = {"offset": offset, "own": "coalesce(try_divide(m.rows * m.vy, m.v), 0D)"}
    sample = {
        "value": "m.middle + d.shift",
        "n": "d.n",
        "centre": "m.middle + o.own",
        "square": f"try_divide(({own}) * try_divide(d.n, d.n - 1), m.v)",
        "fixed": "try_divide(m.v, m.w * m.w)",
        "variance": variance,
    }
    answer = share_or(careful_or_exact("m.shed", confidence), confidence)
    body = let("o", offsets, let("r", sample, answer))
    return estimate(name, moments, let("d", values, body))


def ratio(
    numerator: str | Column,
    denominator: str | Column,
    *,
    confidence: float = 0.95,
    weight: str | Column = WEIGHT,
    interval: str = "careful",
) -> Column:
    """Sum over sum of all that arrived, for instance tips per fare: Σ w a / Σ w b.

    Over the rows where neither is null. The error is the linearised one, so the denominator's own error
    should be small (below a fifth). Null where the denominator adds up to 0.
    """
    check_confidence(confidence)
    careful = check_interval(interval)
    a, b = number_of(numerator, "numerator"), number_of(denominator, "denominator")
    row = Weighted.of(weight)
    there = a.isNotNull() & b.isNotNull()
    moments = {
        **_moments(row, there),
        "wa": total(row.w * a, there),
        "wb": total(row.w * b, there),
        "va": total(row.v * a, there),
        "vb": total(row.v * b, there),
        "vaa": total(row.v * a * a, there),
        "vab": total(row.v * a * b, there),
        "vbb": total(row.v * b * b, there),
    }
    values = {"r": "try_divide(m.wa, m.wb)", "n": effective("m.v", "m.vv"), "known": _KNOWN}
    residual = "(m.va - d.r * m.vb)"
    centred = (
        f"CASE WHEN d.known THEN coalesce(try_divide({residual} * {residual}, m.v), 0D) ELSE 0D END"
    )
    squares = f"greatest(0D, m.vaa - 2 * d.r * m.vab + d.r * d.r * m.vbb - ({centred}))"
    variance = f"try_divide({squares} * try_divide(d.n, d.n - 1), m.wb * m.wb)"
    name = f"ratio({text_of(numerator)}, {text_of(denominator)})"
    if not careful:
        body = symmetric("d.r", variance, "d.n", confidence)
        return estimate(name, moments, let("d", values, body))
    # Residuals are counted in ratios, so that those of like groups are of one size.
    each = F.when(b != 0.0, a / F.when(b != 0.0, b)).when(a != 0.0, F.lit(float("inf")))
    moments |= shape(F.when(there, each), row.shed) | {"skew": F.lit(0.0)}
    sample = {
        "value": "d.r",
        "n": "d.n",
        "centre": "d.r",
        "square": f"try_divide(({variance}) * m.w * m.w, m.v)",
        "fixed": "try_divide(m.v, m.w * m.w)",
        "variance": variance,
    }
    body = let("r", sample, careful_or_exact("m.shed", confidence))
    return estimate(name, moments, let("d", values, body))


def _moments(row: Weighted, there: Column) -> dict[str, Column]:
    """Of the rows with a value; `thinned` is of all, as the rows that they stand for may have one."""
    return {
        "rows": number(there),
        "shed": number(there & row.shed),
        "thinned": number(row.shed),
        "counted": number(there & row.counted),
        "w": total(row.w, there),
        "v": total(row.v, there),
        "vv": total(row.v * row.v, there),
    }
