"""Do the shipped controllers hold their targets? Thousands of batches in virtual time.

The job costs 0.25 s a batch and 75 microseconds a row, with 10 % noise. Its capacity is the load at
which a batch of one second's rows takes one second: 10,000 rows/s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from headgate import HoldDelay, HoldDuration
from headgate.control import ControllerConfig
from headgate.whatif.microbatch import BatchRun, Cost, CostModel, MicroBatches, Workload

pytestmark = pytest.mark.slow  # hours of virtual time

COST = Cost(fixed_s=0.25, per_kept_s=0.75e-4, noise=0.1)
CAPACITY = COST.capacity(1.0)
HOLD = HoldDuration("1 second")
DELAY = HoldDelay("2 seconds")
TRIGGERS = pytest.mark.parametrize("trigger_s", [1.0, 0.0], ids=["1 s", "asap"])
SIZES = pytest.mark.parametrize("size_known", [True, False], ids=["size known", "size unknown"])
LAGS = pytest.mark.parametrize("plan_lag", [False, True], ids=["prompt", "lagging"])
SEEDS = range(6)


def engine(
    load: float | Callable[[float], float],
    config: ControllerConfig = HOLD,
    cost: Cost | CostModel = COST,
    **around: object,
) -> MicroBatches:
    """An engine under a load given in multiples of the capacity."""
    at = load if callable(load) else lambda t: load
    workload = Workload(lambda t: CAPACITY * at(t), cost, **around)  # type: ignore[arg-type]
    return MicroBatches(workload, config)


def share(found: Iterable[bool]) -> float:
    values = list(found)
    return sum(values) / len(values)


def kept_share(batches: list[BatchRun]) -> float:
    return sum(b.kept for b in batches) / sum(b.arrived for b in batches)


def first_after(batches: list[BatchRun], instant: float) -> int:
    return next(i for i, b in enumerate(batches) if b.start > instant)


# ------------------------------------------------------------------------------- steady overload


@LAGS
@TRIGGERS
@pytest.mark.parametrize("load", [2, 5, 10])
def test_95_in_100_batches_are_inside_the_target_and_three_quarters_of_the_ideal_are_kept(
    load: float, trigger_s: float, plan_lag: bool
) -> None:
    batches: list[BatchRun] = []
    for seed in SEEDS:
        run = engine(load, trigger_s=trigger_s, plan_lag=plan_lag, seed=seed).run(310)
        batches += run[10:]
    assert share(b.duration <= 1.0 for b in batches) >= 0.95
    assert max(b.duration for b in batches) < 1.35
    ideal = COST.ideal_keep(load * CAPACITY, 1.0, 1.0)  # knows all, and meets no noise
    assert kept_share(batches) >= 0.75 * ideal


@TRIGGERS
def test_rows_that_are_shed_may_cost_something_too(trigger_s: float) -> None:
    cost = replace(COST, per_arrived_s=0.01 * COST.per_kept_s)
    batches: list[BatchRun] = []
    for seed in SEEDS:
        batches += engine(10, cost=cost, trigger_s=trigger_s, seed=seed).run(310)[10:]
    assert share(b.duration <= 1.0 for b in batches) >= 0.95
    assert kept_share(batches) >= 0.7 * cost.ideal_keep(10 * CAPACITY, 1.0, 1.0)


@LAGS
@TRIGGERS
@pytest.mark.parametrize("load", [2, 5, 10])
def test_a_delay_is_held_for_95_in_100_batches(load: float, trigger_s: float, plan_lag: bool) -> None:
    batches: list[BatchRun] = []
    for seed in SEEDS:
        run = engine(load, DELAY, trigger_s=trigger_s, plan_lag=plan_lag, seed=seed).run(310)
        batches += run[10:]
    assert share(b.delay <= 2.0 for b in batches) >= 0.95
    assert kept_share(batches) >= 0.75 * COST.ideal_keep(load * CAPACITY, 1.0, 1.0)


@LAGS
@TRIGGERS
@pytest.mark.parametrize("config", [HOLD, DELAY], ids=["hold", "delay"])
def test_exactly_at_capacity_nothing_snowballs(
    config: ControllerConfig, trigger_s: float, plan_lag: bool
) -> None:
    batches: list[BatchRun] = []
    for seed in SEEDS:
        run = engine(1, config, trigger_s=trigger_s, plan_lag=plan_lag, seed=seed).run(310)
        batches += run[10:]
    # Whole batches take the target on average, so half of them would be over it without a gate.
    assert share(b.duration <= 1.0 for b in batches) >= 0.75
    assert max(b.duration for b in batches) < 2.0
    assert kept_share(batches) >= 0.7


@TRIGGERS
def test_a_quiet_job_is_held_closer_to_its_target(trigger_s: float) -> None:
    quiet = replace(COST, noise=0.01)
    batches = engine(4, cost=quiet, trigger_s=trigger_s).run(200)[20:]
    assert share(b.duration <= 1.0 for b in batches) == 1.0
    assert kept_share(batches) >= 0.85 * COST.ideal_keep(4 * CAPACITY, 1.0, 1.0)


# ------------------------------------------------------------------------------------ no overload


@SIZES
@TRIGGERS
@pytest.mark.parametrize("config", [HOLD, DELAY], ids=["hold", "delay"])
def test_nothing_is_shed_in_an_hour_at_nine_tenths_of_the_capacity(
    config: ControllerConfig, trigger_s: float, size_known: bool
) -> None:
    run = engine(0.9, config, trigger_s=trigger_s, size_known=size_known, seed=5)
    run.run(3600)
    assert run.shed == 0


# ------------------------------------------------------------------------------------------ steps


@TRIGGERS
@pytest.mark.parametrize("load", [2, 5, 10])
def test_a_step_up_is_met_by_the_first_batch_that_has_it(load: float, trigger_s: float) -> None:
    later: list[BatchRun] = []
    for seed in range(12):
        run = engine(lambda t: load if t >= 40 else 0.5, trigger_s=trigger_s, seed=seed)
        batches = run.run(150)
        step = first_after(batches, 40.0)
        assert batches[step].duration <= 1.4, "the batch that meets the step is cut already"
        later += batches[step : step + 23]
    assert share(b.duration <= 1.0 for b in later) >= 0.94


@TRIGGERS
@pytest.mark.parametrize("load", [2, 5, 10])
def test_with_a_lagging_plan_a_step_up_costs_two_more_batches(load: float, trigger_s: float) -> None:
    later: list[BatchRun] = []
    for seed in range(12):
        run = engine(lambda t: load if t >= 40 else 0.5, trigger_s=trigger_s, plan_lag=True, seed=seed)
        batches = run.run(150)
        step = first_after(batches, 40.0)
        later += batches[step + 5 : step + 25]
    assert share(b.duration <= 1.0 for b in later) >= 0.93


@TRIGGERS
@pytest.mark.parametrize(("after", "most"), [(0.5, 0), (0.8, 3)])
@pytest.mark.parametrize("load", [2, 5, 10])
def test_after_a_step_down_batches_that_fit_run_whole_at_once(
    load: float, after: float, most: int, trigger_s: float
) -> None:
    """What is just below the aim waits until three batches show that the load fell."""
    for seed in SEEDS:
        run = engine(lambda t: load if t < 60 else after, trigger_s=trigger_s, seed=seed)
        batches = run.run(300)
        last = first_after(batches, 60.0)  # the last batch with rows of the overload in it
        assert all(b.kept == b.arrived for b in batches[last + 1 + most :])


@TRIGGERS
@pytest.mark.parametrize("load", [2, 5, 10])
def test_without_sizes_shedding_ends_after_as_many_batches_as_the_rate_was_halved(
    load: float, trigger_s: float
) -> None:
    for seed in SEEDS:
        run = engine(lambda t: load if t < 60 else 0.5, trigger_s=trigger_s, size_known=False, seed=seed)
        batches = run.run(200)
        last = first_after(batches, 60.0)
        most = math.ceil(math.log2(load / 0.5)) + 3
        assert all(b.kept == b.arrived for b in batches[last + 1 + most :])


# ------------------------------------------------------------------------------- unpleasant things


@TRIGGERS
def test_a_slow_sink_is_not_blamed_on_rows(trigger_s: float) -> None:
    run = engine(0.5, trigger_s=trigger_s, stall=lambda t: 3.0 if 20 <= t < 200 else 0.0)
    batches = run.run(120)
    stalled = [b for b in batches if 20 <= b.start < 200]
    gave_up = next(i for i, b in enumerate(stalled) if b.state == "futile")
    assert gave_up <= 10
    open_again = stalled[gave_up + 1 : gave_up + 26]
    assert all(b.keep == 1.0 for b in open_again)
    # The load fits beside the stall, and durations settle: 3.25 / (1 - 0.375) = 5.2 s.
    assert max(b.duration for b in stalled) < 7.0
    healed = batches[first_after(batches, 200.0) + 8 :]
    assert all(b.keep == 1.0 and b.state == "idle" for b in healed)


@TRIGGERS
def test_a_slow_sink_under_overload_does_not_snowball(trigger_s: float) -> None:
    run = engine(2, trigger_s=trigger_s, stall=lambda t: 3.0 if 20 <= t < 200 else 0.0)
    batches = run.run(150)
    stalled = [b for b in batches if 20 <= b.start < 200]
    assert "futile" in {b.state for b in stalled}
    assert max(b.duration for b in stalled) < 10.0
    healed = batches[first_after(batches, 200.0) + 8 :]
    assert share(b.duration <= 1.0 for b in healed) >= 0.95


@TRIGGERS
def test_a_price_that_doubles_at_once_is_followed_within_six_batches(trigger_s: float) -> None:
    dear = replace(COST, per_kept_s=2 * COST.per_kept_s)
    later: list[BatchRun] = []
    for seed in SEEDS:
        run = engine(3, cost=lambda n, t: COST if t < 40 else dear, trigger_s=trigger_s, seed=seed)
        batches = run.run(120)
        change = first_after(batches, 40.0)
        later += batches[change + 6 : change + 36]
    assert share(b.duration <= 1.0 for b in later) >= 0.95
    ideal = dear.ideal_keep(3 * CAPACITY, 1.0, 1.0)
    assert kept_share(later) >= 0.7 * ideal


@TRIGGERS
@pytest.mark.parametrize("load", [0.5, 2])
def test_a_cold_start_is_forgotten(load: float, trigger_s: float) -> None:
    cold = Cost(10 * COST.fixed_s, 10 * COST.per_kept_s, noise=0.1)
    later: list[BatchRun] = []
    for seed in SEEDS:
        run = engine(load, cost=lambda n, t: cold if n < 2 else COST, trigger_s=trigger_s, seed=seed)
        later += run.run(60)[10:]
    assert share(b.duration <= 1.0 for b in later) >= 0.93
    if load < 1:
        assert all(b.keep == 1.0 for b in later)
    else:
        assert kept_share(later) >= 0.75 * COST.ideal_keep(load * CAPACITY, 1.0, 1.0)


@TRIGGERS
def test_a_restart_meets_what_came_meanwhile_and_then_goes_on_as_before(trigger_s: float) -> None:
    run = engine(2, trigger_s=trigger_s)
    before = run.run(100)[20:]
    run.restart(down_s=20.0)
    first, *rest = run.run(30)
    assert first.arrived > 18 * 2 * CAPACITY  # twenty seconds' rows in one batch
    assert first.duration <= 1.3
    assert share(b.duration <= 1.0 for b in rest) >= 0.9
    assert kept_share(rest) == pytest.approx(kept_share(before), rel=0.15)


@TRIGGERS
def test_a_restart_without_overload_sheds_in_the_first_batch_only(trigger_s: float) -> None:
    run = engine(0.5, trigger_s=trigger_s)
    run.run(50)
    run.restart(down_s=20.0)
    first, *rest = run.run(50)
    assert first.keep < 0.2
    assert first.duration <= 1.3
    assert all(b.keep == 1.0 for b in rest)


@TRIGGERS
@pytest.mark.parametrize("config", [HOLD, DELAY], ids=["hold", "delay"])
@pytest.mark.parametrize("tells_backlog", [True, False], ids=["kafka", "files"])
def test_after_an_hour_down_a_batch_is_no_larger_than_the_cap_that_the_query_states(
    config: ControllerConfig, trigger_s: float, tells_backlog: bool
) -> None:
    """A tenth of the capacity never showed the cap; 3,000 rows fit into one second or half of two."""
    run = engine(
        0.1, config, trigger_s=trigger_s, source_cap=3_000, tells_backlog=tells_backlog, tells_cap=True
    )
    run.run(60)
    run.restart(down_s=3600.0)
    first, *rest = run.run(30)
    assert (first.arrived, first.kept) == (3_000, 3_000)
    assert all(b.kept == b.arrived == 3_000 and b.duration <= 1.0 for b in rest)


def test_a_cap_that_earlier_batches_showed_is_remembered_over_downtime() -> None:
    burst = engine(lambda t: 2 if t < 5 else 0.1, trigger_s=1.0, source_cap=8_000)
    burst.run(80)
    burst.restart(down_s=3600.0)
    first = burst.run(1)[0]
    assert (first.arrived, first.kept) == (8_000, 8_000)


def test_batches_of_one_size_show_a_cap_that_the_source_does_not_tell() -> None:
    run = engine(5, source_cap=8_000, tells_backlog=False)
    run.run(80)
    run.restart(down_s=3600.0)
    first = run.run(1)[0]
    assert (first.arrived, first.kept) == (8_000, 8_000)


def test_a_cap_that_a_redeployed_query_has_no_more_is_not_believed() -> None:
    run = engine(lambda t: 2 if t < 5 else 0.1, trigger_s=1.0, source_cap=8_000)
    run.run(80)
    run.workload = replace(run.workload, source_cap=None, tells_cap=True)
    run.restart(down_s=3600.0)
    first = run.run(1)[0]
    assert first.arrived > 3_000_000
    assert first.duration < 3.0, "kept at the floor"


@TRIGGERS
def test_a_capped_source_is_held_too_and_its_backlog_is_worked_off_in_order(trigger_s: float) -> None:
    run = engine(lambda t: 2 if t < 60 else 0.3, trigger_s=trigger_s, source_cap=15_000)
    batches = run.run(250)
    overloaded = [b for b in batches[10:] if b.start < 60]
    assert share(b.duration <= 1.0 for b in overloaded) >= 0.93
    assert max(b.backlog for b in overloaded) > 30_000
    assert max(b.arrived for b in batches) == 15_000
    assert max(b.delay for b in overloaded) > 4.0  # the oldest row has waited behind the cap
    drained = batches[next(i for i, b in enumerate(batches) if b.start > 60 and not b.backlog) + 10 :]
    assert all(b.keep == 1.0 and b.backlog == 0 and b.delay < 3.0 for b in drained)


@LAGS
@TRIGGERS
def test_batches_of_one_size_are_held_although_the_source_does_not_tell_its_backlog(
    trigger_s: float, plan_lag: bool
) -> None:
    batches: list[BatchRun] = []
    for seed in SEEDS:
        run = engine(
            5, trigger_s=trigger_s, plan_lag=plan_lag, source_cap=40_000, tells_backlog=False, seed=seed
        )
        batches += run.run(210)[10:]
    assert share(b.duration <= 1.0 for b in batches) >= 0.95
    # Who knows the prices and leaves room for this noise keeps 0.80 of what fits without any noise. Over
    # 30 seeds the law keeps 0.97 of that, and with plans that come a batch late 0.94 to 0.96.
    room = (math.exp(-1.645 * COST.noise) - COST.fixed_s) / (1.0 - COST.fixed_s)
    assert kept_share(batches) >= 0.93 * room * COST.ideal_keep(4 * CAPACITY, 1.0, 1.0)


def test_a_capped_source_keeps_its_delay_when_shorter_batches_help() -> None:
    run = engine(lambda t: 2 if t < 120 else 0.3, HoldDelay("4 seconds"), source_cap=15_000)
    batches = [b for b in run.run(250)[15:] if b.start < 120]
    assert share(b.delay <= 4.0 for b in batches) >= 0.95


def test_a_delay_that_no_shedding_can_hold_is_not_bought_with_the_floor() -> None:
    """The cap hands out less per trigger than arrives: shorter batches would change nothing."""
    run = engine(2, HoldDelay("4 seconds"), trigger_s=1.0, source_cap=15_000)
    assert kept_share(run.run(100)[20:]) > 0.4


@TRIGGERS
def test_advice_that_is_not_followed_does_not_wind_up(trigger_s: float) -> None:
    run = engine(lambda t: 1.2 if 30 <= t < 90 else 0.5, trigger_s=trigger_s, follow=False)
    batches = run.run(200)
    assert run.shed == 0
    during = [b for b in batches if 45 <= b.start < 90]
    assert all(0.05 < b.advice < 1.0 for b in during)
    # The batches of the overload are long; the last of them ends after it, and then rows fit again.
    calm = next(i for i, b in enumerate(batches) if b.start > 90 and b.duration <= 0.95)
    bound = 1
    assert all(b.advice == 1.0 for b in batches[calm + bound :])


@TRIGGERS
@pytest.mark.parametrize("load", [0.5, 2])
def test_a_target_below_the_fixed_price_is_given_up_and_nothing_snowballs(
    load: float, trigger_s: float
) -> None:
    batches = engine(load, HoldDuration("50 ms"), trigger_s=trigger_s).run(400)[40:]
    assert share(b.state == "futile" for b in batches) > 0.85
    assert max(b.duration for b in batches) < 3.0
    assert kept_share(batches) > (0.75 if load < 1 else 0.1)


@TRIGGERS
def test_a_huge_target_is_held_as_well(trigger_s: float) -> None:
    batches = engine(2, HoldDuration("100 seconds"), trigger_s=trigger_s).run(120)
    assert all(b.keep == 1.0 for b in batches[:8])
    assert share(b.duration <= 100.0 for b in batches[30:]) >= 0.95


@TRIGGERS
@pytest.mark.parametrize("every_s", [5, 10, 30])
def test_a_burst_is_cut_when_it_comes_and_the_calm_after_it_is_whole(
    every_s: float, trigger_s: float
) -> None:
    """Ten times the capacity for a second, then a fifth of it."""
    run = engine(lambda t: 10 if t % every_s < 1 else 0.2, trigger_s=trigger_s)
    batches = run.run(400)[3:]  # the very first burst comes when nothing is known
    assert max(b.duration for b in batches) < 1.35
    assert share(b.duration <= 1.0 for b in batches) >= 0.95
    assert all(b.kept == b.arrived for b in batches[10:] if b.arrived < 0.6 * CAPACITY)


def test_an_idle_stream_that_wakes_up_is_not_taken_for_a_flood() -> None:
    """Without rows there are no batches; the pause must not count as time to collect."""
    run = engine(lambda t: 0.0 if t % 60 < 50 else 0.5)
    batches = run.run(300)
    assert run.shed == 0
    assert batches[-1].start > 600


def test_noise_of_30_per_cent_is_held_with_a_wider_margin() -> None:
    rough = replace(COST, noise=0.3)
    batches: list[BatchRun] = []
    for seed in SEEDS:
        batches += engine(5, cost=rough, trigger_s=1.0, seed=seed).run(310)[10:]
    assert share(b.duration <= 1.0 for b in batches) >= 0.85
    assert kept_share(batches) >= 0.4 * COST.ideal_keep(5 * CAPACITY, 1.0, 1.0)
