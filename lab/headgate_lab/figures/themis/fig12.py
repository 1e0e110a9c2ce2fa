"""Themis-2016, Figure 12: 500 queries on ever more nodes, placed by a Zipf distribution.

Queries of 1 to 6 fragments. The Zipf exponent is not stated: 0.5 and 1. A node's capacity is Figure 8's.
Under Zipf 1 the last of 24 nodes have less than they can do, and no shedder can change that: the optimum
says how fair it can be.
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
    MIRROR,
    NODE_TUPLES,
    OPTIMUM,
)
from headgate_lab.sim.themis.deployment import Deployment

__all__ = ["sweep"]

_SETTINGS = {", Zipf 0.5": 0.5, ", Zipf 1": 1.0}
_CAPTION = Caption("themis_fig12", "Fairness and nodes", "nodes", (JAIN_AXIS, MEAN_AXIS))


def sweep(runs: int | None, quick: bool) -> Sweep[PointRun]:
    """Every number of nodes under both exponents."""
    queries, span = (100, (30.0, 15.0)) if quick else (500, (75.0, 30.0))
    points = [
        Point(
            nodes,
            Deployment(nodes, None, queries, zipf=zipf, node_tuples_s=NODE_TUPLES * queries / 500),
            *span,
            suffix=setting,
        )
        for setting, zipf in _SETTINGS.items()
        for nodes in ((9, 24) if quick else (9, 12, 15, 18, 21, 24))
    ]
    return over_points(_CAPTION, points, (runs, quick, 1, 1), _claims)


def _claims(samples: Samples) -> tuple[Claim, ...]:
    even, skewed = _SETTINGS
    points = [row.x for row in samples.rows() if row.policy == BALANCE + even]

    def mean(x: float | str, policy: str, metric: str) -> float:
        return samples.mean(x, policy, metric)

    grows = mean(points[-1], BALANCE + even, MEAN) / mean(points[0], BALANCE + even, MEAN)
    fair = min(mean(x, BALANCE + even, JAIN) for x in points)
    strained = min(mean(x, BALANCE + skewed, JAIN) for x in points)
    possible = min(mean(x, OPTIMUM + skewed, JAIN) for x in points)
    near = max(
        mean(x, OPTIMUM + setting, JAIN) - mean(x, MIRROR + setting, JAIN)
        for x in points
        for setting in _SETTINGS
    )
    return (
        Claim("more nodes, higher mean SIC (9 to 24 nodes, times)", grows > 2, grows),
        Claim("Jain's index approaches 1 in all cases (least, Zipf 0.5)", fair > 0.97, fair),
        Claim("the same under Zipf 1 (least)", strained > 0.97, strained),
        Claim("which is possible there (the optimum's least)", possible > 0.97, possible),
        Claim(
            "ours: mirror is within 0.01 of the optimum's Jain (greatest distance)", near < 0.01, near
        ),
    )
