"""Themis-2016, Figure 8: fairness on a single node with ever more queries.

One-fragment queries of the complex workload. The 528,000 tuples a second of the text are exactly 330
queries at Emulab's 150 tuples a second and source (400, the local test-bed's rate, would be 123.75
queries); a mean SIC of 0.1 there makes the node's capacity 52,800.
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
    MIN,
    MIRROR,
    NODE_TUPLES,
    OPTIMUM,
    OSCILLATION,
    RANDOM,
)
from headgate_lab.sim.themis.deployment import Deployment

__all__ = ["sweep"]

_QUERIES, _FEW = (40, 60, 120, 200, 330), (60, 330)
_CAPTION = Caption(
    "themis_fig8",
    "Fairness on a single node",
    "queries",
    (JAIN_AXIS, MEAN_AXIS, Axis(OSCILLATION, "std of a query's SIC over time")),
)


def sweep(runs: int | None, quick: bool) -> Sweep[PointRun]:
    """From hardly overloaded to ten times too much."""
    points = [
        Point(
            queries,
            Deployment(1, None, queries, (1,), node_tuples_s=NODE_TUPLES),
            *((30.0, 15.0) if quick else (120.0, 30.0)),
            shown=(JAIN, INSTANT, MEAN, MIN, OSCILLATION),
        )
        for queries in (_FEW if quick else _QUERIES)
    ]
    return over_points(_CAPTION, points, (runs, quick, 1, 3), _claims)


def _claims(samples: Samples) -> tuple[Claim, ...]:
    points = [row.x for row in samples.rows() if row.policy == BALANCE]
    last = points[-1]

    def mean(x: float | str, policy: str, metric: str) -> float:
        return samples.mean(x, policy, metric)

    least = min(mean(x, BALANCE, JAIN) for x in points)
    swings = max(mean(x, BALANCE, OSCILLATION) / mean(x, BALANCE, MEAN) for x in points)
    calm = max(mean(x, MIRROR, OSCILLATION) / mean(x, MIRROR, MEAN) for x in points)
    ahead = min(mean(x, BALANCE, JAIN) - mean(x, RANDOM, JAIN) for x in points)
    near = min(mean(x, MIRROR, MIN) / mean(x, OPTIMUM, MIN) for x in points)
    return (
        Claim("Jain's index is close to 1 at every load (least)", least > 0.97, least),
        Claim(
            "the mean SIC is about 0.1 at 528,000 tuples/s",
            0.09 < mean(last, BALANCE, MEAN) < 0.115,
            mean(last, BALANCE, MEAN),
        ),
        Claim(
            "the mean SIC falls as queries are added (last less first)",
            mean(last, BALANCE, MEAN) < mean(points[0], BALANCE, MEAN),
            mean(last, BALANCE, MEAN) - mean(points[0], BALANCE, MEAN),
        ),
        Claim(
            "no oscillation (greatest standard deviation over time, of the mean)", swings < 0.05, swings
        ),
        Claim(
            "ours: BALANCE-SIC is fairer than random shedding on one node (least difference of Jain)",
            ahead > 0,
            ahead,
        ),
        Claim("ours: mirror does not oscillate (greatest, of the mean)", calm < 0.05, calm),
        Claim(
            "ours: mirror is fair at every moment (least instantaneous Jain)",
            min(mean(x, MIRROR, INSTANT) for x in points) > 0.99,
            min(mean(x, MIRROR, INSTANT) for x in points),
        ),
        Claim("ours: mirror's least SIC, of the optimum's (least)", near > 0.98, near),
    )
