"""The demo in virtual time: what share it can keep, by what a shed row costs and how cold it begins.

On a real machine a demo keeps 10 to 18 % of its rows at five times the capacity, and one run cannot tell
why: the prices of rows, the warm-up of the JVM and the controller all have their part. Here the prices
are known, and so is what somebody would keep who knew them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headgate import HoldDuration
from headgate.control import Controller
from headgate.whatif.arrivals import step
from headgate.whatif.microbatch import BatchRun, Cost, MicroBatches, Workload
from headgate_lab.bench.virtual_jobs import SETTLING, Job, WarmUp

__all__ = ["demo_rows"]

#: The demo: five times the capacity for 45 s, a target of 2 s, a trigger of 1 s, whole seconds of rows.
_LOAD, _SECONDS, _TARGET_S, _TRIGGER_S = 5.0, 45.0, 2.0, 1.0
_PER_KEPT_S, _NOISE = 19e-6, 0.05
#: What goes before the first row, in targets: a small job, and what the demo's windows take.
_FIXED, _MORE_FIXED = 0.2, (0.5, 0.7)
#: What the demo's gate keeps of its first batch.
_START = 0.1
#: What a row costs that arrives, as shares of a kept one; and by how much all prices fall, over six
#: batches, with workers that start for half a target.
_ARRIVED = (0.0, 0.01, 0.03, 0.07)
_WARM_UPS = (WarmUp(1, 6, 0.0), WarmUp(1.5, 6, 0.5), WarmUp(2, 6, 0.5))


@dataclass(frozen=True)
class _Started:
    """A held target whose first batch keeps no more than a given share."""

    target_s: float
    start: float

    def build(self, snapshot: Mapping[str, Any] | None = None) -> Controller:
        """The controller, held back as a gate with `start` holds it."""
        controller = HoldDuration(self.target_s).build(snapshot)
        if snapshot is None:
            controller.take_over(self.start)
        return controller


def demo_rows(seeds: Sequence[int]) -> list[dict[str, Any]]:
    """One row for each warm-up and price: rows kept, those of the best budget, and batches inside."""
    kinds = [(warm_up, _FIXED) for warm_up in _WARM_UPS] + [(_WARM_UPS[0], f) for f in _MORE_FIXED]
    return [_row(warm_up, fixed, arrived, seeds) for warm_up, fixed in kinds for arrived in _ARRIVED]


def _row(warm_up: WarmUp, fixed: float, arrived: float, seeds: Sequence[int]) -> dict[str, Any]:
    cost = Cost(fixed * _TARGET_S, _PER_KEPT_S, arrived * _PER_KEPT_S, _NOISE)
    job = Job("demo", cost, _TARGET_S)
    runs = [_run(job, warm_up, seed) for seed in seeds]
    batches = [b for run in runs for b in run]
    judged = [b for run in runs for b in (run[SETTLING:] or run)]
    rows = sum(b.arrived for b in batches)
    best = sum(_best(warm_up, job, b) for b in batches)
    return {
        "prices fall by": warm_up.factor,
        "before the first row, of the target": fixed,
        "arrived row, of a kept one": arrived,
        "kept": round(sum(b.kept for b in batches) / rows, 3),
        "best": round(best / rows, 3),
        "inside": round(sum(b.duration <= _TARGET_S for b in judged) / len(judged), 3),
        "longest": round(max(b.duration for b in batches) / _TARGET_S, 2),
    }


def _run(job: Job, warm_up: WarmUp, seed: int) -> list[BatchRun]:
    rate = _LOAD * job.capacity
    load = Workload(
        step(rate, rate, 0.0), warm_up.cost(job), trigger_s=_TRIGGER_S, granule_s=1.0, seed=seed
    )
    engine = MicroBatches(load, _Started(_TARGET_S, _START))
    while engine.now < _SECONDS:
        engine.run(1)
    return [b for b in engine.records if b.arrived]


def _best(warm_up: WarmUp, job: Job, batch: BatchRun) -> float:
    """Rows that somebody would keep who knew the batch's prices, and left room for the noise."""
    cost = warm_up.cost(job)(batch.batch, batch.start)
    room = _TARGET_S * math.exp(-1.645 * _NOISE) - cost.seconds(0.0, batch.arrived)
    return min(float(batch.arrived), max(0.01 * batch.arrived, room / cost.per_kept_s))
