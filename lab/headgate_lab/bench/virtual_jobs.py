"""Jobs and loads in virtual time, and how a target is held: for `hold-virtual` and `hold-sweep`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from headgate import HoldDuration
from headgate.control import ControllerConfig
from headgate.whatif.arrivals import Arrivals, Rate, bursts, step
from headgate.whatif.microbatch import BatchRun, Cost, CostModel, MicroBatches, Workload

__all__ = [
    "JOBS", "SHAPES", "WARM_UPS", "Held", "Job", "WarmUp", "best_constant_rows", "hold", "hold_cold",
]  # fmt: skip

#: The first batches of a run are no part of its figures.
SETTLING = 10
#: The share of batches that should be inside the target.
INSIDE = 0.95
#: A batch could have been held if its rows take less than this share of the target when none is kept.
_POSSIBLE = 0.8


@dataclass(frozen=True)
class Job:
    """What a query costs, and the duration that its batches should have."""

    name: str
    cost: Cost
    target_s: float

    @property
    def capacity(self) -> float:
        """Rows a second at which whole batches settle at the target."""
        return self.cost.capacity(self.target_s)


#: Fixed prices from 0.05 to 2 s, rows from a microsecond to a millisecond, targets from 0.5 to 30 s. An
#: arrived row costs up to 7 % of a kept one; `edge` spends most of its target before the first row.
JOBS = (
    Job("plain", Cost(0.25, 75e-6), 1.0),
    Job("demo", Cost(0.5, 40e-6, 2.8e-6), 2.0),
    Job("light", Cost(0.05, 1e-6, 2e-8), 0.5),
    Job("heavy", Cost(1.0, 1e-3, 1e-5), 5.0),
    Job("slow", Cost(2.0, 20e-6, 2e-7), 30.0),
    Job("edge", Cost(0.3, 10e-6), 0.5),
)

#: How rows come: smoothly; in bursts that last three targets, by a log-normal factor of spread 0.7; by
#: whole stretches of half a target; at most one and a half targets' worth in a batch, with a backlog.
SHAPES = ("smooth", "bursts", "whole stretches", "capped")


@dataclass(frozen=True)
class Held:
    """How a target was held, over the batches of some runs after the tenth of each."""

    #: Share of batches inside the target, of those that any budget could have held.
    inside: float
    #: The longest of those batches, in targets.
    longest: float
    #: Rows kept, by the rows that the best constant budget would have kept, and by those that arrived.
    kept_of_best: float
    kept: float
    #: Share of batches whose rows took most of the target before any was kept: in no figure above.
    hopeless: float


def workload(
    job: Job, load: float, shape: str = "smooth", *, trigger: float = 0.0, seed: int = 0
) -> Workload:
    """A job under a load in multiples of its capacity; `trigger` is in targets."""
    target = job.target_s
    return Workload(
        _rows(load * job.capacity, target, shape, seed),
        job.cost,
        trigger_s=trigger * target,
        source_cap=math.ceil(1.5 * job.capacity * target) if shape == "capped" else None,
        seed=seed,
    )


@lru_cache(maxsize=512)
def _rows(per_s: float, target_s: float, shape: str = "smooth", seed: int = 0) -> Arrivals:
    """The same rows for every controller that is tried on them: they are summed up once."""
    rate: Rate = step(per_s, per_s, 0.0)
    if shape == "bursts":
        rate = bursts(per_s, every_s=3 * target_s, seed=1000 + seed)
    return Arrivals(rate, granule_s=target_s / 2 if shape == "whole stretches" else 0.0)


def hold(
    job: Job,
    load: float,
    shape: str = "smooth",
    *,
    noise: float = 0.1,
    trigger: float = 0.0,
    seeds: Sequence[int] = (0, 1, 2),
    batches: int = 310,
    config: Callable[[float], ControllerConfig] = HoldDuration,
    **around: Any,
) -> Held:
    """The figures of a job under a load, over several seeds."""
    job = replace(job, cost=replace(job.cost, noise=noise))
    runs = [
        MicroBatches(
            replace(workload(job, load, shape, trigger=trigger, seed=seed), **around),
            config(job.target_s),
        ).run(batches)[SETTLING:]
        for seed in seeds
    ]
    return _figures(job, runs)


def _figures(job: Job, runs: list[list[BatchRun]]) -> Held:
    every = [b for run in runs for b in run]
    could = [
        [b for b in run if job.cost.seconds(0, b.arrived) <= _POSSIBLE * job.target_s] for run in runs
    ]
    possible = [b for run in could for b in run]
    best = [best_constant_rows(job, run) for run in could]
    of_best = [sum(b.kept for b in run) / rows for run, rows in zip(could, best, strict=True) if rows]
    return Held(
        inside=sum(b.duration <= job.target_s for b in possible) / len(possible),
        longest=max(b.duration for b in possible) / job.target_s,
        kept_of_best=sum(of_best) / len(of_best) if of_best else math.nan,
        kept=sum(b.kept for b in every) / sum(b.arrived for b in every),
        hopeless=1.0 - len(possible) / len(every),
    )


@dataclass(frozen=True)
class WarmUp:
    """How a run gets going: prices begin at so many times what they will be, and fall batch by batch.

    After `over` batches 37 % of what they were too high is left. The first batch starts workers besides,
    for `start_up` targets, and the second for a third of that.
    """

    factor: float
    over: float
    start_up: float

    def cost(self, job: Job) -> CostModel:
        """What a job costs while it warms up."""

        def at(batch: int, start: float) -> Cost:
            dear = 1.0 + (self.factor - 1.0) * math.exp(-batch / self.over)
            starting = self.start_up * job.target_s * (1.0, 1.0 / 3.0, 0.0)[min(batch, 2)]
            warm = job.cost
            return Cost(
                dear * warm.fixed_s + starting,
                dear * warm.per_kept_s,
                dear * warm.per_arrived_s,
                warm.noise,
            )

        return at


#: Workers alone; rows that become two, three and four times cheaper.
WARM_UPS = (WarmUp(1, 6, 1.5), WarmUp(2, 6, 0.5), WarmUp(3, 6, 1.0), WarmUp(4, 8, 0.5))


def hold_cold(
    job: Job,
    load: float,
    warm_up: WarmUp,
    *,
    noise: float = 0.1,
    seeds: Sequence[int] = (0, 1, 2),
    batches: int = 40,
    config: Callable[[float], ControllerConfig] = HoldDuration,
) -> list[list[tuple[BatchRun, float]]]:
    """A cold start into an overload that began two targets ago: by run, each batch and its best rows.

    The best are those that somebody would keep who knew the batch's own prices and left room for the
    noise, so that 95 % end inside. Batches in which that is the least share are left out.
    """
    job = replace(job, cost=replace(job.cost, noise=noise))
    aim, cost = job.target_s * math.exp(-1.645 * noise), warm_up.cost(job)
    runs = []
    for seed in seeds:
        rows = _rows(load * job.capacity, job.target_s)
        engine = MicroBatches(Workload(rows, cost, seed=seed), config(job.target_s))
        engine.now = 2 * job.target_s
        found = []
        for b in engine.run(batches):
            at = cost(b.batch, b.start)
            best = (aim - at.fixed_s - at.per_arrived_s * b.arrived) / at.per_kept_s
            if best > 0.011 * b.arrived:
                found.append((b, min(float(b.arrived), best)))
        runs.append(found)
    return runs


def best_constant_rows(job: Job, run: list[BatchRun]) -> float | None:
    """Rows that the best constant budget would have kept of a run's batches, 95 % of them inside.

    Each batch has its own luck, which is known afterwards: what it took by what its rows cost. None
    where no budget would have done.
    """
    rows = np.array([b.arrived for b in run], np.float64)
    luck = np.array([b.duration / b.expected for b in run])
    cost = job.cost

    def inside(budget: float) -> bool:
        kept = np.minimum(rows, budget)
        times = (cost.fixed_s + cost.per_kept_s * kept + cost.per_arrived_s * rows) * luck
        return int((times <= job.target_s).sum()) >= INSIDE * len(run)

    low, high = 0.0, float(rows.max())
    if not inside(low):
        return None
    if inside(high):
        low = high
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if inside(middle) else (low, middle)
    return float(sum(np.minimum(rows, low).tolist()))
