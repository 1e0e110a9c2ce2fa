"""Every LAS policy at points along an axis, each run on a stream of its own that all policies share."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.guards.price import PriceRule
from headgate_lab.figures import sweep as sweeping
from headgate_lab.figures.las.policies import (
    BASE,
    BOUND,
    DROPPED,
    FULL,
    HARD_KNOWN,
    LAS,
    OURS,
    OURS_KNOWN,
    SOFT,
    STRAW,
    metrics,
)
from headgate_lab.figures.sweep import Sample
from headgate_lab.papers.las import AckedPrice, AverageLatency, LasSettings, clairvoyant_bound
from headgate_lab.papers.las.price_shedder import ONLINE
from headgate_lab.sim.las.queue import LasRun, PublishedPolicy, run
from headgate_lab.sim.las.stream import StreamLaw

__all__ = ["Point", "PointRun", "over_points", "run_point"]


@dataclass(frozen=True)
class Point:
    """One point of the x axis: the law of its streams, and the target."""

    x: float | str
    law: StreamLaw
    tau_s: float = 0.0064


#: One run at one point.
PointRun = sweeping.PointRun[Point]


def run_point(item: PointRun) -> list[Sample]:
    """Every policy, and the bound, on the stream of one run."""
    point, stream = item.point, item.point.law.draw(item.seed)
    found: list[Sample] = []
    base: LasRun | None = None
    for name, policy in _policies(point, item.seed).items():
        result = run(stream, policy)
        base = base or result
        found.append((point.x, name, metrics(result, base)))
    capacity = float(stream.durations_s.sum()) * (1.0 - max(0.0, point.law.under))
    bound = clairvoyant_bound(stream.durations_s, capacity)
    return [*found, (point.x, BOUND, {DROPPED: bound})]


def _policies(point: Point, seed: int) -> dict[str, LasSettings | AckedPrice | PublishedPolicy]:
    target = AverageLatency(point.tau_s)
    competitors = {
        name: PublishedPolicy(name, target, under=point.law.under, seed=seed) for name in (BASE, STRAW)
    }
    return {
        **competitors,
        LAS: LasSettings(target, seed=seed),
        FULL: PublishedPolicy(FULL, target),
        OURS: AckedPrice(target, seed=seed),
        SOFT: AckedPrice(target, PriceRule("soft", ki=ONLINE.ki), seed=seed),
        OURS_KNOWN: AckedPrice(target, costs="known", seed=seed),
        HARD_KNOWN: AckedPrice(target, PriceRule("hard", ki=ONLINE.ki), costs="known", seed=seed),
    }


#: Point after point, each with all its runs.
over_points = sweeping.sweeps_of(run_point)
