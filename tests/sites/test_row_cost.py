from __future__ import annotations

import json
import random

import pytest

from headgate.sites.row_cost import RowCost


def _learned(batches: list[tuple[float, float]]) -> RowCost:
    cost = RowCost()
    for rows, seconds in batches:
        cost.add(rows, seconds)
    return cost


def test_a_line_is_found_in_noise() -> None:
    chance = random.Random(1)
    batches = [(n, (1.0 + 3e-4 * n) * chance.uniform(0.9, 1.1)) for n in (500, 4000, 900, 6000) * 5]
    cost = _learned(batches)
    assert cost.per_row_s == pytest.approx(3e-4, rel=0.25)
    assert cost.fixed_s == pytest.approx(1.0, rel=0.4)


def test_few_rows_and_a_fixed_price_that_comes_and_goes_do_not_raise_the_price() -> None:
    """What starved a site: 0.3 ms a row went to 60 when next to nothing was kept."""
    chance = random.Random(2)
    cost = _learned([(n, 1.0 + 3e-4 * n) for n in (3000, 1500, 4000, 2500)])
    for _ in range(12):
        cost.add(chance.uniform(5, 20), chance.uniform(0.5, 3.0))
    assert cost.per_row_s < 1e-3


@pytest.mark.parametrize("odd", [0.0, 1e-9, 0.05])
def test_one_report_that_lacks_its_time_does_not_make_rows_free(odd: float) -> None:
    batches = [(n, 1.0 + 3e-4 * n) for n in (3000, 1500, 4000, 2500)] * 3
    cost = _learned([*batches, (3000.0, odd), *batches[:4]])
    assert cost.per_row_s == pytest.approx(3e-4, rel=0.5)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_nor_does_one_of_the_first(place: int) -> None:
    batches = [(n, 1.0 + 3e-4 * n) for n in (3000, 1500, 4000, 2500)] * 6
    batches.insert(place, (3000, 0.02))
    assert _learned(batches).per_row_s == pytest.approx(3e-4, rel=0.5)


def test_a_large_first_batch_is_no_odd_one() -> None:
    """It had many rows and took long: what it says of a row is the best bound there is."""
    cost = _learned([(50_000, 8.0), (20, 5.0), (10, 5.0), (15, 5.0)])
    assert cost.blamed_s < 2e-4


def test_it_goes_on_after_a_restart() -> None:
    batches = [(n, 1.0 + 3e-4 * n) for n in (3000, 1500, 4000, 2500)] * 2
    cost = _learned(batches)
    again = RowCost()
    again.restore(json.loads(json.dumps(cost.snapshot())))
    for found in (again, cost):
        found.add(3000, 0.02)
    for name in ("per_row_s", "fixed_s", "surely_fixed_s", "blamed_s", "known"):
        assert getattr(again, name) == getattr(cost, name), name
    assert again.per_row_s > 2e-4


def test_while_batches_do_not_tell_rows_may_be_blamed_for_all() -> None:
    cost = _learned([(1000, 4.0), (1000, 4.0)])
    assert cost.blamed_s == pytest.approx(4e-3)
    assert cost.surely_fixed_s == 0.0
