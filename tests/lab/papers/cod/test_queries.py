"""Exact results, estimates and their errors; rates for a wish of accuracy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate_lab.papers.cod import (
    AGGREGATES,
    WindowRows,
    aggregate,
    cod_shed,
    estimate,
    mean_rate,
    missing_share,
    relative_error,
    relative_errors,
    sum_rate,
    uniform_shed,
)
from tests.lab.papers.cod import naive

ROWS = st.lists(st.tuples(st.integers(0, 8), st.floats(-100, 100)), max_size=80)


@given(ROWS, st.sampled_from(AGGREGATES))
def test_aggregates_are_those_of_the_naive_twin(rows: list[tuple[int, float]], name: str) -> None:
    codes, values = [code for code, _ in rows], [value for _, value in rows]
    found = aggregate(name, np.array(codes, np.int64), np.array(values, np.float64), 10)
    assert found == pytest.approx(naive.aggregate(name, codes, values, 10), nan_ok=True, abs=1e-9)


@given(ROWS.filter(bool), st.floats(0.05, 1.0))
def test_counts_are_exact_and_sums_as_wrong_as_means_where_groups_are_counted(
    rows: list[tuple[int, float]], keep: float
) -> None:
    window = WindowRows.of([code for code, _ in rows], [1.0 + abs(value) for _, value in rows])
    kept = cod_shed(window.codes, keep, np.random.default_rng(0))
    errors = {}
    for name in AGGREGATES:
        exact = aggregate(name, window.codes, window.values, window.groups)
        errors[name] = relative_errors(exact, estimate(name, window, kept, sizes=window.counts))
    assert errors["count"].max() == 0.0
    assert errors["sum"] == pytest.approx(errors["mean"], abs=1e-9)


def test_uniform_scales_by_one_over_the_share_and_is_right_on_average() -> None:
    rng = np.random.default_rng(2)
    window = WindowRows.of(np.repeat([0, 1], 400), rng.gamma(2.0, 3.0, 800))
    exact = aggregate("sum", window.codes, window.values, 2)
    found = np.mean(
        [estimate("sum", window, uniform_shed(800, 0.2, rng), share=0.2) for _ in range(800)], axis=0
    )
    assert found == pytest.approx(exact, rel=0.02)


def test_an_error_is_between_0_and_1_and_a_missing_group_is_1() -> None:
    assert relative_errors([1.0, -2.0, 0.0, 0.0, np.nan], [np.nan, -1.0, 0.1, 0.0, 3.0]).tolist() == [
        1,
        0.5,
        1,
        0,
    ]
    assert relative_error([10.0, 10.0], [9.0, np.nan]) == pytest.approx(0.55)
    assert missing_share([10.0, 10.0, np.nan], [9.0, np.nan, np.nan]) == 0.5
    assert relative_error([], []) == missing_share([], []) == 0.0


def test_a_hard_floor_under_any_shedder() -> None:
    """B rows of a window with G groups: an error of 1 - B/G at least, whoever chooses them."""
    window = WindowRows.of(np.arange(100), np.ones(100))
    exact = aggregate("mean", window.codes, window.values, 100)
    assert relative_error(exact, estimate("mean", window, np.arange(7))) == pytest.approx(0.93)


@pytest.mark.parametrize("error", [0.05, 0.1])
def test_the_rate_of_a_wish_keeps_the_wish(error: float) -> None:
    """Section VI-C1, from mu and sigma^2 of a pilot of 1 %: 95 % of the windows within the error."""
    rng = np.random.default_rng(7)
    inside = 0
    for _ in range(400):
        values = rng.choice([64.0, 552.0, 1500.0], 20_000, p=[0.6, 0.28, 0.12])
        pilot = values[uniform_shed(len(values), 0.01, rng, "fixed")]
        rate = mean_rate(float(pilot.mean()), float(pilot.var(ddof=1)), len(values), error)
        kept = uniform_shed(len(values), rate, rng, "fixed")
        inside += abs(values[kept].mean() / values.mean() - 1) <= error
    assert inside / 400 == pytest.approx(0.95, abs=0.035)


def test_the_rate_of_a_sum_keeps_the_wish_too() -> None:
    rng = np.random.default_rng(8)
    values = rng.gamma(1.0, 5.0, 20_000)
    rate = sum_rate(float(values.mean()), float(values.var()), len(values), 0.05)
    sums = np.array([values[uniform_shed(len(values), rate, rng)].sum() / rate for _ in range(600)])
    assert (np.abs(sums / values.sum() - 1) <= 0.05).mean() == pytest.approx(0.95, abs=0.03)
    assert rate > mean_rate(float(values.mean()), float(values.var()), len(values), 0.05)


def test_values_without_spread_need_next_to_nothing() -> None:
    assert mean_rate(5.0, 0.0, 100, 0.05) == 0.0
    assert mean_rate(0.0, 1.0, 100, 0.05) == 1.0


def test_what_is_not_legal_is_refused() -> None:
    window = WindowRows.of([1], [1.0])
    with pytest.raises(BadArgument, match="median"):
        aggregate("mode", window.codes, window.values, 1)
    with pytest.raises(BadArgument, match="share"):
        estimate("sum", window, np.array([0]))
    with pytest.raises(BadArgument, match="one key and one value"):
        WindowRows.of([1, 2], [1.0])
    with pytest.raises(BadArgument, match="above 0"):
        mean_rate(1.0, 1.0, 10, 0.0)
