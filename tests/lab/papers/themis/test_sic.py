"""SIC: what sources are worth in all is 1, and no operator adds or loses any while nothing is shed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate.fairness import jain, mean_jain
from headgate_lab.papers.themis import ResultWindow, SourceWindow, derived_sic, result_sic, window_sics

Floats = npt.NDArray[np.float64]
SICS = st.lists(st.floats(0, 1), min_size=1, max_size=60)


@st.composite
def streams(draw: st.DrawFn) -> tuple[Floats, Floats]:
    """Times in 10 seconds, and the SIC of the tuples."""
    sics = draw(SICS)
    times = draw(st.lists(st.floats(0, 9.99), min_size=len(sics), max_size=len(sics)))
    return np.array(times), np.array(sics)


# Operators: what comes out of each, as (times, SIC) of its outputs.


def rows_of(ends: Floats, worth: Floats, outputs: int) -> tuple[Floats, Floats]:
    """So many outputs of each window, worth the same (Eq. 3)."""
    each = [derived_sic([sic], outputs) for sic in worth]
    return np.repeat(ends, outputs), np.repeat(each, outputs)


def aggregate(stream: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    return rows_of(*window_sics(*stream, size_s=1.0), outputs=1)


def sliding_aggregate(stream: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    return rows_of(*window_sics(*stream, size_s=3.0, slide_s=0.7), outputs=1)


def top_5(stream: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    return rows_of(*window_sics(*stream, size_s=1.0), outputs=5)


def grouped(stream: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Each group's rows give what they are worth to their group's output."""
    times, sics = stream
    parts = [window_sics(times[g::3], sics[g::3], size_s=2.0) for g in range(3)]
    return np.concatenate([ends for ends, _ in parts]), np.concatenate([worth for _, worth in parts])


