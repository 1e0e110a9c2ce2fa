"""The three prices against exact truth."""

from __future__ import annotations

import json
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control.batch_cost import BatchCost

FIXED = st.floats(min_value=0.05, max_value=2.0)
PER_ROW = st.floats(min_value=1e-6, max_value=1e-3)


@given(FIXED, PER_ROW, st.floats(min_value=0.0, max_value=0.1), st.integers(0, 10_000))
def test_varied_rows_without_noise_give_back_all_three_prices(
    fixed: float, per_row: float, arrived_share: float, seed: int
) -> None:
    rng = random.Random(seed)
    cost, target = BatchCost(target_s=4 * fixed), 4 * fixed
    per_arrived = arrived_share * per_row
    for _ in range(150):
        kept = fixed / per_row * 10.0 ** rng.uniform(-0.5, 0.5)
        arrived = kept * rng.choice((1.0, 1.5, 3.0, 8.0))
        cost.add(kept, arrived, fixed + per_row * kept + per_arrived * arrived)
    for kept, arrived in (
        (2 * fixed / per_row, 2 * fixed / per_row),
        (fixed / per_row, 5 * fixed / per_row),
    ):
        truth = fixed + per_row * kept + per_arrived * arrived
        assert cost.predict(kept, arrived) == pytest.approx(truth, rel=0.06)
    whole = (target - fixed) / (per_row + per_arrived)
    assert cost.rows_within(target) == pytest.approx(whole, rel=0.07)


@given(FIXED, PER_ROW, st.floats(min_value=0.1, max_value=10.0))
def test_rows_that_do_not_vary_are_predicted_exactly_and_other_sizes_with_doubt(
    fixed: float, per_row: float, ratio: float
) -> None:
    rows = ratio * fixed / per_row
    cost = BatchCost(target_s=4 * fixed)
    for _ in range(60):
        cost.add(rows, rows, fixed + per_row * rows)
    assert cost.predict(rows, rows) == pytest.approx(fixed + per_row * rows, rel=0.01)
    assert cost.doubt(rows, rows) < 0.02
    assert cost.doubt(20 * rows, 20 * rows) > 3 * cost.doubt(rows, rows)


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.integers(min_value=0, max_value=10**9),
            st.floats(min_value=0.0, max_value=1.0),
            st.floats(min_value=0.0, max_value=1e5),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_any_batches_leave_prices_that_can_be_used(batches: list[tuple[int, float, float]]) -> None:
    cost = BatchCost(target_s=1.0)
    for arrived, keep, seconds in batches:
        cost.add(round(keep * arrived), arrived, seconds)
    assert 0.0 <= cost.fixed_s < math.inf
    assert 0.0 <= cost.per_kept_s < math.inf
    assert 0.0 <= cost.per_arrived_s < math.inf
    assert 0.0 < cost.noise < math.inf
    assert 0.0 <= cost.doubt(1_000, 2_000) < math.inf
    assert 0 <= cost.rows_within(1.0) <= cost.rows_within(2.0)


def test_nothing_is_known_before_the_first_row() -> None:
    cost = BatchCost()
    assert not cost.known
    assert cost.rows_within(1.0) == math.inf
    assert cost.add(0, 0, 0.3) is None
    assert not cost.known
    cost.add(100, 100, 1.0)
    assert cost.known


def _warm(seed: int = 0) -> tuple[BatchCost, random.Random]:
    rng, cost = random.Random(seed), BatchCost(target_s=1.0)
    for _ in range(60):
        rows = rng.uniform(3_000, 9_000)
        cost.add(rows, rows, (0.25 + 0.75e-4 * rows) * rng.lognormvariate(0.0, 0.1))
    return cost, rng


@pytest.mark.parametrize("factor", [2.0, 4.0, 0.5, 0.25])
def test_a_price_that_changed_is_believed_within_four_batches(factor: float) -> None:
    cost, rng = _warm()
    for _ in range(4):
        rows = rng.uniform(3_000, 9_000)
        cost.add(rows, rows, 0.25 + factor * 0.75e-4 * rows)
    assert cost.predict(6_000, 6_000) == pytest.approx(0.25 + factor * 0.45, rel=0.2)


def test_one_stall_moves_nothing_and_two_are_a_change() -> None:
    cost, _ = _warm()
    before = cost.predict(6_000, 6_000)
    cost.add(6_000, 6_000, 7.0)
    assert cost.predict(6_000, 6_000) == pytest.approx(before, rel=0.05)
    cost.add(6_000, 6_000, 7.0)
    assert cost.predict(6_000, 6_000) > 3 * before
    cost.add(6_000, 6_000, before)  # a shorter one is proof by itself
    assert cost.predict(6_000, 6_000) == pytest.approx(before, rel=0.3)


def test_two_cold_batches_of_a_run_that_goes_on_move_little() -> None:
    cost, _ = _warm()
    before = cost.predict(6_000, 6_000)
    for _ in range(2):
        assert cost.add(6_000, 6_000, 7.0, cold=True) is None
    assert cost.predict(6_000, 6_000) == pytest.approx(before, rel=0.05)


def test_ten_per_cent_noise_is_measured_and_leaves_an_error_of_three_per_cent() -> None:
    errors, noise = [], []
    for seed in range(30):
        cost, _ = _warm(seed)
        errors.append(cost.predict(6_000, 6_000) / 0.7 - 1.0)
        noise.append(cost.noise)
    assert math.sqrt(sum(e * e for e in errors) / len(errors)) < 0.03
    assert sum(noise) / len(noise) == pytest.approx(0.1, rel=0.15)


def test_a_tiny_first_batch_does_not_make_arrived_rows_dear() -> None:
    """400 rows in 0.3 s, then thousands: the guess from the first must not be most of the second."""
    cost = BatchCost(target_s=0.5)
    cost.add(400, 400, 0.3)
    cost.add(100, 12_000, 0.31)
    assert cost.per_arrived_s * 12_000 < 0.4 * 0.31


def test_what_a_first_batch_took_is_known_though_no_price_of_it_is() -> None:
    """Three guesses that may each be off by a third would let the next batch keep a fifth of it."""
    cost = BatchCost(target_s=2.0)
    cost.add(75_000, 750_000, 1.5)
    assert cost.predict(75_000, 750_000) == pytest.approx(1.5, rel=0.01)
    assert cost.doubt(75_000, 750_000) < 0.2 < cost.doubt(250_000, 750_000)


def test_a_snapshot_goes_on_exactly() -> None:
    cost, rng = _warm()
    again = BatchCost(target_s=1.0)
    again.restore(json.loads(json.dumps(cost.snapshot())))
    for _ in range(20):
        batch = (rng.uniform(1_000, 9_000), 10_000, rng.uniform(0.2, 2.0))
        assert cost.add(*batch) == again.add(*batch)
    assert cost.snapshot() == again.snapshot()
