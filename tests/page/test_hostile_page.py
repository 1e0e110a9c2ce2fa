"""One gate whose files somebody changed: the page, the charts and the metrics of all others stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.core.plan import Plan
from headgate.page.charts import charts_of
from headgate.page.metrics import exposition
from headgate.page.render import render_page
from headgate.settings import GateSettings
from headgate.store.ledger.record import Findings, Record
from headgate.store.ledger.records import Ledger
from headgate.store.plans import PlanStore
from headgate.store.settings_file import SettingsFile
from headgate.view.gate_status import gates_status
from headgate.view.observer import Observer
from headgate.view.status import status
from tests.hostile import mangled

_PLAN = Plan(0.5, {7: 1.0}, {7: "Paris"})
_FILES = (
    "gate.json", "queries/q/plan.json", "queries/q/owner.json", "queries/q/lease.json",
    "queries/q/ledger/00000000.jsonl", "queries/q/repaid/done/s.json", "overrides.json",
)  # fmt: skip


def _gate(control: Path, name: str) -> Path:
    SettingsFile(control, name).declare(GateSettings(hold="2 seconds"))
    store = PlanStore(control, name, "q")
    store.publish(_PLAN, after=2)
    store.beat()
    for batch in range(3):
        Ledger(control, name, "q").append(
            Record(
                name,
                "q",
                batch,
                10,
                5,
                5,
                _PLAN,
                started_at=1000.0 + batch,
                duration_s=1.0,
                delay_s=1.0,
                backlog=5,
                state="shedding",
                why="why",
                parts_ms={"addBatch": 900},
                found=Findings({"7": 5}, {"queue_ms": 1.5}),
            )
        )
    folder = control / "gates" / name
    done = {"slice": "s", "to": "t", "rows": {"1": 2}, "seconds": 1.0, "at": 2.0}
    (folder / "queries/q/repaid/done").mkdir(parents=True)
    (folder / "queries/q/repaid/done/s.json").write_text(json.dumps(done))
    (folder / "overrides.json").write_text(json.dumps({"hold": 3.0}))
    return folder


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(data=st.data())
def test_what_one_gate_says_breaks_no_page(tmp_path_factory: Any, data: st.DataObject) -> None:
    control = tmp_path_factory.mktemp("control")
    _gate(control, "good")
    folder = _gate(control, "odd")
    path = folder / data.draw(st.sampled_from([f for f in _FILES if (folder / f).exists()]))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    at = data.draw(st.integers(0, len(lines) - 1))
    lines[at] = data.draw(mangled(lines[at]))
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    _all_is_shown(control)


def _all_is_shown(control: Path) -> None:
    view = Observer(control).look()
    assert {job.name for job in view.jobs} >= {"good"}
    html = render_page(view, read_only=False, refresh_s=2.0)
    assert "good" in html
    html.encode()
    for job in view.jobs:
        json.dumps(charts_of(job), allow_nan=False)
    assert b'headgate_rows_shed_total{gate="good",query="q"} 15.0' in exposition(view)
    assert "good" in status(control)._repr_html_()
    gates = {gate["gate"] for gate in gates_status(control, 2000.0)}
    assert gates == {"good", "odd"}


@pytest.mark.parametrize("at", [1e300, float("inf"), float("nan"), -1e18, 1e15])
def test_a_time_that_no_clock_shows_is_no_end_of_the_page(tmp_path: Path, at: float) -> None:
    _gate(tmp_path, "good")
    folder = _gate(tmp_path, "odd")
    path = folder / "queries/q/ledger/00000000.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[-1]["started_at"] = at
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    _all_is_shown(tmp_path)
