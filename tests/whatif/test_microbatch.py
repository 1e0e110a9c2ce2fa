"""The virtual-time engine itself: order, conservation, Spark's trigger rule, determinism."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import Any

import pytest

from headgate import Budget, ConceptDriven, FixedRate, HoldDuration, LoadSample, ValueClasses
from headgate.control import Controller
from headgate.core.row_budget import RowBudget
from headgate.errors import BadArgument
from headgate.whatif.arrivals import bursts
from headgate.whatif.microbatch import Cost, MicroBatches, Workload

COST = Cost(fixed_s=0.25, per_kept_s=0.75e-4)


def test_a_batch_collects_what_came_between_the_last_start_and_its_own() -> None:
    batches = MicroBatches(Workload(lambda t: 1000.0, COST), FixedRate(1.0)).run(20)
    for before, after in itertools.pairwise(batches):
        assert after.start == before.start + before.duration  # at once
        assert after.arrived == pytest.approx(1000 * (after.start - before.start), abs=1)
        assert after.delay == pytest.approx(after.start - before.start + after.duration, abs=0.002)


def test_a_trigger_begins_batches_at_its_multiples_and_at_once_when_late() -> None:
    slow = Cost(0.25, 1e-3)
    load = Workload(lambda t: 2000.0 if t < 1 else 100.0, slow, trigger_s=1.0)
    starts = [b.start for b in MicroBatches(load, FixedRate(1.0)).run(5)]
    # 2.25 s for the first: the second begins late, and the third at the next whole second.
    assert starts == pytest.approx([1.0, 3.25, 4.0, 5.0, 6.0])


def test_under_a_cap_rows_leave_in_order_and_the_oldest_has_its_true_age() -> None:
    seen: list[LoadSample] = []

    class Watch:
        def build(self, snapshot: object = None) -> object:
            inner = FixedRate(1.0).build()
            inner.decide = lambda s: (seen.append(s), type(inner).decide(inner, s))[1]  # type: ignore[method-assign]
            return inner

    load = Workload(lambda t: 1000.0, Cost(1.0, 0.0), trigger_s=1.0, source_cap=500)
    batches = MicroBatches(load, Watch()).run(10)  # type: ignore[arg-type]
    for n, (sample, batch) in enumerate(zip(seen, batches, strict=True)):
        assert sample.arrived == 500
        assert sample.backlog == batch.backlog == 500 * (n + 1)
        assert sample.oldest_arrival == pytest.approx((500 * n + 1) / 1000.0)  # row 500 n
        assert sample.delay_s == pytest.approx(batch.delay)


def test_without_a_cap_the_source_says_nothing_of_a_backlog() -> None:
    batches = MicroBatches(Workload(lambda t: 1000.0, COST), HoldDuration(1)).run(5)
    assert all(b.backlog == 0 for b in batches)


def test_an_idle_stream_has_no_batches() -> None:
    load = Workload(lambda t: 0.0 if t < 100 else 1000.0, COST)
    first = MicroBatches(load, FixedRate(1.0)).run(1)[0]
    assert 100.0 < first.start < 100.05
    assert first.arrived >= 1


def test_a_stream_that_is_over_says_so() -> None:
    engine = MicroBatches(Workload(lambda t: 1000.0 if t < 1 else 0.0, COST), FixedRate(1.0))
    with pytest.raises(BadArgument, match="the stream is over"):
        engine.run(100)


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_arrivals_must_be_a_rate(rate: float) -> None:
    with pytest.raises(BadArgument, match="rows per second"):
        MicroBatches(Workload(lambda t: rate, COST), FixedRate(1.0)).run(1)


def test_the_seed_decides_everything() -> None:
    noisy = Cost(0.25, 0.75e-4, noise=0.2)

    def run(seed: int) -> object:
        load = Workload(lambda t: 2e4, noisy, seed=seed)
        return MicroBatches(load, HoldDuration(1)).run(50)

    assert run(1) == run(1) != run(2)


def test_conservation_is_checked_after_every_run() -> None:
    engine = MicroBatches(Workload(lambda t: 2e4, COST), FixedRate(0.3))
    engine.run(20)
    assert engine.kept + engine.shed == engine.handed == sum(b.arrived for b in engine.records)
    engine.kept -= 1
    with pytest.raises(AssertionError, match="rows arrived"):
        engine.run(1)


def test_without_its_size_a_batch_meets_the_rate_published_before_or_the_one_before_that() -> None:
    def keeps(lag: bool) -> list[tuple[float, float]]:
        load = Workload(lambda t: 5e4, COST, trigger_s=1.0, plan_lag=lag, size_known=False)
        batches = MicroBatches(load, HoldDuration(1)).run(30)
        return [(b.keep, b.advice) for b in batches]

    prompt, late = keeps(False), keeps(True)
    assert [p[0] for p in prompt[1:]] == pytest.approx([p[1] for p in prompt[:-1]])
    assert [p[0] for p in late[2:]] == pytest.approx([p[1] for p in late[:-2]])
    assert [p[0] for p in late[1:]] != pytest.approx([p[1] for p in late[:-1]])


class _Rows(Controller):
    """Keeps 1,000 rows of any batch, and half of one whose size is not known."""

    def decide(self, sample: LoadSample) -> Budget:
        return self.opening(0.0)

    def snapshot(self) -> dict[str, object]:
        return {}

    def opening(self, now: float) -> Budget:
        return Budget(0.5, "shedding", fits=RowBudget(1.0, per_kept_s=1e-3, whole=1_000))

    def build(self, snapshot: object = None) -> Controller:
        return self


@pytest.mark.parametrize(
    ("around", "kept"),
    [
        ({}, 1_000),
        ({"size_known": False}, 2_500),
        ({"size_ratio": 1.25}, 800),
        ({"size_ratio": 0.8}, 1_250),
        ({"follow": False}, 5_000),
    ],
)
def test_a_plan_is_made_from_the_size_as_it_is_believed(around: dict[str, Any], kept: int) -> None:
    load = Workload(lambda t: 5_000.0, COST, trigger_s=1.0, **around)
    batches = MicroBatches(load, _Rows()).run(20)
    assert all(b.arrived == 5_000 for b in batches)
    assert sum(b.kept for b in batches) / 20 == pytest.approx(kept, rel=0.03)


def test_a_size_that_is_off_by_chance_is_right_in_the_middle() -> None:
    load = Workload(lambda t: 5_000.0, COST, trigger_s=1.0, size_spread=0.2)
    kept = sorted(b.kept for b in MicroBatches(load, _Rows()).run(101))
    assert kept[50] == pytest.approx(1_000, rel=0.07)
    assert kept[10] < 850
    assert kept[90] > 1_150


def test_a_source_hands_out_whole_stretches_and_a_row_has_its_true_age() -> None:
    load = Workload(lambda t: 1000.0, Cost(0.7, 0.0), granule_s=1.0)
    batches = MicroBatches(load, FixedRate(1.0)).run(30)
    assert {b.arrived for b in batches} <= {1000, 2000}
    first = batches[0]
    assert first.start == pytest.approx(1.01)
    assert first.delay == pytest.approx(1.71, abs=0.01)


def test_bursts_change_every_so_often_and_have_the_mean_that_was_asked_for() -> None:
    load = bursts(100.0, spread=0.7, every_s=6.0, seed=3)
    rates = [load(6.0 * n) for n in range(5_000)]
    assert load(7.0) == load(11.9) == rates[1]
    assert sum(rates) / len(rates) == pytest.approx(100.0, rel=0.05)
    spread = statistics.stdev(math.log(r) for r in rates)
    assert spread == pytest.approx(0.7, rel=0.05)


@pytest.mark.parametrize("bad", [{"mean": -1.0}, {"spread": -1.0}, {"every_s": 0.0}])
def test_bursts_that_cannot_be_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(BadArgument, match="bursts"):
        bursts(**{"mean": 1.0, **bad})


def test_the_interval_is_told_or_not() -> None:
    seen: list[float | None] = []

    class Watch(_Rows):
        def decide(self, sample: LoadSample) -> Budget:
            seen.append(sample.interval_s)
            return super().decide(sample)

    for tells in (True, False):
        MicroBatches(Workload(lambda t: 1e3, COST, trigger_s=2.0, tells_interval=tells), Watch()).run(1)
    MicroBatches(Workload(lambda t: 1e3, COST), Watch()).run(1)
    assert seen == [2.0, None, None]


def test_policies_see_the_groups_and_good_rows_are_kept() -> None:
    policy = ValueClasses(("priority = 'high'",))
    load = Workload(lambda t: 5e4, COST, trigger_s=1.0, mix={1: 0.1})
    engine = MicroBatches(load, HoldDuration(1), policy)
    engine.run(40)
    plan = policy.plan(Budget(engine.records[-1].advice, "shedding"), engine.groups)
    assert plan.rate_of(1) == 1.0
    assert 0.0 < plan.default < 0.2


def test_monitor_mode_keeps_every_row() -> None:
    engine = MicroBatches(Workload(lambda t: 11_000.0, COST, follow=False), HoldDuration(1))
    batches = engine.run(40)
    assert engine.shed == 0
    assert min(b.advice for b in batches) < 1.0


def test_what_the_engine_does_not_model_is_refused() -> None:
    """A policy that draws by groups would be simulated as a uniform one, without a word."""
    with pytest.raises(BadArgument, match="does not model"):
        MicroBatches(
            Workload(lambda t: 1.0, Cost(0.1, 1e-4)), HoldDuration("1 s"), ConceptDriven("route")
        )
