"""Join-2007, Figure 16: what utility-driven selection gains, against the skew of the utilities.

Three types worth 1, 1/2^k and 1/3^k. They come equally often where a name says nothing, or inversely or
directly proportional to their worth. Settings of `join_utility`; inverse frequencies at kappa 0.6, too,
where f is flatter and the type of a tuple says more than its place.
"""

from __future__ import annotations

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.join.points import PointRun, over_points
from headgate_lab.figures.join.policies import (
    BOUND,
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

__all__ = ["sweep"]

_SKEWS, _QUICK = (0.0, 1.0, 2.0, 3.0), (0.0, 3.0)
_INVERSE, _DIRECT, _FLATTER = ", inverse", ", direct", ", kappa 0.6"
#: Power of the utility that a type's frequency goes with, and kappa.
_MODELS = {
    "": (0.0, 0.8),
    _INVERSE: (-1.0, 0.8),
    _DIRECT: (1.0, 0.8),
    _INVERSE + _FLATTER: (-1.0, 0.6),
}
_CAPTION = Caption(
    "join_fig16", "Utility by type frequencies", "utility skewness k", (IMPROVEMENT_AXIS, VALUE_AXIS)
)


def sweep(runs: int | None, quick: bool) -> Sweep[PointRun]:
    """Every skew with every model of frequencies."""
    skews, until = (_QUICK, 100.0) if quick else (_SKEWS, 180.0)
    found = [
        point
        for k in skews
        for suffix, (power, skew) in _MODELS.items()
        for point in points(k, (1.0, 2.0**-k, 3.0**-k), power, suffix, until, True, skew)
    ]
    return over_points(_CAPTION, found, (runs, quick, 1, 4), _claims)


def _claims(samples: Samples) -> tuple[Claim, ...]:
    def more(k: float, suffix: str, kept: str = DECAYED) -> float:
        return gain(samples, k, UTILITY + kept + suffix, DIRECTION + kept + suffix, VALUE)

    grown = {suffix: more(3.0, suffix) - more(0.0, suffix) for suffix in _MODELS}
    best = more(3.0, _INVERSE) - max(more(3.0, ""), more(3.0, _DIRECT))
    published, flatter = more(3.0, _INVERSE, ""), more(3.0, _INVERSE + _FLATTER)
    even = more(0.0, "", "")
    cells = min(
        samples.mean(3.0, CELLS + suffix, VALUE) / samples.mean(3.0, BOUND + suffix, VALUE)
        for suffix in _MODELS
    )
    return (
        Claim(
            "uniform: the gain grows with the skew (from 0 to 3, decay 0.8)",
            grown[""] > 0.02,
            grown[""],
        ),
        Claim(
            "inverse: the gain grows with the skew (the same)", grown[_INVERSE] > 0.02, grown[_INVERSE]
        ),
        Claim("direct: it hardly changes (the same)", abs(grown[_DIRECT]) < 0.08, grown[_DIRECT]),
        Claim("inverse frequencies gain most (lead at skew 3, decay 0.8)", best > 0, best),
        Claim("with the published statistics, too (gain at 3, inverse)", published > 0.05, published),
        Claim(
            "a flatter f gains more (gain at 3, inverse, kappa 0.6, decay 0.8)", flatter > 0.3, flatter
        ),
        Claim(
            "with equal utilities Algorithm 5 loses nothing (gain at 0, as published)",
            even > -0.02,
            even,
        ),
        Claim("ours: cells reach 75 % of the bound (least share at skew 3)", cells >= 0.75, cells),
    )
