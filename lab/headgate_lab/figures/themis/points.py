"""Federations at points along an axis: every shedder on the same layouts, and the optimum beside them.

A run draws its own layout from its seed. The first seconds are not counted: source time windows fill and
pipelines too. What the paper does not state (capacities, the skew of its Zipf placement) is said by each
figure; a suffix of the policies' names tells settings of one point apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate_lab.figures import sweep as sweeping
from headgate_lab.figures.sweep import Sample
from headgate_lab.figures.themis.policies import (
    INSTANT,
    JAIN,
    MEAN,
    MIN,
    OPTIMUM,
    SHEDDERS,
    WASTE,
    bound_metrics,
    metrics,
)
from headgate_lab.sim.themis.deployment import Deployment, draw
from headgate_lab.sim.themis.federation import run
from headgate_lab.sim.themis.optimum import optimum
from headgate_lab.sim.themis.shedders import Shedding

__all__ = ["Point", "PointRun", "over_points", "run_point"]


@dataclass(frozen=True)
class Point:
    """One point on the x axis: a federation and who is compared."""

    x: float | str
    deployment: Deployment
    #: Seconds of the run, and of its beginning that is not counted.
    seconds: float = 90.0
    warm_s: float = 30.0
    suffix: str = ""
    shedders: tuple[Shedding, ...] = SHEDDERS
    #: Whether the optimum is there; with bursts it is not known.
    bounded: bool = True
    #: Which metrics are told, of those there are: more do not fit on a line.
    shown: tuple[str, ...] = (JAIN, INSTANT, MEAN, MIN, WASTE)


#: One run at one point.
PointRun = sweeping.PointRun[Point]


def run_point(item: PointRun) -> list[Sample]:
    """Every shedder on the layout of one run."""
    point, found = item.point, list[Sample]()

    def add(policy: str, all_: Mapping[str, float]) -> None:
        shown = {name: all_[name] for name in point.shown if name in all_}
        found.append((point.x, policy + point.suffix, shown))

    layout = draw(point.deployment, item.seed)
    best = optimum(layout) if point.bounded else None
    # Drawn first, so that a shedder that reaches it is seen.
    if best is not None:
        add(OPTIMUM, bound_metrics(best))
    for shedder in point.shedders:
        result = run(layout, shedder, point.seconds, item.seed)
        add(shedder.name, metrics(result, point.warm_s, best))
    return found


#: Point after point, each with all its runs.
over_points = sweeping.sweeps_of(run_point)
