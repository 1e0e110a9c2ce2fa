"""What the LAS figures compare, by public name, and the metrics of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headgate.figures.figure import Axis, Samples
from headgate.las import AverageLatency, LasSettings, PriceShedding, clairvoyant_bound
from headgate.las.price import PriceRule
from headgate.sim.las_queue import LasRun, PublishedPolicy, run
from headgate.sim.las_stream import LasStream, StreamLaw

__all__ = [
    "BASE",
    "BOUND",
    "DROPPED",
    "DROPPED_AXIS",
    "FULL",
    "HARD_KNOWN",
    "LAS",
    "LATENCY",
    "LATENCY_AXIS",
    "OURS",
    "OURS_KNOWN",
    "SHEDDING",
    "SHEDDING_AXIS",
    "SOFT",
    "STRAW",
    "Point",
    "metrics",
    "sweep",
]

BASE, STRAW, LAS, FULL = "Base Line", "Straw-Man", "LAS", "Full Knowledge"
OURS, OURS_KNOWN, HARD_KNOWN, SOFT = (
    "balanced price",
    "balanced price, known costs",
    "hard price, known costs",
    "soft price",
)
BOUND = "clairvoyant bound"
LATENCY, DROPPED, SHEDDING = "average_queueing_latency_s", "dropped_ratio", "shedding_ratio"

#: The paper's axes.
LATENCY_AXIS = Axis(LATENCY, "average queueing latency (ms)", 1e3, log=True)
DROPPED_AXIS = Axis(DROPPED, "dropped ratio")
SHEDDING_AXIS = Axis(SHEDDING, "shedding ratio against Base Line")


@dataclass(frozen=True)
class Point:
    """One place on the x axis: the law of its streams, and the target."""

    x: float | str
    law: StreamLaw
    tau_s: float = 0.0064


def _policies(point: Point, seed: int) -> dict[str, LasSettings | PriceShedding | PublishedPolicy]:
    target = AverageLatency(point.tau_s)
    competitors = {
        name: PublishedPolicy(name, target, under=point.law.under, seed=seed) for name in (BASE, STRAW)
    }
    return {
        **competitors,
        LAS: LasSettings(target, seed=seed),
        FULL: PublishedPolicy(FULL, target),
        OURS: PriceShedding(target, seed=seed),
        SOFT: PriceShedding(target, PriceRule("soft"), seed=seed),
        OURS_KNOWN: PriceShedding(target, costs="known", seed=seed),
        HARD_KNOWN: PriceShedding(target, PriceRule("hard"), costs="known", seed=seed),
    }


def metrics(result: LasRun, base: LasRun | None = None) -> dict[str, float]:
    """The paper's metrics of one run; the shedding ratio only where Base Line drops at all."""
    found = {LATENCY: result.average_latency_s, DROPPED: result.dropped_ratio}
    if base is not None and base.dropped:
        found[SHEDDING] = (result.dropped - base.dropped) / base.dropped
    return found


def sweep(
    points: Iterable[Point],
    runs: int,
    progress: Callable[[int, int], None],
    more: Callable[[Point, LasStream, int, Samples], None] | None = None,
) -> Samples:
    """Every policy at every point, each run on a stream of its own that all policies share."""
    samples, wanted = Samples(), list(points)
    for number, point in enumerate(wanted):
        for seed in range(runs):
            stream = point.law.draw(seed)
            base: LasRun | None = None
            for name, policy in _policies(point, seed).items():
                result = run(stream, policy)
                base = base or result
                samples.add(point.x, name, metrics(result, base))
            if more is not None:
                more(point, stream, seed, samples)
            capacity = float(stream.durations_s.sum()) * (1.0 - max(0.0, point.law.under))
            samples.add(point.x, BOUND, {DROPPED: clairvoyant_bound(stream.durations_s, capacity)})
            progress(number * runs + seed + 1, len(wanted) * runs)
    return samples
