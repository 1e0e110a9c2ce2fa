"""A price that knows the rows at hand: what it keeps, how long it takes, and when it drops nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
from headgate.errors import BadArgument
from headgate.guards.inline import Expected
from headgate.guards.inline_policy import InlinePolicy
from headgate.guards.look_ahead import AheadRule
from headgate.guards.outlook import Outlook
from headgate.guards.price import Price, PriceRule
from headgate.guards.price_shedding import PriceShedding
from headgate.sketches.keys import stable_key
from headgate_lab.papers.las import AckedPrice
from headgate_lab.sim.las.queue import PublishedPolicy, run
from headgate_lab.sim.las.stream import StreamLaw
from headgate_lab.sim.las.worker import WorkerJob, WorkerRun, run_worker

costs_of_rows = st.lists(st.floats(1e-4, 1.0), min_size=1, max_size=60)


@given(costs_of_rows, st.floats(0.01, 1.5), st.sampled_from(["soft", "balanced"]))
def test_the_level_fills_the_room_and_no_more(costs: list[float], share: float, shape: str) -> None:
    rule, array = PriceRule(shape), np.array(costs)  # type: ignore[arg-type]
    room = share * float(array.sum())
    found = Outlook.of(rule, array, room)
    assert len(found.turns_s) == len(costs)
    assert found.turns_s == sorted(found.turns_s)
    if share >= 1.0:
        assert found.level_s is None
        # The rest still fits at every row's latest turn.
        rest = np.cumsum(array[::-1])[::-1]
        assert np.array(found.turns_s) + rest == pytest.approx(np.full(len(costs), room))
        return
    assert found.level_s is not None
    kept = sum(c * rule.chance(c, found.level_s) for c in costs)
    at_the_lowest = sum(c * rule.chance(c, rule.lowest * max(costs)) for c in costs)
    assert kept == pytest.approx(max(room, at_the_lowest), rel=1e-3)


def test_rows_that_must_run_leave_less_room_for_the_others() -> None:
    costs = np.full(10, 0.1)
    forced = np.array([True] * 5 + [False] * 5)
    free = Outlook.of(PriceRule("soft"), costs, 0.8)
    tied = Outlook.of(PriceRule("soft"), costs, 0.8, forced)
    assert free.level_s == pytest.approx(0.08, rel=1e-3)
    assert tied.level_s == pytest.approx(0.06, rel=1e-3)


def test_credit_ends_where_waits_come_near_the_target() -> None:
    price = Price(PriceRule(), tau_s=1.0)
    assert price.credit() == 8.0
    for _ in range(5000):
        price.chance(0.1, 0.96)
    assert price.credit() == 0.0


def law(zipf: float | None, under: float) -> StreamLaw:
    return StreamLaw(zipf, under, 6_000, 512, shortest_s=0.0005, longest_s=0.032)


def both(job: WorkerJob, seed: int) -> tuple[WorkerRun, WorkerRun]:
    """Without a look ahead, and with one."""
    blind = run_worker(replace(job, seen_at_once=0), PriceShedding(), seed=seed)
    return blind, run_worker(job, PriceShedding(), seed=seed)


OVERLOADS = {
    "steady": WorkerJob(law(1.0, 0.25)),
    "much": WorkerJob(law(1.0, 0.6), target_s=2.0),
    "uniform keys": WorkerJob(law(None, 0.4), target_s=2.0),
    "noise": WorkerJob(law(1.0, 0.4), noise=0.7, target_s=2.0),
    "bursts": WorkerJob(law(1.0, -0.3), in_bursts=0.4),
    "pauses": WorkerJob(law(1.0, 0.25), pause_s=0.2),
    "piled up": WorkerJob(law(1.0, 0.25), piled_up=3000),
}


@pytest.mark.slow
@pytest.mark.parametrize("job", OVERLOADS.values(), ids=OVERLOADS)
def test_knowing_the_rows_makes_batches_end_in_time_and_costs_no_rows(job: WorkerJob) -> None:
    """In bursts it gains a tenth of all rows."""
    runs = [both(job, seed) for seed in (1, 2, 3)]
    blind, ahead = ([pair[i] for pair in runs] for i in (0, 1))
    assert np.mean([r.kept for r in ahead]) > 0.99 * np.mean([r.kept for r in blind])
    assert np.mean([r.longest for r in ahead]) < 1.05 * np.mean([r.longest for r in blind])
    if job.in_bursts:
        assert np.mean([r.kept for r in ahead]) > 1.1 * np.mean([r.kept for r in blind])
    assert max(r.wait for r in ahead) <= 1.01
    assert max(r.longest for r in ahead) < (1.45 if job.piled_up else 1.3)


@pytest.mark.slow
@pytest.mark.parametrize("zipf", [1.0, 2.0, None])
@pytest.mark.parametrize(("target_s", "pause_s"), [(2.0, 0.15), (1.0, 0.0)])
def test_with_a_tenth_to_spare_nothing_is_dropped(
    zipf: float | None, target_s: float, pause_s: float
) -> None:
    job = WorkerJob(law(zipf, -0.1), target_s=target_s, pause_s=pause_s)
    assert [run_worker(job, PriceShedding(), seed=seed).kept for seed in range(1, 5)] == [1.0] * 4


@pytest.mark.slow
@pytest.mark.parametrize("zipf", [1.0, 2.0, None])
def test_with_a_target_of_hardly_a_trigger_next_to_nothing_is(zipf: float | None) -> None:
    """Batches of 15 rows, of which one takes up to a tenth of the target."""
    job = WorkerJob(law(zipf, -0.1), target_s=0.3)
    found = [run_worker(job, PriceShedding(), seed=seed) for seed in range(1, 7)]
    assert np.mean([r.kept for r in found]) > 0.998
    assert max(r.wait for r in found) < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("zipf", [1.0, 2.0, None])
def test_a_price_before_a_queue_drops_what_full_knowledge_must(zipf: float | None) -> None:
    """Of 20 streams that are over-provisioned by 10 %, some need drops: their mean is above tau."""
    streams = [StreamLaw(zipf=zipf, under=-0.1).draw(seed) for seed in range(20)]
    full = [run(s, PublishedPolicy("Full Knowledge", under=-0.1)) for s in streams]
    ours = [run(s, AckedPrice(seed=seed)) for seed, s in enumerate(streams)]
    assert np.mean([r.dropped_ratio for r in ours]) < np.mean([r.dropped_ratio for r in full]) + 0.0005
    assert max(r.average_latency_s for r in ours) < 0.0064


def test_a_task_that_knows_nothing_sets_its_price_as_soon_as_it_does() -> None:
    """Ten times the work that fits, and the first rows tell: the batch still ends in time."""
    shedder = InlinePolicy("balanced", hg.average("1 second")).build(
        PriceShedding().build_costs(), 0.0, 1, None
    )
    keys = [f"k{i % 50}" for i in range(1000)]
    now = 0.0
    shedder.expect(Expected(keys, [0.0] * len(keys)), now)
    for key in keys:
        weight, _ = shedder.offer(key, 0.0, now)
        if weight:
            now += 0.01
            shedder.done(key, 0.01, now)
    assert 0.8 < now < 1.3


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_task_that_sets_its_price_again_and_again_counts_its_rows_once(pieces: int) -> None:
    """What it remembers is how many rows the next task has: of too many, that one drops a third."""
    policy, costs = InlinePolicy("balanced", hg.average("1 second")), PriceShedding().build_costs()
    first, rows, now = policy.build(costs, 0.0, 1, None), 1000 // pieces, 0.0
    for piece in range(pieces):
        first.expect(Expected(["k"] * rows, [0.0] * rows, more=piece + 1 < pieces), now)
        for _ in range(rows):
            if first.offer("k", 0.0, now)[0]:
                now += 0.0005
                first.done("k", 0.0005, now)
    assert first.state()["ahead"][2] == 1000
    # Work that fits, in two pieces: nothing is dropped.
    costs = policy.costs()
    costs.learn(stable_key("k"), 0.0005, 1000)
    second, kept, now = policy.build(costs, costs.mean, 1, first.state()), 0, 0.0
    for piece in range(2):
        second.expect(Expected(["k"] * 500, [0.0] * 500, more=piece == 0), now)
        for _ in range(500):
            if second.offer("k", 0.0, now)[0]:
                kept, now = kept + 1, now + 0.0005
                second.done("k", 0.0005, now)
    assert kept == 1000


def test_rows_that_follow_have_their_share_of_the_room() -> None:
    policy = InlinePolicy("balanced", hg.average("1 second"))
    costs = policy.costs()
    costs.learn(stable_key("k"), 0.01, 200)

    def kept_of_first(more: bool) -> int:
        shedder, now, kept = policy.build(costs, costs.mean, 1, None), 0.0, 0
        shedder.expect(Expected(["k"] * 1000, [0.0] * 1000, more=more), now)
        for _ in range(1000):
            if shedder.offer("k", 0.0, now)[0]:
                kept, now = kept + 1, now + 0.01
                shedder.done("k", 0.01, now)
        return kept

    assert kept_of_first(more=True) < 0.65 * kept_of_first(more=False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"known": 0}, {"least_room": 0.0}, {"load_rows": float("nan")},
        {"full_load": float("inf")}, {"overtime": -1.0},
    ],
)  # fmt: skip
def test_numbers_that_make_no_sense_are_told(wrong: dict[str, float]) -> None:
    with pytest.raises(BadArgument, match=next(iter(wrong))):
        AheadRule(**wrong)  # type: ignore[arg-type]
