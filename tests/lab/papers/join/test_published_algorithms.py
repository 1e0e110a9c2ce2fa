"""Algorithms 1, 2, 4 and 5 as classes, their errata, and the published system in virtual time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate.joins.conditions import Overlap
from headgate_lab.papers.join.age_based import best_age, reduced_windows
from headgate_lab.papers.join.basic_windows import BasicWindows
from headgate_lab.papers.join.correlation import TimeCorrelation
from headgate_lab.papers.join.direction import direct
from headgate_lab.papers.join.rate import RateAdaptation
from headgate_lab.papers.join.rules import AgeBased, Directed, RandomDrop, RateAdaptive, TimeCorrelated
from headgate_lab.papers.join.utility import utility_fractions
from headgate_lab.sim.join.cpu import JoinSetup, run
from headgate_lab.sim.join.density import window_densities
from headgate_lab.sim.join.stream import Workload, stream

shares = st.floats(0.0, 1.0)
lengths = st.floats(1.0, 100.0)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=30))
def test_r_stays_in_its_range_and_is_never_stuck(periods: list[tuple[int, int]]) -> None:
    rate = RateAdaptation()
    for fetched, offered in periods:
        before = rate.fraction
        after = rate.adapt(fetched, offered)
        assert 0 < after <= 1
        if fetched >= offered > 0:
            assert after == min(1.0, 1.2 * before)
        elif offered == 0:
            assert after == before
        else:
            assert after < before or fetched == 0
    for _ in range(2000):
        rate.adapt(10, 10)
    assert rate.fraction == 1.0  # as printed, a period without a fetch made r 0 for good


@given(shares, st.tuples(shares, shares), lengths, lengths)
def test_directions_spend_the_budget_and_no_more(
    fraction: float, means: tuple[float, float], first: float, second: float
) -> None:
    ours, other = direct(fraction, means, (first, second))
    assert 0 <= ours <= 1
    assert 0 <= other <= 1
    assert ours * first + other * second == pytest.approx(fraction * (first + second), abs=1e-6)
    if means[0] > means[1]:
        assert ours >= other - 1e-9
    if means[0] < means[1]:
        assert ours <= other + 1e-9


def test_line_7_of_algorithm_4_as_printed_overspends_on_unequal_windows() -> None:
    ours, other = direct(0.25, (0.0, 1.0), (10.0, 30.0), as_printed=True)
    assert ours * 10 + other * 30 == pytest.approx(3 * 0.25 * 40)


def learnt(*densities: list[float]) -> list[TimeCorrelation]:
    windows = []
    for density in densities:
        window = TimeCorrelation(len(density))
        window.add(np.array(density) * 1000, np.full(len(density), 1000.0))
        window.adapt()
        windows.append(window)
    return windows


def test_algorithm_2_ranks_by_matches_per_comparison_not_by_matches() -> None:
    window = TimeCorrelation(3, decay=0.5)
    window.add(np.array([5.0, 8.0, 0.0]), np.array([10.0, 20.0, 0.0]))
    assert window.adapt().tolist() == [0, 1, 2]  # the first basic window is half full
    assert window.density.tolist() == [0.5, 0.4, 0.0]
    window.add(np.array([0.0, 0.0, 9.0]), np.array([10.0, 10.0, 10.0]))
    assert window.adapt().tolist() == [2, 1, 0]  # half of the old counts: 4/20 against 2.5/15
    assert window.density[0] == pytest.approx(2.5 / 15)
    untouched = TimeCorrelation(3)
    assert untouched.adapt().tolist() == [0, 1, 2]


types = st.integers(1, 4)


@given(st.data(), types, shares, lengths, lengths)
def test_algorithm_5_is_the_optimal_fractional_knapsack(
    data: st.DataObject, kinds: int, fraction: float, first: float, second: float
) -> None:
    density = [
        data.draw(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=5), label="o") for _ in range(2)
    ]
    table = st.lists(st.floats(0.01, 1.0), min_size=kinds, max_size=kinds)
    worth = np.array([data.draw(table, label="u") for _ in range(2)])
    frequency = np.array([data.draw(table, label="omega") for _ in range(2)])
    frequency /= frequency.sum(axis=1, keepdims=True)
    windows = learnt(*density)
    found = utility_fractions(fraction, windows, worth, frequency, (first, second))
    volume = sum(
        found[side, kind] * frequency[1 - side, kind] * (first, second)[side]
        for side in range(2)
        for kind in range(kinds)
    )
    assert volume == pytest.approx(fraction * (first + second), rel=1e-6, abs=1e-6)
    items = []  # every (window, basic window, type), sorted: the slow way
    for side in range(2):
        o = np.sort(windows[side].density)[::-1]
        for kind in range(kinds):
            for one in o:
                length = (first, second)[side] / len(o)
                items.append((worth[side, kind] * len(o) * one / o.sum(), side, kind, length, len(o)))
    left, best = fraction * (first + second), 0.0
    for value, side, kind, length, _ in sorted(items, reverse=True):
        size = frequency[1 - side, kind] * length
        best += value * min(size, max(0.0, left))
        left -= size
    got = 0.0
    for side in range(2):
        o = np.sort(windows[side].density)[::-1]
        for kind in range(kinds):
            blocks = found[side, kind] * len(o)
            for rank, one in enumerate(o):
                taken = min(1.0, max(0.0, blocks - rank)) * (first, second)[side] / len(o)
                value = worth[side, kind] * len(o) * one / o.sum()
                got += value * taken * frequency[1 - side, kind]
    assert got == pytest.approx(best, rel=1e-6, abs=1e-6)


def test_algorithm_5_with_nothing_to_shed_takes_everything_and_as_printed_does_not() -> None:
    windows, even = learnt([0.3, 0.2, 0.1], [0.1, 0.2, 0.3]), np.full((2, 2), 0.5)
    whole = utility_fractions(1.0, windows, even, even, (20.0, 20.0))
    assert np.allclose(whole, 1.0)
    printed = utility_fractions(1.0, windows, even, even, (20.0, 20.0), basic_s=10.0)
    assert printed.mean() == pytest.approx(2 / 3)


def test_algorithm_5_as_printed_takes_the_wrong_streams_frequencies() -> None:
    windows = learnt([0.2], [0.1])
    worth, frequency = np.array([[0.1, 0.9], [0.1, 0.1]]), np.array([[0.9, 0.1], [0.1, 0.9]])
    mended = utility_fractions(0.25, windows, worth, frequency, (20.0, 20.0))
    printed = utility_fractions(0.25, windows, worth, frequency, (20.0, 20.0), own_frequency=True)
    spent = [
        sum(one[i, z] * frequency[1 - i, z] * 20 for i in range(2) for z in range(2))
        for one in (mended, printed)
    ]
    assert spent[0] == pytest.approx(10.0)
    assert spent[1] > 18.0


def test_algorithm_5_before_any_match_was_seen() -> None:
    blank = [TimeCorrelation(3), TimeCorrelation(3)]
    found = utility_fractions(0.5, blank, np.zeros((2, 1)), np.ones((2, 1)), (10.0, 10.0))
    assert found.sum() == pytest.approx(1.0)


@given(
    st.lists(st.floats(0.0, 3.0), max_size=40),
    st.sampled_from([0.4, 1.0, 2.5]),
    st.sampled_from([1.0, 2.0]),
)
def test_basic_windows_hold_exactly_what_has_not_expired(
    gaps: list[float], basic: float, length: float
) -> None:
    window: BasicWindows[int] = BasicWindows(length, basic)
    times = np.cumsum(gaps).tolist()
    for number, time in enumerate(times):
        window.insert(time, number)
        held = [row for block in range(window.blocks) for row in window.live(block, time)]
        assert sorted(held) == [n for n, t in enumerate(times[: number + 1]) if t >= time - length]
        everything = [row for _, rows in window.select(range(window.blocks), 1.0, time) for row in rows]
        assert sorted(everything) == sorted(held)
        half = [row for _, rows in window.select(range(window.blocks), 0.5, time) for row in rows]
        assert abs(len(half) - len(held) / 2) <= 0.5
        assert sorted(half, reverse=True) == sorted(held, reverse=True)[: len(half)]  # newest first


def test_a_row_out_of_order_is_refused() -> None:
    window: BasicWindows[str] = BasicWindows(2.0, 1.0)
    window.insert(1.0, "a")
    with pytest.raises(BadArgument, match="in order of time"):
        window.insert(0.5, "b")


def test_the_best_age_is_where_the_mean_yield_peaks() -> None:
    assert best_age([5, 4, 3, 2, 1], 20.0) == 0.0
    assert best_age([1, 2, 3, 4, 5], 20.0) == 20.0
    afforded = reduced_windows(((5, 1), (1, 5)), (20.0, 20.0), 4e6, np.array([500.0, 500.0]))
    assert afforded == (8.0, 20.0)  # never below what the CPU affords, never below the best age
    assert reduced_windows(((5, 1), (1, 5)), (20.0, 0.0), 0.0, np.zeros(2)) == (20.0, 0.0)


def test_the_published_system_in_virtual_time() -> None:
    """Which rule is best depends on the shift, and by how much."""
    setup = JoinSetup(Overlap("x", "x", 3))
    late = Workload(rates=((100.0, 500.0),), skew=0.8)
    rate = {
        (rule.name, work.shift_s): run(stream(work, 1), setup, rule).output_rate(40)
        for work in (late, Workload(rates=late.rates, skew=0.8, shift_s=0.0))
        for rule in (
            RandomDrop(),
            RateAdaptive(),
            TimeCorrelated(),
            Directed(),
            AgeBased(window_densities(work, 3, (20.0, 20.0))),
        )
    }
    assert rate["random drop", 25.0] == pytest.approx(706, rel=0.1)
    assert rate["age based", 25.0] == pytest.approx(rate["random drop", 25.0], rel=0.1)
    assert rate["age based", 0.0] == pytest.approx(4226, rel=0.1)
    assert rate["rate", 0.0] == pytest.approx(3995, rel=0.1)
    assert rate["rate", 25.0] < 0.5 * rate["random drop", 25.0]
    assert rate["rate+time+direction", 25.0] == pytest.approx(3541, rel=0.1)
    assert rate["rate+time", 25.0] < rate["rate+time+direction", 25.0]
    assert rate["rate+time+direction", 0.0] < rate["rate+time", 0.0]  # erratum 10


def test_capacity_control_drops_nothing_and_is_never_below_random_drop_after_a_burst() -> None:
    work = Workload(rates=((30.0, 100.0), (45.0, 500.0), (75.0, 300.0), (120.0, 100.0)), shift_s=0.0)
    setup, streams = JoinSetup(Overlap("x", "x", 3), capacity=225_000.0), stream(work, 2)
    dropped = run(streams, setup, RandomDrop()).output_rate(75, 120)
    published = run(streams, setup, RateAdaptive()).output_rate(75, 120)
    controlled = run(streams, setup, RateAdaptive(capacity_control=True))
    assert published < 0.85 * dropped < controlled.output_rate(75, 120)
    assert controlled.dropped_ratio(31) < 0.02


def test_rules_refuse_what_makes_no_sense() -> None:
    cases: list[dict[str, Any]] = [{"period_r": 0.0}, {"boost": 1.0}, {"sampling": 0.0}, {"decay": 1.0}]
    for wrong in cases:
        with pytest.raises(BadArgument, match=next(iter(wrong))):
            Directed(**wrong)
    with pytest.raises(BadArgument, match="match density"):
        AgeBased(((), (1.0,)))
