"""Themis-2016, Figure 11: fairness as more queries have three fragments instead of one.

10 nodes, 2,000 fragments. The paper says that all nodes have roughly the same load; then nothing is to
be balanced, and the curve is flat. So there are also nodes loaded by Zipf 0.5 and 1. Capacity: 0.3 of
the mean load.
"""

from __future__ import annotations

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.sweep import Caption, Sweep
from headgate_lab.figures.themis.points import Point, PointRun, over_points
from headgate_lab.figures.themis.policies import (
    BALANCE,
    JAIN,
    JAIN_AXIS,
    MEAN_AXIS,
    MIN,
    MIRROR,
    OPTIMUM,
)
from headgate_lab.sim.themis.deployment import Deployment

__all__ = ["sweep"]

_SETTINGS = {", even": 0.0, ", Zipf 0.5": 0.5, ", Zipf 1": 1.0}
_CAPTION = Caption(
    "themis_fig11",
    "Fairness and multi-fragment queries",
    "share of three-fragment queries",
    (JAIN_AXIS, MEAN_AXIS),
)


def sweep(runs: int | None, quick: bool) -> Sweep[PointRun]:
    """Every share in every setting."""
    nodes, fragments, span = (6, 200, (30.0, 15.0)) if quick else (10, 2000, (75.0, 30.0))
    shares = (0.0, 1.0) if quick else (0.0, 0.25, 0.5, 0.75, 1.0)
    points = [
        Point(
            share,
            Deployment(nodes, fragments, None, (1, 3), (1.0 - share, share), zipf=zipf, capacity=0.3),
            *span,
            suffix=setting,
        )
        for setting, zipf in _SETTINGS.items()
        for share in shares
    ]
    return over_points(_CAPTION, points, (runs, quick, 1, 1), _claims)


def _claims(samples: Samples) -> tuple[Claim, ...]:
    def rise(setting: str) -> float:
        policy = BALANCE + setting
        return samples.mean(1.0, policy, JAIN) - samples.mean(0.0, policy, JAIN)

    even, some, much = (rise(setting) for setting in _SETTINGS)
    near = min(
        samples.mean(row.x, MIRROR + setting, MIN) / samples.mean(row.x, OPTIMUM + setting, MIN)
        for setting in _SETTINGS
        for row in samples.rows()
        if row.policy == MIRROR + setting
    )
    return (
        Claim(
            "more multi-fragment queries, more fairness, on even load (rise of Jain from 0 to 1)",
            even > 0.005,
            even,
        ),
        Claim("the same under Zipf 0.5 (rise)", some > 0.02, some),
        Claim("the same under Zipf 1 (rise)", much > 0.02, much),
        Claim("ours: mirror's least SIC, of the optimum's (least)", near > 0.98, near),
    )
