"""While a query runs: modes, live settings, a folder or a loop that goes away, restarts."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.core.plan import Plan
from headgate.settings import GateSettings
from headgate.spark.gate.meter import reports_in
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import queries_of
from headgate.store.plans import PlanStore
from headgate.store.settings_file import SettingsFile
from tests.eventually import eventually
from tests.spark.conftest import records

N = 2000


def _rows(start: int, n: int = N) -> list[dict[str, object]]:
    return [{"id": i, "route": "r", "fare": 1.0} for i in range(start, start + n)]


def _batch(spark, control: Path, gate: str, number: int) -> Any:
    def look() -> Any:
        ControlLoop.of(spark).drain()
        if not queries_of(control, gate):
            return None
        done = [r for r in records(control, gate) if r.arrived]
        return done[number] if len(done) > number else None

    return eventually(look, f"batch {number} of gate {gate}")


def test_monitor_sheds_nothing_and_says_what_it_would_shed(spark, file_stream, control, start) -> None:
    stream = file_stream()
    stream.add(_rows(0))
    frame = stream.frame().transform(hg.gate("m", hold="1 ms", mode="monitor", control=control))
    start(frame)
    for batch in range(4):  # the first ones may have been starting up, which says nothing of rows
        if batch:
            stream.add(_rows(batch * N))
        last = _batch(spark, control, "m", batch)
        assert (last.shed, last.mode) == (0, "monitor")
    assert last.would_shed > 0.9 * N, "one millisecond is out of reach"


@pytest.mark.matrix
def test_settings_change_while_the_query_runs(spark, file_stream, control, start) -> None:
    stream = file_stream()
    stream.add(_rows(0))
    start(stream.frame().transform(hg.gate("s", rate=0.5, control=control)))
    assert 0.4 < _batch(spark, control, "s", 0).kept / N < 0.6
    settings = SettingsFile(control, "s")
    settings.change(rate=0.1)
    eventually(lambda: _current(control, "s") == Plan(0.1), "the plan follows the setting")
    stream.add(_rows(N))
    assert 0.05 < _batch(spark, control, "s", 1).kept / N < 0.15
    settings.change(mode="off")
    eventually(lambda: _current(control, "s") == Plan(1.0), "off keeps all")
    stream.add(_rows(2 * N))
    assert _batch(spark, control, "s", 2).shed == 0


def _current(control: Path, gate: str) -> Plan | None:
    (query,) = queries_of(control, gate)
    return PlanStore(control, gate, query).current()


@pytest.mark.parametrize(("on_failure", "low", "high"), [("open", 1.0, 1.0), ("closed", 0.05, 0.15)])
def test_when_the_control_folder_vanishes_the_query_goes_on(
    spark, file_stream, control: Path, start, on_failure: str, low: float, high: float
) -> None:
    stream = file_stream()
    stream.add(_rows(0))
    gate = hg.gate("f", rate=0.5, control=control, on_failure=on_failure, min_keep=0.1)
    query = start(stream.frame().transform(gate))
    _batch(spark, control, "f", 0)
    control.rename(control.with_name("taken away"))  # at once: the loop writes into it meanwhile
    control.write_text("a file where the folder was")
    stream.add(_rows(N))

    def kept() -> Any:
        progress = query.lastProgress
        if progress is None or progress.numInputRows != N or progress.batchId < 1:
            return None
        return reports_in(json.loads(progress.json))["f"].sample.kept

    share = eventually(kept, "the next batch") / N
    assert query.isActive
    assert low <= share <= high
    control.unlink()


def test_a_loop_that_is_gone_fails_as_chosen(tmp_path: Path) -> None:
    store = PlanStore(tmp_path, "g", "q")
    store.publish(Plan(0.5))
    from headgate.spark.gate.pin.task_plan import TaskPlan

    opened = TaskPlan(str(tmp_path), "g", "", "open", 0.2).fallback()
    closed = TaskPlan(str(tmp_path), "g", "", "closed", 0.2).fallback()
    assert store.pin(1, opened).plan == Plan(1.0)
    assert store.pin(2, closed).plan == Plan(0.2)
    store.beat()
    assert store.pin(3, closed).plan == Plan(0.5)


def test_failing_closed_keeps_the_floor_that_holds_now(tmp_path: Path) -> None:
    from headgate.spark.gate.pin.task_plan import TaskPlan

    settings = SettingsFile(tmp_path, "g")
    settings.declare(GateSettings(hold=1, min_keep=0.2, on_failure="closed"))
    lookup = TaskPlan(str(tmp_path), "g", "", "closed", 0.2)
    store = PlanStore(tmp_path, "g", "q")  # its loop never said a word
    assert store.pin(1, lookup.fallback).plan == Plan(0.2)
    settings.change(min_keep=0.05)
    assert store.pin(2, lookup.fallback).plan == Plan(0.05)
    store.beat()
    store.publish(Plan(0.5))
    assert store.pin(3, lambda: pytest.fail("a batch with a plan needs no settings")).plan == Plan(0.5)
    shutil.rmtree(tmp_path)
    assert lookup.fallback().plan == Plan(0.2), "without the folder, the min_keep of the call"


def test_the_gates_call_says_which_changes_it_can_follow(spark, file_stream, control: Path) -> None:
    frame = file_stream().frame()
    frame.transform(hg.gate("plain", hold="1 s", control=control))
    with pytest.raises(hg.BadArgument, match="without arrival="):
        SettingsFile(control, "plain").change(delay="5 s")
    frame.transform(hg.gate("own", hold="1 s", controller=hg.FixedRate(0.5), control=control))
    with pytest.raises(hg.BadArgument, match="made with controller="):
        SettingsFile(control, "own").change(hold="2 s")
    timed = frame.selectExpr("*", "timestamp_seconds(id) AS at")
    timed.transform(hg.gate("timed", hold="1 s", arrival="at", control=control))
    assert SettingsFile(control, "timed").change(delay="5 s").target_s == 5.0


@pytest.mark.matrix
def test_a_restarted_query_goes_on_where_it_stood(spark, file_stream, control, start) -> None:
    stream = file_stream()
    stream.add(_rows(0))
    gate = hg.gate("r", rate=0.5, control=control)
    query = start(stream.frame().transform(gate))
    first = _batch(spark, control, "r", 0)
    query.stop()
    stream.add(_rows(N))
    start(stream.frame().transform(hg.gate("r", rate=0.5, control=control)))
    second = _batch(spark, control, "r", 1)
    assert second.query == first.query
    assert second.batch > first.batch
    assert all(a.complete for a in audit(control))


@pytest.mark.matrix
def test_the_ledger_does_not_need_the_listener(spark, file_stream, control, start, monkeypatch) -> None:
    loop = ControlLoop.of(spark)
    monkeypatch.setattr(loop, "on_progress", loop.on_progress)
    monkeypatch.setattr(
        "headgate.spark.loop.progress._FromJava.onQueryProgress", lambda self, event: None
    )
    stream = file_stream()
    for i in range(4):
        stream.add(_rows(i * N))
    start(stream.frame().transform(hg.gate("deaf", rate=0.5, control=control)))
    last = _batch(spark, control, "deaf", 3)
    assert last.balanced
    assert [r.batch for r in records(control, "deaf")] == [0, 1, 2, 3], "no batch is missing"


def test_a_pause_does_not_swallow_the_batch_after_it(spark, file_stream, control, start) -> None:
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "50")
    try:
        stream = file_stream()
        stream.add(_rows(0))
        query = start(stream.frame().transform(hg.gate("p", rate=0.5, control=control)))
        _batch(spark, control, "p", 0)
        eventually(lambda: query.lastProgress.batchId == 1, "an idle trigger's report")
        ControlLoop.of(spark).drain()
        stream.add(_rows(N))
        assert _batch(spark, control, "p", 1).batch == 1
    finally:
        spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")


def test_a_query_that_was_over_before_anyone_looked_leaves_its_gate_free(
    spark, file_stream, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reports come by the listener, late; a gate of that name in another folder is no clash."""
    loop, frame = ControlLoop.of(spark), file_stream().frame()
    look, here = loop._catch_up, threading.get_ident()
    # The loop's own thread would find it over, too, and before this test looks.
    monkeypatch.setattr(loop, "_catch_up", lambda: look() if threading.get_ident() == here else None)
    frame.transform(hg.gate("gone", rate=0.5, control=tmp_path / "one"))
    spec = loop.specs.of("gone")
    assert spec is not None
    loop.folders._home["gone", "ended"] = spec.control
    worker = loop.folders._workers[spec.control]
    worker.open(spec, "ended")
    worker.wait()
    assert ("gone", "ended") in worker.running()
    frame.transform(hg.gate("gone", rate=0.5, control=tmp_path / "two"))
    assert ("gone", "ended") not in worker.running()
