"""Themis-2016, Figure 9: fairness with shedding intervals from 50 ms to 1 s.

200 queries of 1 to 3 fragments on 6 nodes, placed evenly; a node's capacity, which the paper does not
state, is 0.2 of its mean load. The interval is also the slide of the source time window.
"""

from __future__ import annotations

from headgate_lab.figures.figure import Axis, Claim, Samples
from headgate_lab.figures.sweep import Caption, Sweep
from headgate_lab.figures.themis.points import Point, PointRun, over_points
from headgate_lab.figures.themis.policies import (
    BALANCE,
    INSTANT,
    JAIN,
    JAIN_AXIS,
    MEAN,
    MEAN_AXIS,
    MIRROR,
)
from headgate_lab.sim.themis.deployment import Deployment
from headgate_lab.sim.themis.layout import Timing

__all__ = ["sweep"]

_INTERVALS, _FEW = (0.05, 0.1, 0.25, 0.5, 1.0), (0.25, 1.0)
_CAPTION = Caption(
    "themis_fig9",
    "Fairness and the shedding interval",
    "shedding interval (ms)",
    (JAIN_AXIS, Axis(INSTANT, "Jain's index, instantaneous"), MEAN_AXIS),
)


def sweep(runs: int | None, quick: bool) -> Sweep[PointRun]:
    """The same federation at every interval."""
    points = [
        Point(
            1000.0 * interval,
            Deployment(6, None, 200, (1, 2, 3), capacity=0.2, timing=Timing(interval_s=interval)),
            *((30.0, 15.0) if quick else (90.0, 30.0)),
        )
        for interval in (_FEW if quick else _INTERVALS)
    ]
    return over_points(_CAPTION, points, (runs, quick, 1, 3), _claims)


def _claims(samples: Samples) -> tuple[Claim, ...]:
    points = [row.x for row in samples.rows() if row.policy == BALANCE]
    fair = [samples.mean(x, BALANCE, JAIN) for x in points]
    means = [samples.mean(x, BALANCE, MEAN) for x in points]
    instant = [samples.mean(x, BALANCE, INSTANT) for x in points]
    ours = [samples.mean(x, MIRROR, INSTANT) for x in points]
    return (
        Claim("fair at any interval (least Jain)", min(fair) > 0.97, min(fair)),
        Claim(
            "the mean SIC is much the same (greatest over least, less 1)",
            max(means) / min(means) < 1.05,
            max(means) / min(means) - 1.0,
        ),
        Claim("fair at every moment, too (least instantaneous Jain)", min(instant) > 0.97, min(instant)),
        Claim("ours: mirror is (least instantaneous Jain)", min(ours) > 0.97, min(ours)),
    )
