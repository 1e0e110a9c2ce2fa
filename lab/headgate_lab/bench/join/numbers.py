"""``headgate bench join-numbers``: every tuned number of a join, at half to twice its default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from headgate.control.allowance import ALLOWANCE, AllowanceConfig
from headgate.joins.row_draw.chances import ROW_DRAW, RowDrawConfig
from headgate.spark.join.terms import WORK, WorkConfig
from headgate_lab.bench.numbers import FACTORS, Number, Swept, sweep
from headgate_lab.bench.progress import bench_progress
from headgate_lab.sim.join.batches import BatchJob, run_batches
from headgate_lab.sim.join.drawn_rows import run_drawn
from headgate_lab.sim.join.machine import MachineJob, run_machine
from headgate_lab.sim.join.stream import Workload

__all__ = ["run"]

#: Which comparisons: by items.
_CHOOSING = {
    "dense": BatchJob(Workload(rates=((40.0, 500.0),), skew=0.8), 600_000.0),
    "results cost 100": BatchJob(Workload(rates=((40.0, 500.0),)), 300_000.0, 100.0),
    "sparse": BatchJob(Workload(rates=((60.0, 60.0),), skew=0.8), 8_000.0, basic_s=0.5),
    "bursts": BatchJob(Workload(rates=((22.0, 100.0), (30.0, 600.0), (50.0, 150.0))), 150_000.0),
    "no order of time": BatchJob(
        Workload(rates=((35.0, 500.0),), skew=0.8), 400_000.0, windows_s=(10.0, 10.0), late_s=3.0
    ),
    "large blocks": BatchJob(
        Workload(rates=((26.0, 2000.0),), skew=0.8), 5e6, windows_s=(10.0, 10.0), basic_s=10.0, first=12
    ),
}
#: Which comparisons: by what was learned of lags and types.
_LEARNING = {
    "one delay": BatchJob(Workload(rates=((45.0, 300.0),), skew=0.8), 200_000.0, by_content=False),
    "delays that jump": BatchJob(
        Workload(
            rates=((120.0, 200.0),),
            skew=0.8,
            shift_s=((0.0, 25.0), (30.0, 5.0), (60.0, 33.0), (90.0, 15.0)),
        ),
        100_000.0,
        by_content=False,
        seeds=2,
    ),
    "few rows": BatchJob(Workload(rates=((70.0, 60.0),), skew=0.8), 8_000.0, by_content=False, seeds=5),
    "ten types": BatchJob(
        Workload(rates=((45.0, 300.0),), skew=0.8, types=(1.0,) * 10), 200_000.0, by_content=False
    ),
}
#: Which rows, where three tenths of them fit.
_DRAWING = {
    "rows 12 s apart": BatchJob(
        Workload(rates=((40.0, 1500.0),), skew=0.8, shift_s=12.0), 1e15, at_least=4
    ),
    "rows of one time": BatchJob(
        Workload(rates=((40.0, 1500.0),), skew=0.8, shift_s=0.0), 1e15, at_least=4
    ),
    "rows 25 s apart": BatchJob(Workload(rates=((40.0, 1000.0),), skew=0.6, shift_s=25.0), 1e15),
}
#: How much: machines on which a target has to be held.
_HOLDING = {
    "steady": MachineJob(),
    "many results": MachineJob(pay_off=lambda batch: 0.01),
    "slow comparisons": MachineJob(comparison_s=1e-7, pay_off=lambda batch: 0.0),
    "noise": MachineJob(noise=0.3),
    "little room": MachineJob(fixed_s=1.6),
    "bursts after quiet hours": MachineJob(
        wanted=lambda batch: 1e11 if batch % 50 > 44 else 1e6, batches=150
    ),
    "stalls": MachineJob(stall_s=lambda batch: 6.0 if batch % 15 == 14 else 0.0),
    "slow start": MachineJob(stall_s=lambda batch: (13.0, 7.0, 4.0, 2.0, 1.0, 0.0)[min(5, batch)]),
    "matches jump": MachineJob(pay_off=lambda batch: 1e-4 if batch % 20 < 10 else 1e-2),
}
_QUICK = (
    "dense",
    "one delay",
    "delays that jump",
    "rows 12 s apart",
    "steady",
    "stalls",
    "matches jump",
)

_WORK = (
    Number("explore", "share of the work"),
    Number("small_rows", "rows"),
    Number("full_rows", "rows"),
    Number("open_blocks", "blocks"),
)
_LAGS = (
    Number("lag_stats.half_life", "batches"),
    Number("lag_stats.draws", "draws"),
    Number("lag_stats.first_comparisons", "comparisons"),
    Number("lag_stats.first_density", "matches a comparison"),
    Number("lag_stats.pooled_matches", "matches"),
    Number("lag_stats.surprise_from", "matches"),
    Number("lag_stats.surprise", "share", most=1.0),
    Number("lag_stats.forget_to", "share", most=1.0),
)
_DRAW = (
    Number("explore", "share of the kept rows"),
    Number("least_chance", "chance"),
    Number("memory", "weight", "window"),
    Number("most_ahead", "times"),
)
_ALLOWANCE = (
    Number("allowance.aim", "share of the target", most=1.0),
    Number("allowance.least", "share of the target"),
    Number("allowance.memory", "weight", "window"),
    Number("allowance.inside", "share of batches", "window"),
    Number("allowance.stall", "times what was expected"),
    Number("allowance.telling_s", "seconds"),
    Number("allowance.telling_emitted", "results"),
    Number("allowance.first_fixed", "share of the target"),
    Number("comparison", "first price of a comparison"),
    Number("result", "first price of a result"),
)


@dataclass(frozen=True)
class _Start:
    """An allowance's numbers, and factors on the prices that it begins with."""

    allowance: AllowanceConfig = ALLOWANCE
    comparison: float = 1.0
    result: float = 1.0


