"""A machine with known prices, on which an allowance has to hold a target: in virtual time.

A batch takes a fixed time, so much a comparison, so much a result written, and so much a result in the
rest of the query; all with noise. The allowance is told what a worker would have measured of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headgate.control.allowance import ALLOWANCE, Allowance, AllowanceConfig, Spent

__all__ = ["Machine", "MachineJob", "run_machine"]


@dataclass
class Machine:
    """Prices in seconds; `noise` is the share by which a batch's fixed time varies."""

    fixed_s: float
    comparison_s: float
    emit_s: float
    behind_s: float
    shards: int = 2
    noise: float = 0.03
    #: What the calls of a batch take besides, in comparing and in writing.
    calls_s: float = 0.003

    def batch(
        self, wanted: float, pay_off: float, allowance: Allowance, luck: np.random.Generator
    ) -> Spent:
        """A batch that wants so many comparisons at each shard, of which `pay_off` match."""
        made = min(wanted, allowance.work / (1.0 + allowance.result_units * pay_off))
        results = made * pay_off
        compare, emit = made * self.comparison_s + self.calls_s, results * self.emit_s + self.calls_s
        behind = results * self.shards * self.behind_s
        fixed = self.fixed_s * float(luck.lognormal(0.0, self.noise))
        return Spent(
            fixed + compare + emit + behind, compare, made, emit, results, results * self.shards
        )


@dataclass(frozen=True)
class MachineJob:
    """A target, a machine, and what batches want of it."""

    fixed_s: float = 0.5
    comparison_s: float = 1e-9
    noise: float = 0.1
    target_s: float = 2.0
    #: By the number of the batch: comparisons wanted, the share that matches, extra seconds (a stall).
    wanted: Callable[[int], float] = lambda batch: 1e12
    pay_off: Callable[[int], float] = lambda batch: 1e-3
    stall_s: Callable[[int], float] = lambda batch: 0.0
    batches: int = 60
    #: The first batch that counts.
    first: int = 5


def run_machine(
    job: MachineJob,
    config: AllowanceConfig = ALLOWANCE,
    *,
    comparison: float = 1.0,
    result: float = 1.0,
    seeds: int = 5,
) -> dict[str, float]:
    """Comparisons made a batch, and the share of batches within the target.

    `comparison` and `result` are factors on the prices that the allowance begins with.
    """
    made, inside = [], []
    for seed in range(seeds):
        luck = np.random.default_rng([seed, 7])
        machine = Machine(job.fixed_s, job.comparison_s, 2e-7, 1e-7, noise=job.noise)
        allowance = Allowance(job.target_s, 2, 2e-9 * comparison, 4e-7 * result, config)
        for batch in range(job.batches):
            spent = machine.batch(job.wanted(batch), job.pay_off(batch), allowance, luck)
            late = Spent(spent.duration_s + job.stall_s(batch), *_rest(spent))
            allowance.learn(late)
            if batch >= job.first:
                made.append(spent.comparisons)
                inside.append(spent.duration_s <= job.target_s)
    return {"made": float(np.mean(made)), "inside": float(np.mean(inside))}


def _rest(spent: Spent) -> tuple[float, float, float, float, float]:
    return spent.compare_s, spent.comparisons, spent.emit_s, spent.shard_results, spent.results
