"""Student's t: the half width of an interval in standard errors, in Python and in SQL."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from statistics import NormalDist

__all__ = ["normal_quantile", "t_quantile", "t_sql"]

#: Degrees of freedom up to here come from a table, above from an expansion (then good to 1e-6).
_TABLE = 30


def normal_quantile(confidence: float) -> float:
    """The z with P(|Z| < z) = confidence.

    >>> round(normal_quantile(0.95), 4)
    1.96
    """
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


def _within(t: float, freedom: int) -> float:
    """P(|T| < t), by the finite series for whole degrees of freedom (Abramowitz, Stegun, 26.7.3-4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    term = series = cosine if freedom % 2 else 1.0
    for k in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        series += term
    if freedom % 2 == 0:
        return sine * series
    return 2.0 / math.pi * (angle + (sine * series if freedom > 1 else 0.0))


@cache
def t_quantile(freedom: int, confidence: float) -> float:
    """The t with P(|T| < t) = confidence, by bisection.

    >>> [round(t_quantile(n, 0.95), 3) for n in (1, 2, 10)]
    [12.706, 4.303, 2.228]
    """
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        high *= 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return 0.5 * (low + high)


def _expansion(confidence: float) -> list[float]:
    """The normal quantile and the coefficients of 1/n ... 1/n^4 (Abramowitz and Stegun, 26.7.5)."""
    z = normal_quantile(confidence)
    return [
        z,
        (z**3 + z) / 4.0,
        (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0,
        (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0,
        (79.0 * z**9 + 776.0 * z**7 + 1482.0 * z**5 - 1920.0 * z**3 - 945.0 * z) / 92160.0,
    ]


def t_sql(freedom: str, confidence: float) -> str:
    """`t_quantile` in SQL, for degrees of freedom that need not be whole; below 1 they count as 1.

    Between two whole numbers it is interpolated in 1 / freedom: a little above the truth, as t is convex
    in it. `freedom` is mentioned many times: give a name, not a long expression.
    """
    values = [t_quantile(n, confidence) for n in range(1, _TABLE + 2)]
    steps = [high - low for low, high in pairwise(values)]
    at = f"greatest({freedom}, 1D)"
    below = f"int(floor({at}))"
    value, step = (f"array({', '.join(f'{x!r}D' for x in xs)})[{below} - 1]" for xs in (values, steps))
    between = f"{value} + {step} * ({at} - {below}) * ({below} + 1) / {at}"
    series = "0D"
    for coefficient in reversed(_expansion(confidence)):
        series = f"{coefficient!r}D + ({series}) / {at}"
    return f"CASE WHEN {at} < {_TABLE + 1} THEN {between} ELSE {series} END"
