"""Rows for the time that a batch covers, and what they are worth by its size."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.groups import GroupStats
from headgate.core.load import Budget
from headgate.core.offer import Offer
from headgate.core.row_budget import RowBudget
from headgate.core.row_sic import RowSic
from headgate.core.time_grant import TimeGrant
from headgate.errors import BadArgument, SnapshotError

GRANT = TimeGrant(1000.0, least_s=1.0, most_s=3.0)
ROW_SIC = RowSic(per_s=500.0, stw_s=10.0, sources=2, usual_s=1.0, pause_s=2.5, most=8000.0)


def test_twice_the_time_is_twice_the_rows_and_a_burst_is_not() -> None:
    fits = RowBudget(1.0, grant=GRANT)
    assert fits.rows(50_000, covers_s=1.0) == pytest.approx(1000)
    assert fits.rows(50_000, covers_s=2.0) == pytest.approx(2000)
    assert fits.rows(500_000, covers_s=2.0) == pytest.approx(2000), "the burst keeps no more"
    assert fits.rows(50_000, covers_s=60.0) == pytest.approx(3000), "what nobody used is gone"
    assert fits.keep(800, covers_s=0.01) == 1.0
    assert RowBudget(1.0, most=700, grant=GRANT).rows(50_000, 2.0) == pytest.approx(700)


@pytest.mark.parametrize(
    "given", [(-1.0, 0.0, 1.0), (math.nan, 0.0, 1.0), (1.0, 2.0, 1.0), (1.0, 0.0, 0.0)]
)
def test_what_is_no_grant_is_refused(given: tuple[float, float, float]) -> None:
    with pytest.raises(BadArgument, match=r"rows_per_s|least_s"):
        TimeGrant(*given)


@pytest.mark.parametrize("stored", [[1.0], "abc", {"rows_per_s": 1.0}])
def test_what_was_stored_is_checked(stored: object) -> None:
    with pytest.raises(SnapshotError):
        TimeGrant.from_json(stored)
    with pytest.raises(SnapshotError):
        RowSic.from_json({"per_s": 1.0})


@given(
    st.floats(0.0, 1e6), st.integers(1, 10**7), st.floats(0.01, 10.0), st.floats(1.0, 60.0),
    st.integers(1, 5),
)  # fmt: skip
def test_all_that_a_source_sends_in_a_window_is_worth_one_together(
    per_s: float, arrived: int, covers_s: float, stw_s: float, sources: int
) -> None:
    """Eq. 1: the rows of a window, this batch's and those before it, add up to the source's part."""
    each = RowSic(per_s, stw_s, sources, usual_s=covers_s).at(arrived, covers_s)
    within = arrived * min(1.0, stw_s / covers_s) + per_s * max(0.0, stw_s - covers_s)
    assert each * within * sources == pytest.approx(1.0)


def test_rows_of_a_burst_are_worth_less_down_to_what_was_agreed() -> None:
    usual, burst, flood = (ROW_SIC.at(rows, 1.0) for rows in (500, 2000, 500_000))
    assert 1 / usual == pytest.approx(2 * 5000)
    assert 1 / burst == pytest.approx(2 * 6500)
    assert 1 / flood == pytest.approx(2 * 8000)
    assert ROW_SIC.at(500, 60.0) == ROW_SIC.at(500, None) == usual, "a pause is no time of collecting"


def test_an_offer_brings_all_of_it_to_whoever_pins() -> None:
    budget = Budget(0.3, "shedding", "why", sic=1e-4, fits=RowBudget(1.0, grant=GRANT), row_sic=ROW_SIC)
    offer = Offer(budget, GroupStats(), wanted=0.5)
    again = Offer.from_json(json.loads(json.dumps(offer.to_json())))
    assert again.budget == budget
    assert again.by_time
    found = again.at(8000, 2.0)
    assert found.keep == pytest.approx(0.5), "2000 of the 4000 that the policy would keep"
    assert found.sic == pytest.approx(ROW_SIC.at(8000, 2.0)), "all rows that come are the source's"
    assert found.state == "shedding"


def test_what_was_published_before_sites_granted_amounts_is_read() -> None:
    old = Offer(Budget(0.3, "shedding", sic=1e-4, fits=RowBudget(1.0)), GroupStats()).to_json()
    assert "row_sic" not in old["budget"]
    assert "grant" not in old["budget"]["fits"]
    found = Offer.from_json(old)
    assert not found.by_time
    assert found.at(10, 1.0).sic == 1e-4