def run(
    *, quick: bool, factors: tuple[float, ...] | None = None, jobs: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Tables of what each number does to pairs found, to their error, and to a target's keeping."""
    names = jobs or (_QUICK if quick else (*_CHOOSING, *_LEARNING, *_DRAWING, *_HOLDING))
    moved = factors or ((0.5, 1.0, 2.0) if quick else FACTORS)
    with bench_progress() as progress:
        task = progress.add_task("numbers", total=len((*_WORK, *_LAGS, *_DRAW, *_ALLOWANCE)) + 4)

        def tell(what: str) -> None:
            progress.update(task, description=what)
            progress.advance(task)

        choosing = sweep(WORK, _WORK, _among(_CHOOSING, names), _batches, moved, tell)
        learning = sweep(WORK, _LAGS, _among(_LEARNING, names), _batches, moved, tell)
        drawing = sweep(ROW_DRAW, _DRAW, _among(_DRAWING, names), _drawn, moved, tell)
        holding = sweep(_Start(), _ALLOWANCE, _among(_HOLDING, names), _machine, moved, tell)
    tables = {
        "pairs found, by items": choosing.rows("found"),
        "certainty of the estimate, by items": choosing.rows("certainty"),
        "blocks in the state": choosing.rows("blocks"),
        "pairs found, by lag": learning.rows("found"),
        "pairs found, by rows left out": drawing.rows("found"),
        "certainty of the estimate, by rows left out": drawing.rows("certainty"),
        "comparisons made": holding.rows("made"),
        "batches within the target": holding.rows("inside"),
    }
    parts: tuple[tuple[Swept[Any], str], ...] = (
        (choosing, "found"), (learning, "found"), (drawing, "found"), (holding, "made"),
    )  # fmt: skip
    ratios = {
        f"{name}: furthest from the default": value
        for swept, metric in parts
        for name, value in swept.steepest(metric).items()
    }
    return {"bench": "join-numbers", "ratios": ratios, "context": {"tables": tables}}


def _among(jobs: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: job for name, job in jobs.items() if name in names}


@cache
def _all(job: BatchJob) -> float:
    return float(np.mean([run_batches(job, seed=1 + s, full=True).found for s in range(job.seeds)]))


def _batches(job: BatchJob, config: WorkConfig) -> dict[str, float]:
    runs = [run_batches(job, config, 1 + seed) for seed in range(job.seeds)]
    return {
        "found": float(np.mean([one.found for one in runs])) / _all(job),
        "certainty": 1.0 / float(np.mean([one.error for one in runs])),
        "blocks": float(np.mean([one.blocks for one in runs])),
    }


def _drawn(job: BatchJob, config: RowDrawConfig) -> dict[str, float]:
    one = run_drawn(job, 0.3, config=config)
    return {"found": one.found, "certainty": 1.0 / one.error}


def _machine(job: MachineJob, start: _Start) -> dict[str, float]:
    return run_machine(job, start.allowance, comparison=start.comparison, result=start.result)
