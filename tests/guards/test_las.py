"""Operator and shedder as state machines, every target, the prices, and the errata of the paper."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import BadArgument, SnapshotError
from headgate.sketches import CostSketch, HashFamily, SketchShape
from headgate_lab.papers.las import (
    AbsoluteLatency,
    Ack,
    AckedPrice,
    AverageLatency,
    BaseLine,
    Delta,
    FullKnowledge,
    LasSettings,
    Pair,
    PriceRule,
    Shedder,
    SlidingAverageLatency,
    StrawMan,
    Verdict,
    clairvoyant_bound,
)
from headgate_lab.papers.las.theory import expected_ratio

SMALL = LasSettings(AbsoluteLatency(1.0), window=8, seed=3)


def pair(settings: LasSettings, cost: float = 1.0) -> Pair:
    costs = CostSketch(settings.shape)
    costs.add(1, cost)
    return Pair(costs)


def test_an_incomplete_shedder_cannot_be_made() -> None:
    class Nothing(Shedder):
        pass

    with pytest.raises(TypeError, match="offer"):
        Nothing()  # type: ignore[abstract]


def test_the_operator_walks_from_start_to_stabilizing_and_sends_when_costs_settle() -> None:
    operator = SMALL.operator()
    sent = {}
    for number in range(1, 25):
        messages = operator.update(key=number % 2, seconds=0.001, completed_s=number * 0.001)
        if messages:
            sent[number] = messages
        if number == 8:
            assert operator.state == "STABILIZING"
    assert list(sent) == [16]
    (message,) = sent[16]
    assert isinstance(message, Pair)
    assert message.costs.count == 15  # the test comes before the tuple is added, as printed
    assert operator.costs.count == 24 - 15


def test_the_operator_waits_while_costs_change() -> None:
    operator = SMALL.operator()
    for number in range(1, 200):
        assert not operator.update(1, 0.001 * 2 ** (number // 8))


def test_eta_is_equation_1_with_empty_cells_as_0() -> None:
    operator = LasSettings(window=2).operator()
    operator.update(1, 1.0)
    operator.update(2, 1.0)  # the snapshot holds key 1 only
    before = CostSketch(operator.costs.shape)
    before.add(1, 1.0)
    old, new = before.ratios(), operator.costs.ratios()
    assert operator.instability() == pytest.approx(np.abs(old - new).sum() / old.sum())
    assert math.isinf(LasSettings().operator().instability())


def test_the_shedder_keeps_everything_until_it_knows_costs() -> None:
    shedder = SMALL.shedder()
    assert all(shedder.offer(1, now) == Verdict(True) for now in np.linspace(0, 0.01, 50))
    assert shedder.state == "NOP"


def test_a_pair_asks_for_a_synchronisation_with_the_next_kept_tuple() -> None:
    shedder = SMALL.shedder()
    shedder.offer(1, 10.0)
    shedder.receive(pair(SMALL))
    assert shedder.state == "SEND"
    first = shedder.offer(1, 10.0)
    assert first.keep
    assert first.request == pytest.approx(1.05)  # C-hat with the tuple, and with the margin
    assert shedder.state == "RUN"
    assert shedder.offer(1, 10.0) == Verdict(False, 0.0)  # 1.05 s of wait against 1 s
    shedder.receive(Delta(-0.5))
    assert shedder.expected_wait(10.0) == pytest.approx(0.55)
    assert shedder.offer(1, 10.0) == Verdict(True)


@pytest.mark.parametrize(("guard", "expected"), [(True, 5.0), (False, 10.0)])
def test_the_same_error_is_not_added_twice(guard: bool, expected: float) -> None:
    """Two pairs before the first reply: both requests would carry the same uncorrected C-hat."""
    settings = LasSettings(AbsoluteLatency(100.0), guard_delta=guard, margin=1.0)
    shedder, backlog = settings.shedder(), 5.0
    requests = []
    for _ in range(2):
        shedder.receive(pair(settings, 1e-9))
        requests.append(shedder.offer(1, 0.0).request)
    assert [request is None for request in requests] == [False, guard]
    for request in requests:
        if request is not None:
            shedder.receive(Delta(backlog - request))
    assert shedder.expected_wait(0.0) == pytest.approx(expected, abs=1e-6)
    if guard:  # the second pair's request comes after the reply
        assert shedder.offer(1, 0.0).request is not None


def test_an_idle_operator_cannot_work_ahead() -> None:
    for clamp, expected in ((True, 0.0), (False, -98.95)):
        settings = LasSettings(AbsoluteLatency(1.0), clamp_idle=clamp)
        shedder = settings.shedder()
        shedder.receive(pair(settings))
        shedder.offer(1, 0.0)
        assert shedder.expected_wait(100.0) == pytest.approx(expected)


def test_what_utility_protects_is_kept_and_enters_the_backlog_only() -> None:
    shedder = SMALL.shedder(utility=lambda key: key != 7)
    shedder.receive(pair(SMALL))
    for _ in range(10):
        assert shedder.offer(7, 0.0).keep
    assert shedder.expected_wait(0.0) == pytest.approx(10.5)
    assert not shedder.offer(1, 0.0).keep


def test_matrices_of_another_shape_are_refused() -> None:
    with pytest.raises(BadArgument, match="same LasSettings"):
        SMALL.shedder().receive(Pair(CostSketch(SketchShape(4, 55))))


def test_snapshots_go_on_where_they_were_taken() -> None:
    operator, shedder = SMALL.operator(), SMALL.shedder()
    shedder.receive(pair(SMALL))
    for number in range(1, 12):
        operator.update(number % 3, 0.001)
        shedder.offer(number, number * 0.01)
    operators = operator, SMALL.operator(operator.snapshot())
    shedders = shedder, SMALL.shedder(shedder.snapshot())
    for number in range(12, 40):
        one, two = (o.update(number % 3, 0.001) for o in operators)
        assert len(one) == len(two)
        assert shedders[0].offer(1, number * 0.1) == shedders[1].offer(1, number * 0.1)
    for bad in ({"v": 2, "side": "operator"}, shedder.snapshot()):
        with pytest.raises(SnapshotError, match="version 1"):
            SMALL.operator(bad)


latencies = st.lists(st.floats(0, 0.05), max_size=300)


@given(latencies, st.integers(0, 1))
def test_avg_holds_at_every_prefix(waits: list[float], before: int) -> None:
    check, admitted = AverageLatency(0.01, counted_before=before).build(), []
    for wait in waits:
        if not check.exceeds(wait):
            check.admit(wait)
            admitted.append(wait)
            assert sum(admitted) <= 0.01 * len(admitted) * (1 + 1e-9)


@given(latencies)
def test_abs_holds_for_every_tuple(waits: list[float]) -> None:
    check = AbsoluteLatency(0.01).build()
    assert all(check.exceeds(wait) == (wait > 0.01) for wait in waits)


@given(latencies, st.integers(1, 20))
def test_a_sliding_average_holds_over_every_window(waits: list[float], window: int) -> None:
    check, admitted = SlidingAverageLatency(0.01, window).build(), []
    for wait in waits:
        if not check.exceeds(wait):
            check.admit(wait)
            admitted.append(wait)
            last = admitted[-window:]
            assert sum(last) <= 0.01 * len(last) * (1 + 1e-9) + 1e-12


def test_the_short_papers_check_never_recovers() -> None:
    check = AverageLatency(0.01, form="short", counted_before=1).build()
    check.admit(1.0)
    assert all(check.exceeds(0.0) for _ in range(100))


@pytest.mark.parametrize(
    "make",
    [
        lambda: AverageLatency(-1), lambda: AverageLatency(1, form="x"),
        lambda: AbsoluteLatency(math.nan), lambda: SlidingAverageLatency(1, 0),
        lambda: LasSettings(window=0), lambda: LasSettings(epsilon=0),
        lambda: LasSettings(after_send="x"), lambda: LasSettings(margin=0), lambda: BaseLine(1.1),
        lambda: StrawMan(0, AbsoluteLatency(1)), lambda: PriceRule("x"), lambda: PriceRule(spread=0),
        lambda: AckedPrice(costs="x"), lambda: AckedPrice(ack_every=0),
        lambda: LasSettings(seed=-1),
        lambda: FullKnowledge(AbsoluteLatency(1)).offer(1, 0.0), lambda: expected_ratio(1, 1, 1, 1),
        lambda: AckedPrice(costs="known").shedder().offer(1, 0.0), lambda: LasSettings(stability=0),
    ],
)  # fmt: skip
def test_illegal_values_are_refused(make: object) -> None:
    with pytest.raises(BadArgument):
        make()  # type: ignore[operator]


def test_theorem_5s_example_and_what_it_really_shows() -> None:
    durations = np.repeat(np.arange(1, 65), 64).astype(float)
    low, high = (expected_ratio(w, durations.sum(), 4096, 55) for w in (1, 64))
    assert (round(low, 4), round(high, 4)) == (32.0846, 32.9154)
    assert (33 / 48) ** 10 <= 0.024
    ratios = []
    for seed in range(400):
        (columns,) = HashFamily(1, 55, seed).columns_of_all(
            np.arange(4096, dtype=np.uint64) * np.uint64(2**40 + 7)
        )
        counts, work = np.bincount(columns, minlength=55), np.bincount(columns, durations, 55)
        ratios.append(work[columns[[0, 4095]]] / counts[columns[[0, 4095]]])
    assert np.mean(ratios, axis=0) == pytest.approx([low, high], abs=0.45)


def test_theorem_4_is_false() -> None:
    """100, 1, 1, ...: Full Knowledge drops 99 of 101; dropping what costs more than 10 drops one."""
    full, dropped = FullKnowledge(AverageLatency(0.0)), 0
    for number in range(101):
        dropped += not full.offer(number, number * 0.001, 0.1 if number == 0 else 0.001).keep
    assert dropped == 99
    assert clairvoyant_bound(np.array([0.1] + [0.001] * 100), 0.101) == pytest.approx(1 / 101)


@given(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3), st.sampled_from(["hard", "soft", "balanced"]))
def test_a_chance_is_a_chance_and_falls_with_cost(cost: float, level: float, shape: str) -> None:
    rule = PriceRule(shape)  # type: ignore[arg-type]
    chance = rule.chance(cost, level)
    assert 0.0 <= chance <= 1.0
    assert rule.chance(cost * 1.5, level) <= chance
    assert rule.chance(level, level) == 1.0


def test_the_balanced_price_is_the_optimum_it_claims() -> None:
    spread, level = 0.02, 1.0
    rule = PriceRule("balanced", spread=spread)

    def loss(p: float, cost: float) -> float:
        return (1 - p) + spread * (1 / p - 1) + cost * p / level

    grid = np.linspace(0.001, 1, 5000)
    for cost in (0.5, 1.01, 1.1, 1.5, 3.0, 20.0):
        best = min(loss(float(p), cost) for p in grid)
        assert loss(rule.chance(cost, level), cost) <= best + 1e-6


def test_idle_is_free_for_a_price() -> None:
    shedder, operator = AckedPrice().shedder(), AckedPrice().operator()
    for number in range(500):
        assert shedder.offer(number % 50, number * 0.01) == Verdict(True, 1.0)
        ack = operator.update(0.0001 * (1 + number % 50), number * 0.01 + 0.006)
        if ack:
            shedder.receive(ack)


def test_a_lost_acknowledgement_is_made_good_by_the_next() -> None:
    config = AckedPrice(AbsoluteLatency(100.0))
    shedder = config.shedder()
    for _ in range(4):
        shedder.offer(1, 0.0)
    shedder.receive(Ack(1, 1.0, (1.0,)))
    for _ in range(4):
        assert shedder.offer(1, 1.0).keep
    shedder.receive(Ack(6, 6.0, (1.0, 1.0)))  # the one for the tuples 2 to 4 never came
    assert shedder.snapshot()["backlog"][1] == pytest.approx(8.0)


def test_a_price_goes_on_from_its_snapshot() -> None:
    for costs in ("table", "sketch", "known"):
        config = AckedPrice(AverageLatency(0.01), costs=costs, seed=4)  # type: ignore[arg-type]
        shedder = config.shedder()
        for number in range(300):
            shedder.offer(number % 9, number * 1e-3, 2e-3)
            if number % 16 == 15:
                shedder.receive(Ack(number + 1, number * 2e-3, (2e-3,) * 16))
        again = config.shedder(shedder.snapshot())
        assert again.snapshot() == shedder.snapshot()
        for number in range(300, 400):
            offers = [s.offer(number % 9, number * 1e-3, 2e-3) for s in (shedder, again)]
            assert offers[0] == offers[1]
        with pytest.raises(SnapshotError, match="version"):
            config.shedder({"v": 9})
