"""Looking again and again: what a look costs, what it survives, and who is shown."""

from __future__ import annotations

import base64
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from headgate.core.plan import KEEP_ALL, Plan
from headgate.errors import ControlFolderError
from headgate.page.metrics import exposition
from headgate.page.render import render_panels
from headgate.sites.service.ticker import Ticker
from headgate.sites.shared import SharedSite
from headgate.sketches.cost_table import CostTable
from headgate.store.folder import write_json
from headgate.store.guards import declare_guard
from headgate.store.ledger.record import Findings, Record
from headgate.store.ledger.records import Ledger
from headgate.store.plans import PlanStore
from headgate.testing.clock import ManualClock
from headgate.view import observer as observing
from headgate.view.observer import Observer
from tests.sites.service.test_ticker import Clock, FakeClient, _allocator, _exchange, _feed
from tests.view.virtual_gate import VirtualGate


def test_a_vanished_store_is_said_and_a_new_one_is_seen_again(control: Path) -> None:
    gate = VirtualGate(control)
    gate.batches(3, 1000)
    observer = Observer(control)
    assert len(observer.look().jobs) == 1
    shutil.move(control, control.with_name("away"))
    with pytest.raises(ControlFolderError, match="not there any more"):
        observer.look()
    shutil.move(control.with_name("away"), control)
    assert len(observer.look().jobs) == 1


def test_a_store_that_nobody_has_used_yet_waits(control: Path) -> None:
    view = Observer(control).look()
    assert (view.verdict.level, view.jobs) == ("waiting", ())


def test_settings_cut_off_by_a_crash_are_said(control: Path) -> None:
    gate = VirtualGate(control)
    gate.batches(3, 1000)
    (control / "gates" / "rides" / "gate.json").write_text("{")
    (job,) = Observer(control).look().jobs
    assert job.verdict.level == "trouble"
    assert "settings cannot be read" in job.verdict.sentence


def test_ended_queries_beyond_what_is_shown_are_counted(
    control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "_MOST_JOBS", 2)
    for number in range(3):
        gate = VirtualGate(control, query=f"q{number}")
        gate.batches(2, 1000)
        if number < 2:
            gate.stop()
    view = Observer(control).look()
    assert view.older == 1
    assert view.jobs[0].facts.query == "q2", "the one that runs comes first"


def test_inside_a_guard(control: Path) -> None:
    declare_guard(control, "enrich", policy="balanced", target="average 1 s", target_s=1.0)
    ledger, query = Ledger(control, "enrich", "q"), control / "gates" / "enrich" / "queries" / "q"
    PlanStore(control, "enrich", "q").beat()
    measures = {"queue_ms": 400.0, "longest_queue_ms": 900.0, "cost_ms": 2.5}
    found = Findings({"price": 30, "latency": 10}, measures)
    ledger.append(
        Record("enrich", "q", 0, 100, 60, 40, KEEP_ALL, kind="guard", origin="guard", state="shedding",
               started_at=time.time(), duration_s=1.0, found=found)
    )  # fmt: skip
    write_json(query / "queues" / "0.json", {"v": 1, "state": {"price": [0.004, 1.0]}})
    write_json(query / "queues" / "1.json", {"v": 1, "state": {"check": []}})
    table = CostTable(sets=64)
    for key, seconds in ((7, 0.5), (8, 0.002)):
        table.learn(key, seconds, 3)
    costs = base64.b64encode(table.to_bytes()).decode()
    write_json(control / "gates" / "enrich" / "costs.json", {"v": 1, "costs": costs})
    (job,) = Observer(control).look().jobs
    assert (job.facts.kind, job.measured_s, job.inside) == ("guard", 0.4, 1.0)
    assert job.insides is not None
    figures = dict(job.insides.figures)
    assert figures["price: dearer rows are dropped first"] == "4 ms"
    assert figures["rows dropped: dearer than the price"] == "30"
    assert job.insides.rows[0] == ("0000000000000007", "500 ms", "3")
    assert job.plan is None
    assert not job.facts.asked.live


def test_inside_a_join(control: Path) -> None:
    gate = VirtualGate(control, "pairs")
    gate.store.beat()
    measures = {"pairs": 90.0, "pairs_missed": 10.0, "completeness": 0.9, "completeness_error": 0.01}
    found = Findings(measures=measures, windows=[[0.0, 45, 5.0, 0.9, 0.02]])
    Ledger(control, "pairs", gate.query).append(
        Record("pairs", gate.query, 0, 1000, 400, 600, Plan(0.5), kind="join", state="shedding",
               started_at=time.time(), duration_s=0.5, found=found)
    )  # fmt: skip
    (job,) = Observer(control).look().jobs
    assert job.unit == "comparisons"
    assert job.insides is not None
    assert dict(job.insides.figures)["completeness"] == "90.0 % ± 1.0 %"
    assert job.insides.rows == (("45", "5", "90.0 % ± 2.0 %"),)


