"""How many tuples fit: the published average, and the fitted line that takes its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control.batch_cost import BatchCost
from headgate.errors import BadArgument
from headgate_lab.papers.themis import Capacity, CostModel, OverloadDetector


class WholeBatches:
    """The gate's fit, where all rows that arrive are kept."""

    def __init__(self) -> None:
        self._cost = BatchCost(target_s=0.25)

    def add(self, rows: int, seconds: float) -> None:
        self._cost.add(rows, rows, seconds)

    def rows_within(self, seconds: float) -> float:
        return self._cost.rows_within(seconds)


INTERVALS = st.lists(st.tuples(st.integers(0, 900), st.floats(1e-3, 1.0)), max_size=20)


@given(INTERVALS, st.integers(1, 6))
def test_the_average_is_of_the_latest_measurements(seen: list[tuple[int, float]], window: int) -> None:
    cost = CostModel(window, initial_s=0.002)
    for rows, seconds in seen:
        cost.add(rows, seconds)
    measured = [0.002] + [seconds / rows for rows, seconds in seen if rows]
    latest = measured[-window:]
    assert cost.per_row_s == pytest.approx(sum(latest) / len(latest))
    assert cost.rows_within(0.5) == pytest.approx(0.5 * len(latest) / sum(latest))


def idled(capacity: Capacity) -> OverloadDetector:
    """A batch costs 100 ms and 5 us a tuple; only about 1,000 tuples came for a while."""
    for rows in (1000, 700, 1300, 500, 1500, 900, 1100, 1000) * 3:
        capacity.add(rows, 0.1 + 5e-6 * rows)
    return OverloadDetector(capacity, interval_s=0.25)


def test_a_fixed_price_deceives_the_average_more_than_the_line() -> None:
    """The line is careful while all batches are short (14,800 of 30,000), and exact after two more."""
    truth = 30_000
    average, line = idled(CostModel(window=10)), idled(WholeBatches())
    assert average.threshold < 0.1 * truth
    assert 0.4 * truth < line.threshold <= truth
    for detector in (average, line):
        for _ in range(2):
            rows = detector.threshold
            detector.capacity.add(rows, 0.1 + 5e-6 * rows)
    assert average.threshold < 0.2 * truth
    assert line.threshold == pytest.approx(truth, rel=0.1)


def test_before_anything_was_measured_the_line_sheds_nothing() -> None:
    assert not OverloadDetector(WholeBatches()).overloaded(10**12)


@pytest.mark.parametrize(
    "call",
    [
        lambda: CostModel(window=0),
        lambda: CostModel(initial_s=0.0),
        lambda: OverloadDetector(CostModel(), interval_s=0.0),
    ],
)
def test_bad_use_is_told(call: Callable[[], object]) -> None:
    with pytest.raises(BadArgument):
        call()
