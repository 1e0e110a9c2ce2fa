"""The virtual-time engine itself: order, conservation, Spark's trigger rule, determinism."""

from __future__ import annotations

import itertools

import pytest

from headgate import Budget, FixedRate, HoldDuration, LoadSample, ValueClasses
from headgate.errors import BadArgument
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


def test_a_plan_that_lags_meets_the_batch_after_the_next() -> None:
    def keeps(lag: bool) -> list[tuple[float, float]]:
        load = Workload(lambda t: 5e4, COST, trigger_s=1.0, plan_lag=lag)
        batches = MicroBatches(load, HoldDuration(1)).run(30)
        return [(b.keep, b.advice) for b in batches]

    prompt, late = keeps(False), keeps(True)
    assert [p[0] for p in prompt[1:]] == pytest.approx([p[1] for p in prompt[:-1]])
    assert [p[0] for p in late[2:]] == pytest.approx([p[1] for p in late[:-2]])
    assert [p[0] for p in late[1:]] != pytest.approx([p[1] for p in late[:-1]])


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