def test_sites_and_their_jain_index(control: Path) -> None:
    allocator, clock = _allocator("rome"), Clock()
    _feed(allocator, clock.now, sic=0.3)
    exchange = _exchange(allocator, FakeClient(), clock)
    Ticker(SharedSite(allocator), control / "sites" / "rome", [exchange], clock=clock).leave_status()
    status = json.loads((control / "sites" / "rome" / "status.json").read_text())
    view = Observer(control).look()
    assert view.sites is not None
    assert {s.query: s.sic for s in view.sites.shares} == {
        name: query["sic"] for name, query in status["queries"].items()
    }
    assert view.sites.jain is not None
    assert 0.0 < view.sites.jain <= 1.0
    (site,) = view.sites.sites
    assert not site.silent


def _running(control: Path, name: str) -> VirtualGate:
    gate = VirtualGate(control, name)
    gate.batches(3, 1000)
    return gate


def _silence(gate: VirtualGate, since_s: float) -> None:
    """Its driver was killed: it gives no lease back, and beats no more."""
    then = time.time() - since_s
    os.utime(gate.store.folder / "lease.json", (then, then))


def test_one_in_trouble_is_never_hidden_behind_those_that_are_well(
    control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that is gone has been alive longest ago: it was the first that was left out."""
    monkeypatch.setattr(observing, "_MOST_JOBS", 2)
    _silence(_running(control, "lost"), 60)
    for name in ("a", "b", "c"):
        _running(control, name)
    view = Observer(control).look()
    assert view.verdict.level == "trouble"
    assert view.verdict.sentence.startswith("lost: No driver has been heard of")
    assert "lost" in [job.name for job in view.jobs]
    assert (len(view.jobs), len(view.more), view.older) == (2, 2, 0)
    said = exposition(view).decode()
    assert all(f'headgate_heartbeat_age_seconds{{gate="{name}"' in said for name in ("lost", *"abc"))
    assert "2 more queries that run are not shown" in render_panels(view, read_only=True)


def test_those_that_nobody_has_steered_for_long_leave_the_cards_to_those_that_run(
    control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "_MOST_JOBS", 2)
    for name in ("x", "y", "z"):
        _silence(_running(control, name), 7200)
    for name in ("a", "b"):
        _running(control, name)
    view = Observer(control).look()
    assert [job.name for job in view.jobs] == ["a", "b"]
    assert view.verdict.level == "trouble", "and the first line says so"


@pytest.mark.parametrize("off_s", [-300.0, 300.0])
def test_a_driver_lives_by_what_it_writes_and_not_by_whose_clock_is_ahead(
    control: Path, off_s: float
) -> None:
    gate, clock = _running(control, "rides"), ManualClock(time.time() + off_s)
    observer = Observer(control, clock)
    observer.look()
    for _ in range(3):
        clock.sleep(25.0)
        gate.store.beat()
        (job,) = observer.look().jobs
        assert job.verdict.level == "healthy"
    clock.sleep(25.0)
    (job,) = observer.look().jobs
    assert job.verdict.level == "trouble"
    assert job.facts.heartbeat_age_s == 25.0


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("overrides.json", "[1]"),
        ("gate.json", '{"settings": 7}'),
        (
            "queries/{query}/plan.json",
            '{"plan": {"v": 1, "default": 1, "exceptions": []}, "after": "x"}',
        ),
        ("queries/{query}/ledger/00000000.jsonl", '{"v":1,"gate":"odd","query":"q","batch":9}\n'),
    ],
)
def test_files_of_one_gate_that_make_no_sense_leave_the_others_to_be_seen(
    control: Path, file: str, text: str
) -> None:
    odd, _ = _running(control, "odd"), _running(control, "well")
    (control / "gates" / "odd" / file.format(query=odd.query)).write_text(text)
    (control / "sites" / "rome").mkdir(parents=True)
    (control / "sites" / "rome" / "status.json").write_text('{"site": "rome", "queries": {"q": null}}')
    view = Observer(control).look()
    found = {job.name: job.verdict for job in view.jobs}
    assert found["well"].level == "healthy"
    assert found["odd"].level == "trouble"
    assert "cannot be read" in found["odd"].sentence
    assert view.verdict.level == "trouble"
    assert view.sites is None
    assert render_panels(view, read_only=False)
    assert exposition(view)


def test_queries_that_ended_long_ago_cost_a_look_at_their_lease_and_no_memory(
    control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "_MOST_JOBS", 1)
    _running(control, "runs")
    old = _running(control, "old")
    old.stop()
    clock = ManualClock(time.time())
    observer = Observer(control, clock)
    observer.look()
    resting = observer._watched["old", old.query]
    assert resting._facts is not None
    assert not resting._facts.records
    read = []
    monkeypatch.setattr(resting._follower, "look", lambda: read.append(1))
    clock.sleep(60.0)
    assert observer.look().older == 1
    assert not read
    old.store.beat()  # the query runs again
    clock.sleep(60.0)
    observer.look()
    assert read
