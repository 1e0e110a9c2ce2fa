"""Figures of runs whose answer is known."""

from __future__ import annotations

import random

import pytest

from headgate.demo.batches import Batch
from headgate_lab.bench.hold.arrivals import Step
from headgate_lab.bench.hold.best_budget import (
    BatchPrices,
    best_constant_rows,
    fit_prices,
    hopeless,
)
from headgate_lab.bench.hold.figures import batches_to_enter, batches_to_zero, held_figures

PRICES = BatchPrices(0.5, 10e-6, 1e-6)


def made(number: int, arrived: int, kept: int, luck: float = 1.0, start: float | None = None) -> Batch:
    """A batch of the known prices; batches begin every two seconds, with the rows of those before."""
    start = 2.0 * number if start is None else start
    took = luck * PRICES.seconds(kept, arrived)
    return Batch(number, start, took, took + 2.0, arrived, kept, until=start)


def test_prices_are_found_again_and_a_stall_does_not_move_them() -> None:
    luck = random.Random(1)
    batches = [
        made(i, n := luck.randint(10_000, 400_000), min(n, luck.randint(5_000, 200_000)))
        for i in range(40)
    ]
    batches[20] = made(20, 100_000, 100_000, luck=8.0)
    found = fit_prices(batches)
    assert found is not None
    assert (found.fixed_s, found.per_kept_s, found.per_arrived_s) == pytest.approx((0.5, 10e-6, 1e-6))


def test_no_price_is_below_zero_and_few_batches_have_none() -> None:
    shrinking = [
        Batch(i, 2.0 * i, 3.0 - 0.1 * i, 3.0, 1000 * (i + 1), 1000 * (i + 1), 0.0) for i in range(20)
    ]
    found = fit_prices(shrinking)
    assert found is not None
    assert min(found.fixed_s, found.per_kept_s, found.per_arrived_s) >= 0
    assert fit_prices(shrinking[:5]) is None


def test_the_best_budget_keeps_95_in_100_inside() -> None:
    batches = [made(i, 500_000, 50_000, luck) for i, luck in enumerate([1.0] * 95 + [2.5] * 5)]
    found = best_constant_rows(batches, PRICES, 2.0)
    assert found is not None
    assert found[0] == pytest.approx(100_000, rel=1e-6), "0.5 s, 0.5 s to read them, 1 s for 100,000"
    assert found[1] == pytest.approx(100 * 100_000, rel=1e-6)


def test_where_all_fits_all_is_best_and_where_nothing_does_there_is_none() -> None:
    small = [made(i, 10_000, 10_000) for i in range(20)]
    assert best_constant_rows(small, PRICES, 2.0) == (10_000, 200_000)
    assert best_constant_rows([made(0, 10_000, 10_000, luck=9.0)], PRICES, 2.0) is None
    assert best_constant_rows([], PRICES, 2.0) is None


def test_a_batch_is_hopeless_if_reading_it_takes_most_of_the_target() -> None:
    assert not hopeless(made(0, 1_000_000, 0), PRICES, 2.0)
    assert hopeless(made(0, 1_200_000, 0), PRICES, 2.0)


def test_the_table_row_of_a_run_that_was_held() -> None:
    """Ten seconds of half a load, sixty of five times capacity, and half again; every rate is right."""
    step, low, high = Step(10.0, 70.0, 100.0), 50_000, 600_000
    batches = [made(i, low, low) for i in range(6)]
    batches += [made(i, high, 70_000) for i in range(6, 36)]
    batches += [made(i, low, 40_000) for i in range(36, 38)] + [made(i, low, low) for i in range(38, 50)]
    found = held_figures(batches, 0.0, step, 2.0)
    assert found["inside"] == 1.0
    assert found["hopeless"] == 0.0
    assert found["longest_targets"] == pytest.approx((0.5 + 0.7 + 0.6) / 2.0)
    assert found["kept_of_best"] == pytest.approx(70_000 / 90_000, abs=1e-3)
    assert found["batches_to_enter"] == 0
    assert found["batches_to_zero"] == 2
    assert found["kept"] < 0.2


def test_a_run_that_stands_still_is_outside() -> None:
    first = made(0, 1000, 1000)
    cut = Batch(1, 20.0, 70.0, 88.0, 0, 0, until=2.0, running=True)
    found = held_figures([first, cut], 0.0, Step(10.0, 60.0, 90.0), 2.0)
    assert found["inside"] == 0.0
    assert found["longest_targets"] == 35.0
    assert found["p100_delay_s"] == 88.0
    assert found["kept_of_best"] is None


def test_three_in_a_row_are_inside_and_shedding_ends_for_good() -> None:
    slow, fast = made(0, 1, 1, luck=9.0), made(1, 100, 100)
    assert batches_to_enter([slow, fast, slow, fast, fast, fast], 2.0) == 3
    assert batches_to_enter([slow, fast, fast], 2.0) is None
    shed = made(2, 100, 50)
    assert batches_to_zero([fast, shed, fast, fast]) == 2
    assert batches_to_zero([shed]) is None
