"""A run that warms up: prices fall by two to three over the first batches, and are followed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from headgate import HoldDuration
from headgate.control.batch_cost import BatchCost
from headgate.control.futility import FutilityCheck
from headgate.whatif.microbatch import BatchRun, Cost, MicroBatches, Workload

#: (cost when warm, target): as in test_sizes_and_bursts.
JOBS = {
    "plain": (Cost(0.25, 75e-6, noise=0.1), 1.0),
    "demo": (Cost(0.5, 40e-6, 2.8e-6, noise=0.1), 2.0),
    "light": (Cost(0.05, 1e-6, 2e-8, noise=0.1), 0.5),
    "heavy": (Cost(1.0, 1e-3, 1e-5, noise=0.1), 5.0),
    "slow": (Cost(2.0, 20e-6, 2e-7, noise=0.1), 30.0),
}
SEEDS = range(4)


def warming(job: str, factor: float, seed: int, load: float = 5) -> list[tuple[BatchRun, float]]:
    """Batches of a cold start into an overload that began two targets ago, each with its best rows.

    The best are those of somebody who knows the batch's own prices and leaves room for the noise.
    Batches that nobody could hold are left out.
    """
    warm, target = JOBS[job]

    def cost(batch: int, start: float) -> Cost:
        dear = 1.0 + (factor - 1.0) * math.exp(-batch / 6.0)
        starting = target if batch == 0 else 0.0
        return replace(
            warm,
            fixed_s=dear * warm.fixed_s + starting,
            per_kept_s=dear * warm.per_kept_s,
            per_arrived_s=dear * warm.per_arrived_s,
        )

    rows = load * warm.capacity(target)
    engine = MicroBatches(Workload(lambda t: rows, cost, seed=seed), HoldDuration(target))
    engine.now = 2 * target
    found = []
    for batch in engine.run(40):
        at = cost(batch.batch, batch.start)
        aim = target * math.exp(-1.645 * warm.noise)
        best = (aim - at.fixed_s - at.per_arrived_s * batch.arrived) / at.per_kept_s
        if best > 0.011 * batch.arrived:
            found.append((batch, min(best, float(batch.arrived))))
    return found


def kept_of_best(batches: list[tuple[BatchRun, float]], begin: int, end: int) -> float:
    part = [(b.kept, best) for b, best in batches if begin <= b.batch < end]
    return sum(kept for kept, _ in part) / sum(best for _, best in part)


@pytest.mark.parametrize(("factor", "soon", "later"), [(1, 0.85, 0.93), (2, 0.8, 0.92), (3, 0.7, 0.9)])
@pytest.mark.parametrize("job", JOBS)
def test_falling_prices_are_followed_and_95_in_100_batches_are_inside(
    job: str, factor: float, soon: float, later: float
) -> None:
    """With a constant process noise seven tenths of the best were kept, and hardly more after forty."""
    batches = [pair for seed in SEEDS for pair in warming(job, factor, seed)]
    _, target = JOBS[job]
    inside = [b.duration <= target for b, _ in batches if b.batch >= 6]
    # Over 40 seeds 94 in 100 where nothing warms up, 96 to 97 where it does; one standard error of these
    # 140 batches is two in 100.
    assert sum(inside) / len(inside) >= 0.92
    assert max(b.duration for b, _ in batches if b.batch >= 4) < 1.3 * target
    assert kept_of_best(batches, 6, 21) >= soon
    assert kept_of_best(batches, 21, 40) >= later


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_over_all_jobs_no_more_are_outside_than_asked_for(factor: float) -> None:
    """700 batches of five jobs: a standard error is 0.8 in 100."""
    inside = [
        batch.duration <= target
        for job, (_, target) in JOBS.items()
        for seed in SEEDS
        for batch, _ in warming(job, factor, seed)
        if batch.batch >= 6
    ]
    assert sum(inside) / len(inside) >= 0.94


def test_misses_that_all_go_one_way_are_no_noise() -> None:
    """Taken for noise they widen what is forgiven, and the prices are never mended."""
    cost = BatchCost(target_s=2.0)
    for batch in range(40):
        cost.add(10_000, 50_000, 1.5 * 0.95**batch)
    assert cost.noise < 0.06
    assert cost.predict(10_000, 50_000) == pytest.approx(1.5 * 0.95**39, rel=0.15)


def test_a_bound_on_one_price_leaves_what_is_known_of_their_sum() -> None:
    """Kept rows always one in a hundred: neither price is known, and both together are."""
    cost = BatchCost(target_s=2.0)
    for batch in range(60):
        arrived = 300_000 + 1_000 * (batch % 7)
        cost.add(0.01 * arrived, arrived, 0.5 + 5e-6 * arrived)
    assert cost.doubt(3_000, 300_000) < 0.05
    assert cost.predict(3_000, 300_000) == pytest.approx(2.0, rel=0.03)
    assert cost.per_kept_s * 3_000 < 1.5, "a row that arrives is not for nothing"


def test_a_price_of_nothing_does_not_buy_any_number_of_rows() -> None:
    """Two batches that differ in rows, and not in time: the next one keeps some times as many."""
    controller = HoldDuration(1).build()
    engine = MicroBatches(Workload(lambda t: 5e4, Cost(0.4, 1e-9)), HoldDuration(1))
    engine.controller = controller
    batches = engine.run(12)
    most = 0
    for batch in batches[3:]:
        assert batch.kept <= max(30 * most, 60_000)
        most = max(most, batch.kept)


def test_a_target_that_was_given_up_while_the_run_was_cold_is_held_again() -> None:
    """Batches that get shorter by a third each are not in vain, however long they are."""
    check = FutilityCheck()
    seconds = [20.0 * 0.65**n for n in range(6)]
    assert not any(check.add(1_000 if n else 100_000, s, 1.0) for n, s in enumerate(seconds))
    check = FutilityCheck()
    assert any(check.add(1_000 if n else 100_000, 20.0, 1.0) for n in range(6))
    check.try_again()
    assert not check.futile
