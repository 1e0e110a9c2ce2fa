"""What a known size is worth, in virtual time: bursts, whole stretches, outages, first batches."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from headgate import HoldDelay, HoldDuration
from headgate.control.duration import HoldDurationController
from headgate.core.load import LoadSample
from headgate.errors import BadArgument
from headgate.whatif.arrivals import Rate, bursts, step
from headgate.whatif.microbatch import BatchRun, Cost, MicroBatches, Workload

#: (cost, target): the README's query, one of many light rows, one of few heavy ones, one that is slow.
JOBS = {
    "demo": (Cost(0.5, 40e-6, 2.8e-6, noise=0.1), 2.0),
    "light": (Cost(0.05, 1e-6, 2e-8, noise=0.1), 0.5),
    "heavy": (Cost(1.0, 1e-3, 1e-5, noise=0.1), 5.0),
    "slow": (Cost(2.0, 20e-6, 2e-7, noise=0.1), 30.0),
}
EACH_JOB = pytest.mark.parametrize("job", JOBS)


def hold(job: str, rate: Rate | float, seed: int = 0, **around: Any) -> MicroBatches:
    """A job under rows per second in multiples of its capacity."""
    cost, target = JOBS[job]
    capacity, load = cost.capacity(target), rate if callable(rate) else step(rate, rate, 0.0)
    workload = Workload(lambda t: capacity * load(t), cost, seed=seed, **around)
    return MicroBatches(workload, HoldDuration(target))


def inside(batches: list[BatchRun], target: float) -> float:
    return sum(b.duration <= target for b in batches) / len(batches)


@EACH_JOB
@pytest.mark.parametrize("load", [1, 2, 4])
def test_bursts_are_inside_and_none_is_much_longer_than_the_target(job: str, load: float) -> None:
    _, target = JOBS[job]
    batches: list[BatchRun] = []
    for seed in range(3):
        rate = bursts(load, every_s=3 * target, spread=0.6, seed=seed)
        batches += hold(job, rate, seed).run(160)[10:]
    assert inside(batches, target) >= 0.93
    assert max(b.duration for b in batches) < 1.4 * target


@EACH_JOB
@pytest.mark.parametrize("load", [2, 5])
def test_a_source_of_whole_stretches_is_held_and_its_time_is_used(job: str, load: float) -> None:
    """One stretch or two in a batch: a forecast would be off by half each time."""
    _, target = JOBS[job]
    batches: list[BatchRun] = []
    for seed in range(3):
        batches += hold(job, load, seed, granule_s=target / 2).run(160)[10:]
    assert inside(batches, target) >= 0.93
    cut = [b for b in batches if b.kept < b.arrived]
    assert sum(b.duration for b in cut) / len(cut) > 0.8 * target
    assert len(cut) > 100


@EACH_JOB
@pytest.mark.parametrize("load", [2, 5])
def test_noise_of_3_and_of_20_per_cent_leave_as_many_inside(job: str, load: float) -> None:
    cost, target = JOBS[job]
    for noise in (0.03, 0.2):
        engine = hold(job, load)
        engine.workload = replace(engine.workload, cost=replace(cost, noise=noise))
        batches = engine.run(310)[10:]
        assert 0.92 <= inside(batches, target) <= 0.99
        used = sum(b.duration for b in batches) / len(batches) / target
        assert used > (0.93 if noise < 0.1 else 0.68)


@pytest.mark.parametrize(
    ("share", "low", "high"), [(0.8, 0.75, 0.87), (0.95, 0.92, 0.98), (0.99, 0.97, 1.0)]
)
def test_as_many_batches_are_inside_as_people_want(share: float, low: float, high: float) -> None:
    cost, target = JOBS["demo"]
    load = Workload(lambda t: 3 * cost.capacity(target), cost)
    batches = MicroBatches(load, HoldDuration(target, inside=share)).run(600)[20:]
    assert low <= inside(batches, target) <= high


def test_a_heavy_tail_is_learned() -> None:
    """One batch in twenty takes half as long again: a normal margin is too small for that."""
    cost, target = JOBS["demo"]
    odd = replace(cost, fixed_s=1.5 * cost.fixed_s, per_kept_s=1.5 * cost.per_kept_s)
    load = Workload(lambda t: 3 * cost.capacity(target), lambda n, t: odd if n % 20 == 7 else cost)
    batches = MicroBatches(load, HoldDuration(target)).run(1_000)
    assert inside(batches[500:], target) >= 0.93


@EACH_JOB
def test_the_first_batch_after_an_outage_fits(job: str) -> None:
    cost, target = JOBS[job]
    free = replace(cost, per_arrived_s=0.0)
    later: list[BatchRun] = []
    for seed in range(3):
        engine = hold(job, 1.5, seed)
        engine.workload = replace(engine.workload, cost=free)
        engine.run(60)
        engine.restart(down_s=30 * target)
        first, *rest = engine.run(20)
        assert first.arrived > 40 * cost.capacity(target) * target
        assert first.duration <= 1.3 * target
        later += rest
    assert inside(later, target) >= 0.88


def test_the_very_first_batch_of_a_long_backlog_keeps_a_bounded_number_of_rows() -> None:
    cost, target = JOBS["demo"]
    for config, most in (
        (HoldDuration(target), 200_000),
        (HoldDuration(target, first_rows=1e4), 20_000),
    ):
        engine = MicroBatches(Workload(lambda t: 1e5, cost), replace(config, min_keep=0.0001))
        engine.now = 600.0
        first, second = engine.run(2)
        assert first.arrived == pytest.approx(6e7)
        assert first.kept == pytest.approx(most, rel=0.05)
        assert second.kept < first.kept


def test_the_bound_of_a_first_batch_is_said() -> None:
    budget = HoldDuration(2, first_rows=1_000).build().opening(0.0)
    assert budget.keep == 1.0
    assert "at most 2000 rows" in budget.why
    assert budget.fits is not None
    assert budget.at(50_000).keep == pytest.approx(0.04)
    assert HoldDuration(2, first_rows=math.inf).build().opening(0.0).at(10**12).keep == 1.0


@pytest.mark.parametrize("around", [{"size_ratio": 0.8}, {"size_ratio": 1.2}, {"size_spread": 0.2}])
def test_a_size_that_is_off_by_a_fifth_costs_a_little_and_no_more(around: dict[str, float]) -> None:
    _, target = JOBS["heavy"]
    batches: list[BatchRun] = []
    for seed in range(3):
        rate = bursts(3.0, every_s=3 * target, spread=0.5, seed=seed)
        batches += hold("heavy", rate, seed, **around).run(210)[10:]
    assert inside(batches, target) >= 0.87
    assert max(b.duration for b in batches) < 1.7 * target


def test_without_sizes_bursts_overrun_and_the_margin_learns_that() -> None:
    _, target = JOBS["heavy"]
    rate = bursts(3.0, every_s=3 * target, seed=1)
    batches = hold("heavy", rate, size_known=False).run(310)[10:]
    assert inside(batches, target) >= 0.88
    assert max(b.duration for b in batches) < 10 * target


def test_a_stall_now_and_then_is_not_blamed_on_rows() -> None:
    cost, target = JOBS["demo"]
    engine = hold("demo", 0.8, stall=lambda t: 6.0 if int(t) % 97 == 0 else 0.0)
    batches = engine.run(400)
    assert sum(b.duration > 6.0 for b in batches) >= 3
    small = [b for b in batches[10:] if b.arrived < 1.2 * cost.capacity(target)]
    assert all(b.kept == b.arrived for b in small)


@EACH_JOB
def test_monitor_mode_winds_nothing_up(job: str) -> None:
    """Advice that nobody followed is forgotten with the overload: the next batches may run whole."""
    _, target = JOBS[job]
    engine = hold(job, step(1.3, 0.5, 40 * target), follow=False)
    batches = engine.run(150)
    late = [b for b in batches if b.start > 60 * target]
    assert engine.shed == 0
    assert any(b.advice < 1.0 for b in batches)
    assert all(b.advice == 1.0 for b in late[5:])


@pytest.mark.parametrize("load", [2, 5])
def test_a_delay_is_held_in_bursts(load: float) -> None:
    cost, target = JOBS["heavy"]
    capacity = cost.capacity(target)
    rate = bursts(load * capacity, every_s=6 * target, spread=0.5, seed=2)
    batches = MicroBatches(Workload(rate, cost), HoldDelay(2 * target)).run(310)[10:]
    assert sum(b.delay <= 2 * target for b in batches) / len(batches) >= 0.95


def test_a_snapshot_of_0_1_0_goes_on_with_the_line_and_the_rate_that_it_had() -> None:
    learned = {
        "fit": {
            "sums": [2.0, 16_000.0, 1.7, 1.3e8, 14_000.0], "shortest": 0.8, "fixed": 0.25,
            "per_row": 0.75e-4, "miss": 0.05, "last_miss": 0.0, "samples": 40,
        },
        "arrivals": {
            "latest": 5e4, "cautious": 5e4, "arrived": 50_000, "start": 100.0, "end": 100.85,
            "intervals": [1.0], "largest": 5e4, "time_misses": 0.0, "size_misses": 0.0,
        },
        "lag": {"asked": [0.16, 0.16], "behind": False},
        "margin": {"square": 0.01},
        "onset": {"sum": 0.0},
        "release": {"rate": 0.16, "patience": 2, "calm": 0, "since_release": 11},
        "guard": {"before": None, "in_vain": 0, "again": 30, "given_up": None},
        "batches": 40,
        "forecasts": [None, [50_000.0, 0.25, 0.75e-4]],
    }  # fmt: skip
    controller = HoldDuration(1).build(json.loads(json.dumps(learned)))
    budget = controller.opening(102.0)
    assert 0.01 < budget.keep < 0.1, "100,000 rows are waiting"
    assert budget.at(5_000).keep == 1.0
    assert 0.3 < 0.25 + 0.75e-4 * budget.at(100_000).rows < 1.0
    after = controller.decide(LoadSample(41, 102.0, 0.7, 100_000, 6_000))
    assert HoldDuration(1).build(controller.snapshot()).snapshot() == controller.snapshot()
    assert 0.0 < after.keep < 0.2


def test_the_fixed_price_is_never_blamed_on_the_target() -> None:
    """A job that takes 60 % of its target before the first row, begun with a batch of few rows."""
    cost = Cost(0.3, 1e-5, noise=0.05)
    engine = MicroBatches(Workload(lambda t: 2 * cost.capacity(0.5), cost), HoldDuration(0.5))
    batches = engine.run(200)[20:]
    assert inside(batches, 0.5) >= 0.93
    assert sum(b.kept for b in batches) / sum(b.arrived for b in batches) > 0.35


@pytest.mark.parametrize(
    "bad", [{"inside": 0.3}, {"inside": 1.0}, {"inside": True}, {"first_rows": 0}, {"first_rows": -1.0}]
)
def test_settings_that_cannot_be_are_refused(bad: dict[str, Any]) -> None:
    for config in (HoldDuration, HoldDelay):
        with pytest.raises(BadArgument, match=next(iter(bad))):
            config("1 second", **bad)


def test_a_controller_is_told_by_its_budget_how_it_thinks() -> None:
    controller = HoldDuration(1).build()
    assert isinstance(controller, HoldDurationController)
    budget = controller.decide(LoadSample(0, 0.0, 0.9, 9_000, 9_000))
    assert budget.fits is not None
    assert budget.fits.seconds(9_000) == pytest.approx(0.9, rel=0.05)


def test_a_delay_is_held_in_bursts_that_a_cap_turns_into_a_backlog() -> None:
    """A burst waits in the source, which says so; batches are shorter until it has been read.

    A held duration knows nothing of what waits, and leaves it there.
    """
    cost, target = JOBS["heavy"]
    capacity = cost.capacity(target)
    held: dict[str, list[bool]] = {"delay": [], "duration": []}
    for seed in range(3):
        rate = bursts(1.2 * capacity, every_s=3 * target, spread=0.5, seed=seed)
        around = Workload(rate, cost, source_cap=round(capacity * target), seed=seed)
        for name, config in (("delay", HoldDelay(2 * target)), ("duration", HoldDuration(target))):
            batches = MicroBatches(around, config).run(160)[10:]
            held[name] += [b.delay <= 2 * target for b in batches]
    shares = {name: sum(inside) / len(inside) for name, inside in held.items()}
    assert shares["delay"] >= 0.82
    assert shares["duration"] < 0.3
