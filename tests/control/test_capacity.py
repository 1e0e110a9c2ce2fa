"""The cost line against exact truth."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headgate.control.capacity import CapacityFit

FIXED = st.floats(min_value=0.01, max_value=10.0)
PER_ROW = st.floats(min_value=1e-8, max_value=1e-2)


@given(FIXED, PER_ROW, st.integers(min_value=0, max_value=10_000))
def test_varied_rows_without_noise_give_back_both_prices(
    fixed: float, per_row: float, seed: int
) -> None:
    rng = random.Random(seed)
    fit = CapacityFit()
    # Batches whose rows matter and vary: from a fifth of the fixed price to ten times it.
    for _ in range(60):
        rows = fixed / per_row * 10.0 ** rng.uniform(-0.7, 1.0)
        fit.add(rows, fixed + per_row * rows)
    assert fit.fixed_s == pytest.approx(fixed, rel=0.01)
    assert fit.per_row_s == pytest.approx(per_row, rel=0.01)
    target = 3 * fixed
    assert fit.rows_within(target) == pytest.approx(2 * fixed / per_row, rel=0.02)


@given(FIXED, PER_ROW, st.floats(min_value=0.1, max_value=10.0))
def test_constant_rows_are_predicted_exactly_whatever_the_fixed_price(
    fixed: float, per_row: float, ratio: float
) -> None:
    rows = ratio * fixed / per_row
    fit = CapacityFit()
    for _ in range(30):
        fit.add(rows, fixed + per_row * rows)
    assert fit.predict(rows) == pytest.approx(fixed + per_row * rows, rel=1e-6)
    # More time is more rows, and the point itself is on the line.
    assert fit.rows_within(fit.predict(rows)) == pytest.approx(rows, rel=1e-6)
    assert fit.rows_within(2 * fit.predict(rows)) > rows


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.integers(min_value=0, max_value=10**9), st.floats(min_value=0.0, max_value=1e5)),
        min_size=1,
        max_size=40,
    )
)
def test_any_batches_leave_prices_that_can_be_used(batches: list[tuple[int, float]]) -> None:
    assume(any(rows for rows, _ in batches))
    fit = CapacityFit()
    for rows, duration in batches:
        fit.add(rows, duration)
    assert math.isfinite(fit.fixed_s)
    assert fit.fixed_s >= 0
    assert math.isfinite(fit.per_row_s)
    assert fit.per_row_s > 0
    assert 0 <= fit.rows_within(1.0) <= fit.rows_within(2.0)


def test_nothing_is_known_before_the_first_row() -> None:
    fit = CapacityFit()
    assert not fit.known
    assert fit.rows_within(1.0) == math.inf
    fit.add(0, 0.3)
    assert not fit.known
    fit.add(100, 1.0)
    assert fit.known


@pytest.mark.parametrize("factor", [2.0, 4.0, 0.5, 0.25])
def test_a_changed_price_is_believed_within_four_batches(factor: float) -> None:
    rng = random.Random(0)
    fit = CapacityFit()
    for _ in range(30):
        rows = rng.uniform(3000, 9000)
        fit.add(rows, 0.25 + 0.75e-4 * rows)
    for _ in range(4):
        rows = rng.uniform(3000, 9000)
        fit.add(rows, 0.25 + factor * 0.75e-4 * rows)
    assert fit.predict(6000) == pytest.approx(0.25 + factor * 0.45, rel=0.15)


def test_one_odd_batch_is_forgotten_within_two() -> None:
    fit = CapacityFit()
    for _ in range(30):
        fit.add(7000, 0.8)
    fit.add(7000, 8.0)
    assert fit.predict(7000) > 1.0
    fit.add(7000, 0.8)
    fit.add(7000, 0.8)
    assert fit.predict(7000) == pytest.approx(0.8, rel=0.1)


def test_ten_per_cent_noise_leaves_an_error_of_three_per_cent() -> None:
    errors = []
    for seed in range(30):
        rng = random.Random(seed)
        fit = CapacityFit()
        for _ in range(60):
            rows = rng.uniform(7000, 8000)
            fit.add(rows, (0.25 + 0.75e-4 * rows) * rng.lognormvariate(0.0, 0.1))
        errors.append(fit.predict(7500) / (0.25 + 0.75e-4 * 7500) - 1.0)
    assert math.sqrt(sum(e * e for e in errors) / len(errors)) < 0.035
    assert abs(sum(errors) / len(errors)) < 0.02


def test_an_empty_batch_lowers_the_fixed_price_and_leaves_the_line_where_the_batches_are() -> None:
    fit = CapacityFit()
    for rows in (4000, 8000, 12000, 16000):
        fit.add(rows, 0.5 + 1e-4 * rows)
    where = sum(fit.snapshot()["sums"][1:2]) / fit.snapshot()["sums"][0]
    before = fit.predict(where)
    fit.add(0, 0.1)
    assert fit.fixed_s == 0.1
    assert fit.predict(where) == pytest.approx(before)
