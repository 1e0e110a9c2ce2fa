"""The bench of a year: everything in it happens, and the folder at the end is as small as at first."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate_lab.bench.year.store import ask, year

pytestmark = pytest.mark.slow


def test_a_year_expires_what_is_old_and_stays_small(tmp_path: Path) -> None:
    start, _, end = year(tmp_path, batches=240, segment=10)
    assert (start["batches"], end["batches"]) == (24, 240)
    assert end["expired"] >= 210
    assert end["queries"] <= 3, "the living one, the last that ended, perhaps the one before"
    assert end["files"] <= start["files"] + 240, "pins up to 200, and no more of anything else"


def test_questions_are_asked_of_both_ledgers(tmp_path: Path) -> None:
    rows = ask(tmp_path, 6_000, 11_000, repeats=1)
    assert [row["what"] for row in rows][:2] == ["status", "show --last 20"]
    assert all(row["ratio"] > 0 for row in rows)
