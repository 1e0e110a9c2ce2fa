"""Differences and totals in the laboratory: what is put together, and how often it holds the truth."""

from __future__ import annotations

import numpy as np
import pytest

from headgate_lab.bench.coverage.combinations import Combinations
from headgate_lab.bench.coverage.coverage import batches, truth_of
from headgate_lab.bench.coverage.draws import DRAWS, Kept
from headgate_lab.bench.coverage.intervals import METHODS, intervals
from headgate_lab.bench.coverage.populations import Population


def _rising(groups: int = 12, windows: int = 4, size: int = 400) -> Population:
    """Normal values that rise from window to window."""
    rng = np.random.default_rng(5)
    cells = np.repeat(np.arange(groups * windows), size)
    window = np.arange(groups * windows) // groups
    values = 30.0 + 4.0 * window[cells] + rng.normal(0.0, 5.0, len(cells))
    return Population(cells, values, window, np.arange(groups * windows) % groups)


def test_differences_and_totals_hold_the_truth() -> None:
    people = _rising()
    both = Combinations(people)
    for draw in DRAWS:
        for kept in batches(people, draw, 40, 2):
            truth, width = truth_of(kept, "mean", people.mean(), people.variance())
            ends = intervals(kept, "mean", coins=draw == "coins", share=False)
            both.add(kept, draw, ends, truth, width)
    rows = both.rows_of_differences({"query": "rising"})
    assert {row["draw"] for row in rows} == set(DRAWS)
    assert {row["rows"] for row in rows} >= {"2-4", "10-29", "30+"}
    for row in rows:
        if row["rows"] in ("10-29", "30+"):
            assert 93.0 <= row["pooled"] <= 98.0, row
            assert row["pooled width"] == pytest.approx(1.0, abs=0.12)
    (total,) = both.row_of_totals({"query": "rising"})
    assert 93.0 <= total["pooled"] <= 98.5, total


def test_what_was_kept_whole_adds_no_error() -> None:
    """Two groups of a window: one kept whole, of the other two rows of four."""
    people = Population(
        np.array([0, 0, 1, 1, 1, 1]), np.array([5.0, 7.0, 1.0, 2.0, 3.0, 4.0]), np.zeros(2, np.int64)
    )
    kept = Kept(
        np.array([0, 1]), np.zeros(2, np.int64), np.array([2.0, 2.0]), np.array([2.0, 4.0]),
        np.array([6.0, 2.5]), np.array([1.0, 0.25]), np.zeros(2), np.array([1.0, 2.0]),
        np.zeros(2, np.int64),
    )  # fmt: skip
    both = Combinations(people)
    truth, width = truth_of(kept, "mean", people.mean(), people.variance())
    ends = intervals(kept, "mean", coins=False, share=False)
    assert set(METHODS) <= set(ends)
    both.add(kept, "fixed", ends, truth, width)
    assert both.differences == {}
    plain = both.totals["plain"]
    assert (plain.intervals, plain.held) == (1, 1)
    # that of the second group alone: Student's t of one degree is 12.7, and the variance 4 times 0.5
    true = 3.92 * np.sqrt(people.variance()[1] * 16.0 / 2.0 * 0.5)
    assert plain.width == pytest.approx(2.0 * 12.706 * np.sqrt(2.0) / true, rel=0.02)
    assert both.row_of_totals({}) == []