def some_pass(stream: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """A filter over a window: what passes stands for all that was looked at."""
    return rows_of(*window_sics(*stream, size_s=10.0), outputs=2)


def join_with_itself(stream: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Both sides' windows are one input of the join; 4 pairs come out."""
    times, sics = stream
    half = len(times) // 2
    left = window_sics(times[:half], sics[:half], size_s=10.0)
    right = window_sics(times[half:], sics[half:], size_s=10.0)
    each = derived_sic(np.concatenate([left[1], right[1]]), 4)
    return np.full(4, 10.0), np.full(4, each)


def union(stream: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """No window: each tuple is its own input and output."""
    return stream[0], np.array([derived_sic([sic], 1) for sic in stream[1]])


OPERATORS = [aggregate, sliding_aggregate, top_5, grouped, some_pass, join_with_itself, union]


@pytest.mark.parametrize("operator", OPERATORS)
@given(stream=streams())
def test_operators_conserve_sic(
    operator: Callable[[tuple[Floats, Floats]], tuple[Floats, Floats]], stream: tuple[Floats, Floats]
) -> None:
    times, sics = operator(stream)
    assert len(times) == len(sics)
    assert sics.sum() == pytest.approx(stream[1].sum(), abs=1e-9)


@given(stream=streams(), chain=st.lists(st.sampled_from(OPERATORS), max_size=4))
def test_chains_of_operators_conserve_sic(
    stream: tuple[Floats, Floats],
    chain: list[Callable[[tuple[Floats, Floats]], tuple[Floats, Floats]]],
) -> None:
    result = stream
    for operator in chain:
        result = operator(result)
    q_sic = result_sic(*result, at_s=1e6, stw_s=2e6)
    assert q_sic == pytest.approx(stream[1].sum(), abs=1e-9)


def test_an_operator_without_output_loses_sic() -> None:
    assert derived_sic([0.1, 0.2], 0) == 0.0


def test_gaps_between_windows_lose_sic() -> None:
    _, worth = window_sics([0.5, 1.5, 2.5], [0.1, 0.2, 0.4], size_s=1.0, slide_s=2.0)
    assert worth.sum() == pytest.approx(0.5)


@given(stream=streams(), size=st.integers(1, 40), slide=st.integers(1, 40))
def test_windows_equal_their_twin(stream: tuple[Floats, Floats], size: int, slide: int) -> None:
    times, sics = np.round(stream[0], 2), stream[1]
    ends, worth = window_sics(times, sics, size / 8, slide / 8)
    twin: dict[int, float] = {}
    for at, sic in zip(times, sics, strict=True):
        inside = [n for n in range(-500, 500) if n * slide / 8 <= at + 1e-9 < n * slide / 8 + size / 8]
        for n in inside:
            twin[n] = twin.get(n, 0.0) + sic / len(inside)
    assert ends == pytest.approx([n * slide / 8 + size / 8 for n in sorted(twin)])
    assert worth == pytest.approx([twin[n] for n in sorted(twin)])


# Sources.


@given(rates=st.lists(st.integers(1, 50), min_size=1, max_size=5), after=st.integers(0, 60))
def test_a_window_of_sources_is_worth_one(rates: list[int], after: int) -> None:
    """From the first slide on, because the first window is scaled."""
    window = SourceWindow(stw_s=10.0, slide_s=0.25)
    for source in range(len(rates)):
        window.join(source, len(rates), at_s=0.0)
    offered: list[float] = []
    for slide in range(1, after + 41):
        window.offer(dict(enumerate(rates)), slide * 0.25)
        offered.append(float((window.sics(slide * 0.25) * np.array(rates)).sum()))
    assert sum(offered[after:]) == pytest.approx(1.0)


@given(
    steps=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 90)), min_size=1, max_size=60),
    slides=st.integers(1, 12),
)
def test_counts_equal_their_twin(steps: list[tuple[int, int]], slides: int) -> None:
    """A slide is 4 ticks; whole slides are counted, the present one as far as it has come."""
    window = SourceWindow(stw_s=float(slides), slide_s=1.0)
    window.join("s", 1, at_s=-100.0)
    ticks, offers = 0, []
    for wait, count in steps:
        ticks += wait
        window.offer({"s": count}, ticks / 4)
        offers.append((ticks, count))
    now = -(-ticks // 4) - 1
    inside = sum(count for tick, count in offers if -(-tick // 4) - 1 > now - slides)
    seen = slides - ((now + 1) - ticks / 4)
    assert window.offered(ticks / 4)[0] == pytest.approx(inside * slides / max(seen, 1.0))


def test_the_first_window_is_scaled_and_a_late_source_too() -> None:
    window = SourceWindow(stw_s=10.0, slide_s=1.0)
    window.join("early", 2, at_s=0.0)
    for second in range(1, 31):
        if second == 26:
            window.join("late", 2, at_s=25.0)
        window.offer(dict.fromkeys(window.sources, 8), float(second))
    assert window.tuple_sic(30.0) == pytest.approx({"early": 1 / 160, "late": 1 / 160})


def test_a_source_that_leaves_takes_its_counts() -> None:
    window = SourceWindow(10.0, 1.0)
    for source in "abc":
        window.join(source, 3, 0.0)
    window.offer({"a": 5, "b": 7, "c": 9}, 1.0)
    window.leave("b")
    assert window.sources == ("a", "c")
    assert window.offered(10.0).tolist() == [5.0, 9.0]
    assert window.tuple_sic(30.0) == {"a": 0.0, "c": 0.0}


def test_a_source_that_sends_more_than_agreed() -> None:
    window = SourceWindow(10.0, 1.0)
    window.join("calm", 2, 0.0, agreed=100.0)
    window.join("noisy", 2, 0.0, agreed=100.0)
    for second in range(1, 11):
        window.offer({"calm": 5, "noisy": 100}, float(second))
    assert window.tuple_sic(10.0) == pytest.approx({"calm": 1 / 100, "noisy": 1 / 200})


def test_a_clock_that_jumps() -> None:
    window = SourceWindow(10.0, 1.0)
    window.join("s", 1, 0.0)
    for second in range(1, 21):
        window.offer({"s": 10}, float(second))
    window.offer({"s": 10}, 3.0)  # back: as if the clock stood still
    assert window.offered(20.0)[0] == 110.0
    assert window.offered(1e9)[0] == 0.0  # forward: all is long ago


@given(st.lists(st.tuples(st.integers(1, 60), st.floats(0, 0.1)), max_size=60))
def test_the_result_window_equals_equation_4(results: list[tuple[int, float]]) -> None:
    results.sort()
    window = ResultWindow(stw_s=10.0, slide_s=1.0, at_s=0.0)
    for second, sic in results:
        window.add(sic, float(second))
    times, sics = [float(second) for second, _ in results], [sic for _, sic in results]
    assert window.sic(60.0) == pytest.approx(result_sic(times, sics, at_s=60.0, stw_s=10.0))


def test_a_young_query_is_judged_by_its_life() -> None:
    window = ResultWindow(stw_s=10.0, slide_s=1.0, at_s=50.0)
    for second in (51.0, 52.0, 53.0):
        window.add(0.04, second)
    assert window.sic(53.0) == pytest.approx(0.4)


# Jain's index.


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.floats(1e-3, 1e3))
def test_jain_bounds_and_scale(values: list[float], factor: float) -> None:
    index = jain(values)
    assert 1 / len(values) - 1e-12 <= index <= 1 + 1e-12
    assert jain([factor * value for value in values]) == pytest.approx(index)
    twin = 1.0
    if sum(value**2 for value in values) > 1e-200:
        twin = sum(values) ** 2 / (len(values) * sum(value**2 for value in values))
        assert index == pytest.approx(twin)


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=10), st.floats(0.01, 1))
def test_shares_by_weight_are_fair(weights: list[float], level: float) -> None:
    assert jain([level * weight for weight in weights], weights) == pytest.approx(1.0)


def test_jain_at_each_time() -> None:
    assert mean_jain([[1, 1], [1, 0]]) == pytest.approx(0.75)


# Bad use.


@pytest.mark.parametrize(
    "call",
    [
        lambda: SourceWindow(0.0, 0.0),
        lambda: SourceWindow(1.0, 2.0),
        lambda: SourceWindow(float("inf"), 1.0),
        lambda: SourceWindow().join("s", 0, 0.0),
        lambda: SourceWindow().join("s", 1, float("nan")),
        lambda: SourceWindow().offer({"unknown": 1}, 0.0),
        lambda: SourceWindow().offer_all([1.0], 0.0),
        lambda: ResultWindow().add(-0.1, 1.0),
        lambda: ResultWindow().add(float("nan"), 1.0),
        lambda: derived_sic([1.0], -1),
        lambda: window_sics([0.0], [1.0], 0.0),
        lambda: window_sics([0.0], [1.0], 1.0, -1.0),
        lambda: jain([]),
        lambda: jain([1.0, -1.0]),
        lambda: jain([1.0, float("nan")]),
        lambda: jain([1.0, 1.0], weights=[1.0]),
        lambda: jain([1.0, 1.0], weights=[1.0, 0.0]),
        lambda: mean_jain([1.0, 2.0]),
    ],
)
def test_bad_use_is_told(call: Callable[[], object]) -> None:
    with pytest.raises(BadArgument):
        call()


def test_a_source_joins_once() -> None:
    window = SourceWindow()
    window.join("s", 1, 0.0)
    with pytest.raises(BadArgument, match="joined before"):
        window.join("s", 1, 0.0)
