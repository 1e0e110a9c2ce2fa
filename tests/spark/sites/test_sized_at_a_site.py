"""A gate at a site resolves its plan at the pin, from the offset log of the batch that runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.core.row_budget import RowBudget
from headgate.core.row_sic import RowSic
from headgate.core.time_grant import TimeGrant
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.store.plans import PlanStore
from tests.spark.conftest import records


def _rows(start: int, n: int) -> list[dict[str, Any]]:
    return [{"id": start + i, "route": f"r{i % 7}", "fare": float(i)} for i in range(n)]


def test_a_burst_keeps_what_the_site_granted_and_its_rows_are_worth_less(
    spark, control: Path, file_stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four batches; the last has eight times the rows, and keeps as many as the one before it."""
    fits = RowBudget(1.0, grant=TimeGrant(1000.0, 1.0, 1.0))
    row_sic = RowSic(per_s=100.0, stw_s=100.0, sources=1, usual_s=1.0, pause_s=0.0)
    # What it decides is shown in virtual time; here, that a decision reaches the batch.
    monkeypatch.setattr("headgate.sites.controller.SiteShareController._fits", lambda *_: fits)
    monkeypatch.setattr("headgate.sites.state.SiteState.row_sic", lambda *_: row_sic)
    stream = file_stream()
    with hg.Site(spark, "rome", control=control, stw="100 seconds", hold="30 seconds") as site:
        gated = stream.frame().transform(site.gate("cpu", query="load", source="rome-cpu"))
        writer = gated.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        query = writer.start()
        sizes = [1000, 2000, 2000, 16_000]
        try:
            for number, size in enumerate(sizes):
                stream.add(_rows(100_000 * number, size))
                query.processAllAvailable()
                ControlLoop.of(spark).drain()
        finally:
            query.stop()
        booked = [amount for _, amount in site._shared._allocator.state.gates["cpu"].accepted._batches]
    found = records(control, "cpu")
    assert [r.arrived for r in found] == sizes
    _, *others = found
    assert {r.size.size_known_by for r in others} == {"bytes"}
    assert [r.size.expected_rows for r in others] == pytest.approx(sizes[1:], rel=0.1)
    assert [r.plan.default * r.arrived for r in others] == pytest.approx([1000.0] * 3, rel=0.12)
    assert others[-1].kept == pytest.approx(others[-2].kept, rel=0.2), "a burst, and no more of it"
    # Eq. 1 with the batch's own rows: 9900 of the 99 seconds before it, and those that came.
    expected = [1.0 / (9900 + r.size.expected_rows) for r in others]
    assert [r.plan.sic for r in others] == pytest.approx(expected)
    kept = [r.kept * (r.plan.sic or 0.0) for r in found]
    assert sum(booked) == pytest.approx(sum(kept[-len(booked) :])), "booked is what was really kept"
    assert all(a.complete for a in audit(control))


def test_what_a_site_publishes_is_an_amount_and_survives_the_folder(
    spark, control: Path, run_all, tmp_path: Path
) -> None:
    """Offsets that count rows: the site's own decisions, as they are published and pinned."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4000)
    source = source.option("startTimestamp", 0).option("advanceMillisPerBatch", 1000).load()
    with hg.Site(spark, "oslo", control=control, stw="10 seconds", hold="1 second") as site:
        gated = source.transform(site.gate("mem", query="load", source="oslo-mem"))
        writer = gated.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        query = writer.trigger(processingTime="1 second").start()
        try:
            while query.lastProgress is None or query.lastProgress.batchId < 6:
                query.awaitTermination(0.2)
        finally:
            query.stop()
            ControlLoop.of(spark).drain()
    found = records(control, "mem")
    assert {(r.size.expected_rows, r.size.size_known_by) for r in found} == {(4000.0, "offsets")}
    assert found[0].plan.sic in (None, 0.0), "nobody knows how many come"
    assert all(r.plan.sic and 1 / r.plan.sic >= 4000 for r in found[2:])
    store = PlanStore(control, "mem", str(query.id))
    offer = json.loads((store.folder / "plan.json").read_text())["offer"]
    grant = TimeGrant.from_json(offer["budget"]["fits"]["grant"])
    assert grant.rows_per_s > 0.0
    assert grant.least_s <= grant.most_s < 60.0
    assert offer["budget"]["row_sic"]["stw_s"] == 10.0
