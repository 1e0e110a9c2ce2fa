"""`mean` and `ratio` of what arrived: quotients of two estimated totals, with a t interval."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from headgate.spark.estimates.moments import Weighted, covariance, number, number_of, text_of, total
from headgate.spark.estimates.sql import (
    about,
    check_confidence,
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


def mean(column: str | Column, *, confidence: float = 0.95, weight: str | Column = WEIGHT) -> Column:
    """The mean of all that arrived: Σ w y / Σ w.

    Exact (standard error 0) for a group of which nothing was shed. With a single shed row error and
    interval are null: an error bar needs two.
    """
    check_confidence(confidence)
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
    variance = f"try_divide(({squares}) * try_divide(d.n, d.n - 1), m.w * m.w)"
    body = let("o", {"offset": offset}, symmetric("m.middle + d.shift", variance, "d.n", confidence))
    return estimate(f"mean({text_of(column)})", moments, let("d", values, body))


def ratio(
    numerator: str | Column,
    denominator: str | Column,
    *,
    confidence: float = 0.95,
    weight: str | Column = WEIGHT,
) -> Column:
    """Sum over sum of all that arrived, for instance tips per fare: Σ w a / Σ w b.

    Over the rows where neither is null. The error is the linearised one, so the denominator's own error
    should be small (below a fifth). Null where the denominator adds up to 0.
    """
    check_confidence(confidence)
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
    return estimate(name, moments, let("d", values, symmetric("d.r", variance, "d.n", confidence)))


def _moments(row: Weighted, there: Column) -> dict[str, Column]:
    return {
        "rows": number(there),
        "shed": number(there & row.shed),
        "counted": number(there & row.counted),
        "w": total(row.w, there),
        "v": total(row.v, there),
        "vv": total(row.v * row.v, there),
    }
