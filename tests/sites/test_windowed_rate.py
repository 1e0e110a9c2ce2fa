"""Rates over a window, against a twin that keeps every batch."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.sites.windowed_rate import WindowedRate

STW = 10.0


def _naive(batches: list[tuple[float, float]]) -> float:
    """Per second, over the fewest latest batches that were collected in a window or longer."""
    span = total = 0.0
    for spacing, amount in reversed(batches):
        span, total = span + spacing, total + amount
        if span >= STW:
            break
    return total / span


@given(
    st.lists(
        st.tuples(st.floats(0.01, 30.0), st.floats(0.0, 1e6)),
        min_size=1,
        max_size=60,
    )
)
@settings(max_examples=200, deadline=None)
def test_it_is_what_a_list_of_all_batches_says(batches: list[tuple[float, float]]) -> None:
    rows = WindowedRate(STW)
    start, seen = 1.7e9, []
    for number, (spacing, amount) in enumerate(batches):
        before, start = start, start + spacing
        # As the difference of two large instants is: not exactly what was added.
        seen.append((start - before if number else spacing, amount))
        rows.add(start, amount, usual_s=spacing, heard_s=start)
        assert rows.per_second(start) == pytest.approx(_naive(seen), rel=1e-9)
        assert rows.per_window(start) == pytest.approx(STW * _naive(seen), rel=1e-9)


def test_there_is_nothing_before_the_first_batch() -> None:
    rows = WindowedRate(STW)
    assert rows.per_window(5.0) == 0.0
    rows.add(0.0, 100.0, usual_s=2.0, heard_s=0.0)
    assert rows.per_second(0.0) == 50.0, "the trigger stands in for the first spacing"


@pytest.mark.parametrize("jump", [86_400.0, -86_400.0, math.nan, math.inf])
def test_a_clock_that_jumps_costs_no_more_than_the_window(jump: float) -> None:
    rows = WindowedRate(STW)
    for second in range(20):
        rows.add(float(second), 100.0, usual_s=1.0, heard_s=float(second))
    rows.add(20.0 + jump, 100.0, usual_s=1.0, heard_s=20.0)
    assert rows.per_second(20.0) == 100.0
    rows.add(21.0 + jump, 100.0, usual_s=1.0, heard_s=21.0)
    assert rows.per_second(21.0) == 100.0


def test_two_batches_in_one_tick_of_the_clock_are_one() -> None:
    rows = WindowedRate(STW)
    for second in range(20):
        for _ in range(2):
            rows.add(float(second), 50.0, usual_s=1.0, heard_s=float(second))
    assert rows.per_second(19.0) == pytest.approx(100.0)


def test_a_clock_that_stands_still_does_not_fill_the_memory() -> None:
    rows = WindowedRate(STW)
    for _ in range(5000):
        rows.add(7.0, 1.0, usual_s=1.0, heard_s=7.0)
    assert len(rows._batches) == 1


def test_it_fades_when_no_batch_comes_and_not_while_one_is_being_processed() -> None:
    quiet, busy = WindowedRate(STW), WindowedRate(STW)
    for second in range(20):
        for rows in (quiet, busy):
            rows.add(float(second), 100.0, usual_s=1.0, heard_s=float(second))
    assert quiet.per_second(21.0) == 100.0, "a batch or two that is late is no silence"
    found = [quiet.per_second(now) for now in (25.0, 60.0, 600.0)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < 2.0
    busy.at_work(60.0)
    assert busy.per_second(60.0) == 100.0


def test_a_stream_with_a_long_trigger_does_not_fade_between_its_batches() -> None:
    rows = WindowedRate(STW)
    for start in range(0, 200, 40):
        rows.add(float(start), 400.0, usual_s=40.0, heard_s=float(start))
    assert rows.per_second(199.0) == 10.0
