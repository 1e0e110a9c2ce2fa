"""Themis-2016, Figure 13: ever more queries on 18 nodes.

Queries of 1 to 6 fragments, placed by Zipf 0.5 (the exponent is not stated); a node's capacity is Figure
8's.
"""

from __future__ import annotations

from headgate_lab.figures.figure import Claim, Samples
from headgate_lab.figures.sweep import Caption, Sweep
from headgate_lab.figures.themis.points import Point, PointRun, over_points
from headgate_lab.figures.themis.policies import (
    BALANCE,
    JAIN,
    JAIN_AXIS,
    MEAN,
    MEAN_AXIS,
    MIN,
    MIRROR,
    NODE_TUPLES,
    OPTIMUM,
    gain,
)
from headgate_lab.sim.themis.deployment import Deployment

__all__ = ["sweep"]

_CAPTION = Caption("themis_fig13", "Fairness and queries", "queries", (JAIN_AXIS, MEAN_AXIS))


def sweep(runs: int | None, quick: bool) -> Sweep[PointRun]:
    """Every number of queries."""
    scale, span = (0.2, (30.0, 15.0)) if quick else (1.0, (75.0, 30.0))
    points = [
        Point(
            queries,
            Deployment(18, None, int(scale * queries), zipf=0.5, node_tuples_s=scale * NODE_TUPLES),
            *span,
        )
        for queries in ((200, 800) if quick else (200, 300, 400, 500, 600, 700, 800))
    ]
    return over_points(_CAPTION, points, (runs, quick, 1, 2), _claims)


def _claims(samples: Samples) -> tuple[Claim, ...]:
    points = [row.x for row in samples.rows() if row.policy == BALANCE]
    fair = min(samples.mean(x, BALANCE, JAIN) for x in points)
    falls = samples.mean(points[-1], BALANCE, MEAN) / samples.mean(points[0], BALANCE, MEAN)
    ahead = min(gain(samples, x) for x in points)
    near = min(samples.mean(x, MIRROR, MIN) / samples.mean(x, OPTIMUM, MIN) for x in points)
    return (
        Claim("fair with any number of queries (least Jain)", fair > 0.97, fair),
        Claim("more queries, lower mean SIC (800 over 200 queries)", falls < 0.5, falls),
        Claim("fairer than random shedding (least gain in Jain)", ahead > 0.05, ahead),
        Claim("ours: mirror's least SIC, of the optimum's (least)", near > 0.98, near),
    )
