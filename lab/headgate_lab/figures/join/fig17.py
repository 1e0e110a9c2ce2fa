"""Join-2007, Figure 17: what utility-driven selection gains, against the number of types.

The best type is worth 10 or 50 times the worst, by Zipf's law, and types come inversely as often as they
are worth. Settings of `join_utility`; only with counts that are kept, for a type that comes rarely is
hardly ever sampled within 5 s. A factor of 10 where a name says no other.
"""

from __future__ import annotations

import math

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.join.points import PointRun, over_points
from headgate_lab.figures.join.policies import (
    CELLS,
    DIRECTION,
    IMPROVEMENT_AXIS,
    UTILITY,
    VALUE,
    VALUE_AXIS,
    gain,
)
from headgate_lab.figures.join.utility import DECAYED, points
from headgate_lab.figures.sweep import Caption, Sweep

__all__ = ["sweep", "utilities"]

_TYPES, _QUICK = (2, 3, 5, 10, 20, 40), (2, 5, 40)
_FACTORS = {"": 10.0, ", factor 50": 50.0}
_CAPTION = Caption(
    "join_fig17",
    "Utility and the number of types",
    "type domain size",
    (IMPROVEMENT_AXIS, VALUE_AXIS),
    x_log=True,
)


def utilities(types: int, factor: float) -> tuple[float, ...]:
    """Utilities that fall by Zipf's law from 1 to 1 / factor.

    >>> [round(worth, 3) for worth in utilities(3, 10.0)]
    [1.0, 0.234, 0.1]
    """
    power = math.log(factor, types)
    return tuple(rank**-power for rank in range(1, types + 1))


def sweep(runs: int | None, quick: bool) -> Sweep[PointRun]:
    """Every number of types with both factors."""
    types, until = (_QUICK, 100.0) if quick else (_TYPES, 180.0)
    found = [
        point
        for count in types
        for suffix, factor in _FACTORS.items()
        for point in points(count, utilities(count, factor), -1.0, suffix, until, published=False)
    ]
    return over_points(_CAPTION, found, (runs, quick, 1, 3), lambda samples: _claims(samples, types))


def _claims(samples: Samples, types: tuple[int, ...]) -> tuple[Claim, ...]:
    def more(count: int, suffix: str = "") -> float:
        return gain(samples, count, UTILITY + DECAYED + suffix, DIRECTION + DECAYED + suffix, VALUE)

    few = max(more(5, suffix) - more(2, suffix) for suffix in _FACTORS)
    rest = [count for count in types if count >= 5]
    drift = max(abs(more(rest[-1], suffix) - more(rest[0], suffix)) for suffix in _FACTORS)
    worst = min(more(count, suffix) for count in types for suffix in _FACTORS)
    cells = [
        gain(samples, count, CELLS + suffix, DIRECTION + DECAYED + suffix, VALUE)
        for count in types
        for suffix in _FACTORS
    ]
    steeper = more(2, ", factor 50") - more(2)
    return (
        Claim("the gain falls with the number of types at first (growth from 2 to 5)", few < 0, few),
        Claim("and is stable soon (greatest change from 5 to 40 types)", drift < 0.05, drift),
        Claim("it is a gain for every number of types (least)", worst > 0, worst),
        Claim("a factor of 50 gains more than one of 10 (difference, 2 types)", steeper > 0, steeper),
        Claim(
            "ours: cells gain over Algorithm 4 for every number of types (least)",
            min(cells) > 0,
            min(cells),
        ),
    )
