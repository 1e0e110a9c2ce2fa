"""Rows left out in virtual time: by matches they find more, and say how much is missing."""

from __future__ import annotations

import pytest

from headgate_lab.bench.join.rows import run

pytestmark = pytest.mark.slow


def test_rows_left_out_by_matches_find_several_times_what_random_rows_find() -> None:
    result = run(quick=True)
    (row,) = result["context"]["tables"]["rows left out"]
    assert row["rows kept"] == pytest.approx(0.3, abs=0.05)
    assert row["found at random"] == pytest.approx(0.09, abs=0.04)
    assert result["ratios"]["pairs_over_random_least"] > 4.0
    assert abs(row["estimate / all"] - 1.0) <= 3.0 * row["its error / all"]
    assert row["its error / all"] < 0.3
