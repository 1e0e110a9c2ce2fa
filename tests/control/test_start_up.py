"""Seconds of starting up are no price of rows: a query with little to do sheds nothing at any start."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from headgate import HoldDelay, HoldDuration
from headgate.control import ControllerConfig
from headgate.control.batch_cost import BatchCost
from headgate.control.margin import Margin
from headgate.control.start_up import StartUp
from headgate.control.what_fits import WhatFits, WholeRule
from headgate.core.load import LoadSample
from headgate.whatif.microbatch import Cost, MicroBatches, Workload


class Starting(MicroBatches):
    """An engine in a process that starts up: its first batch for some seconds, the second for a third.

    Besides, everything costs `dear` times what it will, and that falls over some six batches.
    """

    def __init__(
        self,
        cost: Cost,
        load: float,
        target: float,
        start_up_s: float,
        *,
        dear: float = 1.0,
        config: ControllerConfig | None = None,
        trigger_s: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._began = 0
        rows = load * cost.capacity(target)

        def at(batch: int, start: float) -> Cost:
            since = batch - self._began
            times = 1.0 + (dear - 1.0) * math.exp(-since / 6.0)
            starting = start_up_s * (1.0, 1.0 / 3.0, 0.0)[min(since, 2)]
            return replace(
                cost,
                fixed_s=times * cost.fixed_s + starting,
                per_kept_s=times * cost.per_kept_s,
                per_arrived_s=times * cost.per_arrived_s,
            )

        workload = Workload(lambda t: rows, at, trigger_s=trigger_s, seed=seed)
        super().__init__(workload, config or HoldDuration(target))

    def restart(self, down_s: float) -> None:
        """Another process, which starts up again."""
        self._began = len(self.records)
        super().restart(down_s)


def restarted_often(engine: Starting, target: float) -> list[int]:
    """Rows shed after a cold start, and after each of three restarts."""
    shed = []
    for run in range(4):
        if run:
            engine.restart(target)
        before = engine.shed
        engine.run(20)
        shed.append(engine.shed - before)
    return shed


@pytest.mark.parametrize(
    # What comes in 8 s would not fit while everything costs 1.7 times as much.
    ("start_up_s", "dear"),
    [(1.0, 1.0), (4.0, 1.0), (8.0, 1.0), (1.0, 1.7), (4.0, 1.7)],
)
@pytest.mark.parametrize("row_s", [1e-6, 1e-5, 1e-4])
@pytest.mark.parametrize(("fixed_s", "target"), [(0.1, 1.0), (0.25, 1.0), (0.5, 2.0), (1.0, 5.0)])
def test_a_tenth_of_the_capacity_is_kept_whole_at_every_start(
    fixed_s: float, target: float, row_s: float, start_up_s: float, dear: float
) -> None:
    engine = Starting(Cost(fixed_s, row_s, noise=0.1), 0.1, target, start_up_s, dear=dear, seed=7)
    assert restarted_often(engine, target) == [0, 0, 0, 0]


@pytest.mark.parametrize("row_s", [1e-5, 1e-4])
def test_so_it_is_where_the_first_batch_has_a_second_of_rows(row_s: float) -> None:
    engine = Starting(Cost(0.25, row_s, noise=0.1), 0.1, 2.0, 4.0, trigger_s=1.0)
    assert restarted_often(engine, 2.0) == [0, 0, 0, 0]


@pytest.mark.parametrize("start_up_s", [1.0, 4.0])
def test_so_it_is_where_a_delay_is_held(start_up_s: float) -> None:
    engine = Starting(Cost(0.25, 75e-6, noise=0.1), 0.1, 2.0, start_up_s, config=HoldDelay(4.0))
    assert restarted_often(engine, 2.0) == [0, 0, 0, 0]


@pytest.mark.parametrize("row_s", [1e-6, 1e-5, 75e-6, 1e-3])
@pytest.mark.parametrize("load", [2, 5])
def test_an_overload_is_held_from_the_third_batch_on_after_every_start(
    load: float, row_s: float
) -> None:
    late = []
    for seed in range(4):
        engine = Starting(Cost(0.25, row_s, 0.01 * row_s, noise=0.1), load, 1.0, 2.0, seed=seed)
        runs = [engine.run(30)]
        engine.restart(2.0)
        runs.append(engine.run(30))
        for run in runs:
            late += [b.duration > 1.0 for b in run[3:]]
            assert max(b.duration for b in run[3:]) < 1.3
        assert runs[1][0].duration < 2.0 + 1.4, "prices are known: it fits but for its start"
    assert sum(late) / len(late) <= 0.07


@pytest.mark.parametrize("row_s", [1e-6, 75e-6, 1e-3])
@pytest.mark.parametrize("load", [0.1, 0.3, 0.6])
def test_after_an_outage_a_light_query_does_not_presume_that_everything_fits(
    load: float, row_s: float
) -> None:
    """Its small batches have hardly shown what a row costs, and sixty targets of rows are waiting."""
    for seed in range(3):
        engine = Starting(Cost(0.25, row_s, 0.01 * row_s, noise=0.1), load, 1.0, 0.0, seed=seed)
        engine.run(60)
        engine.restart(60.0)
        assert engine.run(1)[0].duration < 1.3


@pytest.mark.parametrize("batches", [3, 12, 30])
def test_nor_behind_a_batch_that_was_planned_before_the_outage(batches: int) -> None:
    """It runs again first, as short as ever; the rows of the outage come with the next one."""
    controller = HoldDuration("1 second").build()
    controller.opening(0.0)
    for n in range(batches):
        controller.decide(LoadSample(n, float(n), 0.3, 1_000, 1_000))
    opening = controller.opening(batches + 60.0)
    again = LoadSample(batches, batches + 60.0, 0.3, 1_000, 1_000, planned_before=True)
    budget = controller.decide(again)
    assert opening.fits is not None
    assert budget.fits is not None
    assert budget.fits.whole == pytest.approx(opening.fits.whole, rel=0.1)
    # A row costs 0.3 ms at most, and 0.2 by a guess at what a batch costs without any.
    assert budget.fits.rows(61_000) < 10_000
    assert budget.rows == pytest.approx(budget.fits.rows(62_000), rel=0.02), "the outage is expected"


@pytest.mark.parametrize(("load", "down_s", "most"), [(1.0, 60.0, 1.3), (1.5, 30.0, 1.1)])
def test_rows_of_an_outage_are_not_believed_to_cost_nothing(
    load: float, down_s: float, most: float
) -> None:
    """A few hundred thousand rows cannot tell whether an arrived one costs 0 or 80 ns; 22 million do."""
    for seed in range(5):
        cost = Cost(0.3, 2.8e-6, 0.08e-6, noise=0.03)
        engine = Starting(cost, load, 2.0, 0.0, seed=seed)
        engine.run(60)
        engine.restart(down_s)
        first = engine.run(1)[0]
        assert first.duration < most * 2.0
        assert first.kept >= 0.0099 * first.arrived


def test_a_first_batch_of_many_rows_shows_what_they_cost() -> None:
    """They may have been starting up for 7.5 s; seventy seconds would be the price of that guess."""
    engine = Starting(Cost(0.25, 75e-6, noise=0.1), 10, 1.0, 0.0, trigger_s=1.0)
    first, second, *_ = engine.run(3)
    assert (first.kept, first.arrived) == (100_000, 100_000)
    assert second.duration < 2.0


def test_a_gate_that_was_told_to_begin_with_few_rows_presumes_nothing() -> None:
    told = HoldDuration(1.0).build()
    told.take_over(0.1)
    for controller, whole in ((told, False), (HoldDuration(1.0).build(), True)):
        controller.opening(0.0)
        budget = controller.decide(LoadSample(0, 0.0, 4.0, 100, 10))
        assert (budget.at(40_000).keep == 1.0) is whole


def test_starting_up_lasts_no_longer_than_it_can_and_gets_shorter() -> None:
    start = StartUp()
    assert start.work_s(100.0, 1.0) == pytest.approx(88.0)
    assert start.work_s(10.0, 1.0) == pytest.approx(4.0), "half of the first one's 12 s"
    assert start.behind
    assert not start.cold
    assert start.work_s(10.0, 1.0) == 10.0
    assert not start.behind
    start.begin()
    assert start.work_s(0.5, 1.0) == 0.5, "a batch that is shorter started nothing"


@pytest.mark.parametrize("seconds", [6.6, 30.0, 90.0])
def test_a_few_rows_in_half_a_minute_are_not_dear(seconds: float) -> None:
    """A busy machine starts up for longer than twelve seconds; twenty rows have not taken the rest."""
    controller = HoldDuration(4.0).build()
    controller.opening(0.0)
    budget = controller.decide(LoadSample(0, 0.0, seconds, 20, 20))
    assert budget.at(20_000).keep == 1.0
    controller.decide(LoadSample(1, 100.0, 0.9, 20_000, 20_000))
    again = HoldDuration(4.0).build(controller.snapshot())
    assert again.opening(102.0).at(20).keep == 1.0
    assert again.decide(LoadSample(2, 102.0, seconds, 20, 20)).at(20_000).keep == 1.0


def test_prices_that_are_known_are_not_moved_by_starting_up() -> None:
    engine = Starting(Cost(0.25, 75e-6, noise=0.05), 3, 1.0, 0.0)
    engine.run(40)
    learned = json.loads(json.dumps(engine.controller.snapshot()))
    controller = HoldDuration(1.0).build(learned)
    controller.opening(engine.now)
    controller.decide(LoadSample(40, engine.now, 6.0, 20_000, 7_500))
    assert controller.snapshot()["cost"]["prices"] == pytest.approx(learned["cost"]["prices"])
    controller.decide(LoadSample(41, engine.now + 6.0, 60.0, 20_000, 7_500))
    assert controller.snapshot()["cost"]["prices"] != pytest.approx(learned["cost"]["prices"], rel=0.1)


def test_what_is_known_of_a_start_survives_a_change_of_settings() -> None:
    controller = HoldDuration(1.0).build()
    controller.opening(0.0)
    controller.decide(LoadSample(0, 0.0, 4.0, 100, 100))
    again = HoldDuration(1.0).build(json.loads(json.dumps(controller.snapshot())))
    after = LoadSample(1, 4.0, 0.9, 4_000, 4_000)
    assert again.decide(after) == controller.decide(after)


def test_after_a_change_of_settings_no_batch_starts_up() -> None:
    """Rows that become dear then are dear: nobody takes their seconds for those of a start."""
    engine = Starting(Cost(0.25, 75e-6, noise=0.05), 3, 1.0, 0.0)
    engine.run(40)
    learned = json.loads(json.dumps(engine.controller.snapshot()))
    later = LoadSample(40, engine.now, 6.0, 20_000, 7_500)
    changed = HoldDuration(0.9).build(learned)
    held = engine.controller.decide(later).at(20_000).keep
    assert changed.resumed(engine.now).at(20_000).keep < 0.6
    assert changed.decide(later).at(20_000).keep <= held
    for config in (HoldDuration(0.9), HoldDelay(1.8)):
        changed = config.build(learned)
        changed.resumed(engine.now)
        changed.decide(later)
        assert changed.snapshot()["cost"]["prices"] != pytest.approx(learned["cost"]["prices"], rel=0.1)


def test_by_a_price_of_nothing_a_batch_runs_whole_as_far_as_it_is_known() -> None:
    """Sought by halves of all that the price says, nothing was found that fits, and a batch was shed."""
    cost = BatchCost(target_s=5.0)
    for _ in range(30):
        cost.add(98_000, 98_000, 0.2)
    cost._prices = [0.2, 1e-12, 0.0]
    fits = WhatFits(cost, Margin(), WholeRule(), cutting=False)
    assert fits.whole(5.0) > 98_000
    assert fits.surely_within(5.0) > 98_000
    assert fits.cut(5.0, 98_000)[1] > 98_000
