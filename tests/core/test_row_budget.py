"""`RowBudget`: what is kept of a batch of any size, and that it survives JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import Budget
from headgate.core.row_budget import RowBudget
from headgate.errors import BadArgument, SnapshotError

PLAIN = RowBudget(aim_s=0.85, fixed_s=0.25, per_kept_s=75e-6, whole=9_000, min_keep=0.01)

SECONDS = st.floats(min_value=0.0, max_value=1e4)
BUDGETS = st.builds(
    RowBudget,
    SECONDS,
    SECONDS,
    st.floats(min_value=0.0, max_value=1.0),
    st.floats(min_value=0.0, max_value=1.0),
    whole=st.floats(min_value=0.0),
    most=st.floats(min_value=0.0),
    min_keep=st.floats(min_value=0.0, max_value=0.5),
    max_keep=st.floats(min_value=0.5, max_value=1.0),
)


def test_a_batch_that_fits_runs_whole_and_a_larger_one_is_cut_to_the_aim() -> None:
    assert PLAIN.keep(0) == PLAIN.keep(9_000) == 1.0
    assert PLAIN.rows(20_000) == pytest.approx(8_000)
    assert PLAIN.seconds(20_000) == pytest.approx(0.85)
    assert PLAIN.seconds(1_000) == pytest.approx(0.325)


def test_rows_that_are_shed_are_paid_for() -> None:
    budget = RowBudget(aim_s=1.0, fixed_s=0.2, per_kept_s=1e-4, per_arrived_s=1e-5, whole=7_000)
    assert budget.rows(30_000) == pytest.approx(5_000)
    assert budget.seconds(30_000) == pytest.approx(1.0)


def test_where_nothing_fits_the_least_share_is_kept() -> None:
    assert RowBudget(aim_s=0.2, fixed_s=0.25, per_kept_s=1e-4, whole=0, min_keep=0.05).keep(10) == 0.05


def test_a_first_batch_is_bounded_and_has_no_expected_length() -> None:
    first = RowBudget(aim_s=2.0, most=200_000, min_keep=0.001)
    assert first.keep(200_000) == 1.0
    assert first.rows(60_000_000) == pytest.approx(200_000)
    assert first.seconds(60_000_000) is None


@given(BUDGETS, st.integers(min_value=0, max_value=10**9))
def test_a_share_is_always_legal(budget: RowBudget, arrived: int) -> None:
    assert budget.min_keep <= budget.keep(arrived) <= budget.max_keep


@given(st.integers(min_value=10_000, max_value=10**7), st.floats(min_value=0.8, max_value=1.25))
def test_an_error_of_the_size_moves_the_kept_rows_no_more_than_in_proportion(
    arrived: int, ratio: float
) -> None:
    """Beyond the step between a whole batch and one that is cut, of 9,000 to 8,000 rows here."""
    budget = replace(PLAIN, min_keep=0.0)
    believed = budget.keep(arrived * ratio) * arrived
    off = believed / budget.rows(arrived) * ratio
    assert 8 / 9 * 0.999 <= off <= 9 / 8 * 1.001


@given(BUDGETS)
def test_json_gives_the_same_budget_back(budget: RowBudget) -> None:
    assert RowBudget.from_json(json.loads(json.dumps(budget.to_json(), allow_nan=False))) == budget


@pytest.mark.parametrize("stored", [None, [], {}, {"v": 2}, {"v": 1}, {"v": 1, "aim_s": "x"}])
def test_what_is_no_row_budget_is_told(stored: object) -> None:
    with pytest.raises(SnapshotError):
        RowBudget.from_json(stored)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        lambda: RowBudget(-1.0),
        lambda: RowBudget(math.inf),
        lambda: RowBudget(1.0, per_kept_s=math.nan),
        lambda: RowBudget(1.0, whole=-1),
        lambda: RowBudget(1.0, min_keep=0.5, max_keep=0.4),
        lambda: RowBudget(1.0, max_keep=1.1),
    ],
)
def test_bad_values_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(BadArgument):
        call()


def test_a_budget_is_resolved_for_a_batch_whose_size_is_known() -> None:
    budget = Budget(0.3, "shedding", "why", rows=3_000, sic=0.1, fits=PLAIN)
    small, large = budget.at(5_000), budget.at(80_000)
    assert (small.keep, small.rows, small.state) == (1.0, 5_000.0, "idle")
    assert (large.keep, large.state) == (pytest.approx(0.1), "shedding")
    assert large.rows == pytest.approx(8_000)
    assert budget.at(8_000_000).state == "min_keep"
    assert large.sic == 0.1
    assert large.why == "why"


def test_a_budget_that_knows_no_rows_stays_as_it_is() -> None:
    budget = Budget(0.3, "fixed")
    assert budget.at(10**9) is budget


def test_what_is_futile_stays_futile() -> None:
    assert Budget(1.0, "futile", fits=PLAIN).at(80_000).state == "futile"
