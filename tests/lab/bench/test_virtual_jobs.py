"""What the hold benches count, on runs whose answer is known."""

from __future__ import annotations

import math

import pytest

from headgate import FixedRate
from headgate.control.tuning import HoldTuning
from headgate.whatif.microbatch import BatchRun, Cost
from headgate_lab.bench.hold_sweep import _variants
from headgate_lab.bench.virtual_jobs import JOBS, Job, WarmUp, best_constant_rows, hold, hold_cold

JOB = Job("plain", Cost(0.25, 75e-6), 1.0)


def _batch(arrived: int, kept: int, luck: float) -> BatchRun:
    expected = JOB.cost.seconds(kept, arrived)
    return BatchRun(0, 0.0, luck * expected, arrived, kept, 1.0, 0.0, 0, 1.0, "idle", expected)


def test_the_best_constant_budget_keeps_95_in_100_inside() -> None:
    run = [_batch(20_000, 5_000, luck) for luck in [1.0] * 95 + [3.0] * 5]
    rows = best_constant_rows(JOB, run)
    assert rows == pytest.approx(100 * 10_000, rel=1e-3), "10,000 rows take one second"


def test_where_all_fits_all_is_kept_and_where_nothing_does_there_is_no_budget() -> None:
    assert best_constant_rows(JOB, [_batch(1_000, 1_000, 1.0)] * 20) == 20_000
    assert best_constant_rows(JOB, [_batch(1_000, 1_000, 9.0)] * 20) is None


def test_a_rate_tuned_by_hand_is_measured_as_such() -> None:
    held = hold(JOB, 2, noise=0.0, trigger=1.0, seeds=(0,), batches=60, config=lambda _: FixedRate(0.4))
    assert held.inside == 1.0
    assert held.kept == pytest.approx(0.4, rel=0.02)
    assert held.kept_of_best == pytest.approx(0.8, rel=0.02)
    assert held.hopeless == 0.0


def test_the_best_rows_of_a_cold_start_are_those_of_the_batchs_own_prices() -> None:
    found = hold_cold(
        JOB, 2, WarmUp(3, 6, 1), noise=0.0, seeds=(0,), batches=60, config=lambda _: FixedRate(0.1)
    )
    (run,) = found
    _, last = run[-1]
    assert last == pytest.approx(min(10_000, run[-1][0].arrived), rel=0.01), "warm: 10,000 rows fit"
    early = next(best for b, best in run if b.batch == 3)
    dear = 1 + 2 * math.exp(-3 / 6)
    assert early == pytest.approx((1 - dear * 0.25) / (dear * 75e-6), rel=0.01)
    assert all(b.batch > 0 for b, _ in run), "nobody could have held the batch that starts workers"


def test_jobs_are_of_many_kinds() -> None:
    assert min(j.cost.fixed_s for j in JOBS) <= 0.05
    assert max(j.cost.fixed_s for j in JOBS) >= 2
    assert max(j.cost.per_kept_s for j in JOBS) / min(j.cost.per_kept_s for j in JOBS) >= 1_000
    assert max(j.target_s for j in JOBS) / min(j.target_s for j in JOBS) >= 60


def test_the_sweep_moves_each_number_alone() -> None:
    name, _, first = _variants()[0]
    assert (name, first) == ("defaults", HoldTuning())
    moved = {name for name, _, tuning in _variants()[1:] if tuning != HoldTuning()}
    assert {"cost.memory", "margin.step", "whole.enter", "arrivals.batches"} <= moved
