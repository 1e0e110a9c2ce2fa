"""A join that leaves rows out, on real streams: what it keeps, and what it says.

A batch that runs again keeps the same rows: `tests/spark/dropped/test_dropped_by_join.py`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.control.allowance import Allowance
from headgate.core.row_budget import RowBudget
from headgate.joins.row_draw.scores import CLASSES
from headgate.spark.join.run import JoinSpec
from headgate.store.ledger.audit import audit
from tests.spark.conftest import records
from tests.spark.join.test_join import Streams, _brute, _overlap, _pairs, state_store

__all__ = ["state_store"]  # the fixture: these joins need RocksDB, too


def _let_fit(monkeypatch: pytest.MonkeyPatch, rows: RowBudget) -> None:
    """Whatever batches take, so many rows fit, and all of them can be compared."""
    given = JoinSpec.offer

    def offer(self: JoinSpec, settings: Any, allowance: Allowance, *more: Any) -> Any:
        made = given(self, settings, allowance, *more)
        return made if made is None else replace(made, rows=rows, work=replace(made.work, least_s=100.0))

    monkeypatch.setattr(JoinSpec, "offer", offer)


def test_rows_are_left_out_by_expected_matches_and_estimated(
    file_stream, run_all, control: Path, monkeypatch
) -> None:
    streams = Streams(file_stream)
    for batch in range(5):
        streams.add(300, 10.0 * batch, 10.0 * (batch + 1))
    full = set(_brute(*streams.rows, _overlap(2), (20.0, 20.0)))
    _let_fit(monkeypatch, RowBudget(2.0, most=240.0))
    left, right = streams.frames()
    joined = hg.join(left, right, on=hg.overlap("items", at_least=2), within="20 seconds", time="at",
                     hold="2 seconds", control=control, basic_window="5 seconds")  # fmt: skip
    found = set(_pairs(run_all(joined)))
    kept = records(control, "join")
    measures = [r.found.measures for r in kept]
    assert [m["rows_arrived"] for m in measures] == [600.0] * 5
    assert all(m["rows_arrived"] == m["rows_kept"] + m["rows_shed"] for m in measures)
    # What bytes mean in rows is not known of the first batch, nor how rows lie in classes of the next.
    drawn = [r for r in kept if r.plan.rows is not None]
    assert len(drawn) >= 3
    assert all(r.size.size_known_by == "bytes" for r in drawn)
    by_class = [r for r in drawn if r.plan.rows is not None and len(r.plan.rows.chances) == CLASSES]
    assert by_class, "rows are told apart by what they are expected to match"
    assert all(150 <= r.found.measures["rows_kept"] <= 360 for r in by_class)
    assert found < full, "a part of the full join, and nothing else"
    rows = sum(m["rows_kept"] for m in measures) / sum(m["rows_arrived"] for m in measures)
    assert len(found) / len(full) > 1.3 * rows * rows, "more than rows at random would find"
    estimate = len(found) + sum(m["pairs_missed"] for m in measures)
    error = sum(
        m["completeness_error"] * (m["pairs"] + m["pairs_missed"]) / m["completeness"] for m in measures
    )
    assert abs(estimate - len(full)) <= 3.0 * error
    assert error <= 0.5 * len(full), "and the error is of use"
    assert all(r.balanced for r in kept)
    assert all(x.balanced and x.complete for x in audit(control))
