"""A real query behind a gate, on the live page in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import headgate as hg
from headgate.page.server import PageServer
from headgate.store.ledger.records import Ledger
from tests.eventually import eventually
from tests.harness.chromium import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser"]


def test_batches_come_to_the_page_as_they_end_and_the_end_does_too(
    spark: Any, control: Path, tmp_path: Path, browser: Browser
) -> None:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 4000).load()
    gated = rows.transform(hg.gate("live", rate=0.25, control=control))
    query = (
        gated.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="500 milliseconds")
        .start()
    )
    said: list[str] = []
    try:
        with PageServer(control, port=0, refresh_s=0.2) as server:
            page = browser.new_page()
            page.on("console", lambda m: said.append(m.text) if m.type == "error" else None)
            page.goto(server.url)
            page.get_by_text("A fixed share of 25.0 % is kept").wait_for(timeout=60_000)
            charts = page.locator(".chart .scatterlayer")
            eventually(lambda: charts.count() == 2, "two charts")
            page.get_by_text("Latest batches as a table").click()
            cells = page.locator("tbody th[scope=row]")
            first = int(cells.first.inner_text())
            eventually(lambda: int(cells.first.inner_text()) > first, "another batch")
            query.stop()
            page.locator(".verdict.level-stopped").wait_for(timeout=30_000)
            metrics = page.request.get(f"{server.url}/metrics").text()
            page.close()
    finally:
        query.stop()
    samples = [s for f in text_string_to_metric_families(metrics) for s in f.samples]
    totals = Ledger(control, "live", str(query.id)).totals().all
    for name, value in (("arrived", totals.arrived), ("kept", totals.kept), ("shed", totals.shed)):
        (found,) = (s.value for s in samples if s.name == f"headgate_rows_{name}_total")
        assert found == value
    assert totals.kept / totals.arrived == pytest.approx(0.25, abs=0.05)
    assert not said
