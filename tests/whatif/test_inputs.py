"""Reports, ledgers and traces as recordings: what is read of them, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headgate import HoldDuration, ValueClasses
from headgate.core.plan import Plan
from headgate.errors import BadArgument
from headgate.settings import GateSettings
from headgate.store.ledger.record import Evidence, Findings, Record
from headgate.whatif.ledger_log import recorded_by_ledger
from headgate.whatif.microbatch import MicroBatches, Workload
from headgate.whatif.progress_log import ProgressLog, objects_in
from headgate.whatif.recording import RecordedBatch, Recording
from headgate.whatif.trace import recorded_by_trace
from tests.view.virtual_gate import VirtualGate
from tests.whatif.virtual_progress import BURSTS, COST, ORIGIN, lived, reports, text_of


def read(values: Any, gate: str | None = None, query: str | None = None) -> Recording:
    return ProgressLog(values, gate).recording(query, None, None, 10_000)


# -- progress


def test_the_rows_come_again_as_they_came() -> None:
    batches = lived(seconds=120.0)
    seen = read(reports(batches))
    assert seen.trigger_s == 1.0
    assert seen.rows == sum(b.arrived for b in batches[1:])
    rows = seen.arrivals()
    for before, after in zip(seen.batches[:-1], seen.batches[1:], strict=True):
        came = rows.until(after.started_at - seen.origin) - rows.until(before.started_at - seen.origin)
        assert came == pytest.approx(after.arrived, abs=1)


@pytest.mark.parametrize(
    "lay_out",
    [
        text_of,
        json.dumps,
        lambda found: "\n".join(json.dumps(one, indent=2) for one in found),
        lambda found: text_of([{"Event": "QueryProgressEvent", "progress": one} for one in found]),
        lambda found: text_of(found) + '{"id": "torn by a ki',
    ],
    ids=["a line each", "an array", "over several lines", "an event log", "torn at the end"],
)
def test_reports_may_be_laid_out_in_any_way(lay_out: Any) -> None:
    found = reports(lived(seconds=60.0))
    assert read(objects_in(lay_out(found))).batches == read(found).batches


def test_a_gates_meters_tell_what_was_kept_and_of_which_class() -> None:
    load = Workload(BURSTS, COST, trigger_s=1.0, mix={1: 0.3})
    batches = MicroBatches(load, HoldDuration(1), ValueClasses(("vip",))).run_until(60.0)
    seen = read(reports(batches, "rides"))
    assert [b.kept for b in seen.batches] == [b.kept for b in batches]
    assert seen.shed == sum(b.arrived - b.kept for b in batches) > 0
    assert [b.delay_s for b in seen.batches] == pytest.approx([b.delay for b in batches], abs=0.01)
    assert seen.labels == {1: "class 1"}
    assert seen.mix_at(30.0)[1] == pytest.approx(0.3, abs=0.05)


def test_of_several_queries_and_gates_one_is_chosen() -> None:
    found = reports(lived(seconds=60.0), "rides")
    other = [{**one, "id": "other", "name": "taxis"} for one in reports(lived(seconds=60.0))]
    with pytest.raises(BadArgument, match=r"2 queries: give --query.*other \(taxis\)"):
        read([*found, *other])
    assert len(read([*found, *other], query="taxis").batches) == len(other)
    with pytest.raises(BadArgument, match="gates there: rides"):
        read(found, gate="taxi")
    for one in found:
        metrics = one["observedMetrics"]
        metrics["headgate.more#2.1.in"] = metrics["headgate.rides#1.1.in"]
    with pytest.raises(BadArgument, match="give --gate with one of more, rides"):
        read(found)


def test_kafka_says_what_it_held_back_and_that_came_too() -> None:
    found = reports(lived(seconds=60.0, source_cap=8_000))
    batches = lived(seconds=60.0, source_cap=8_000)
    at = 0
    for report, batch in zip(found, batches, strict=True):
        at += batch.arrived
        report["sources"][0] |= {
            "endOffset": {"rides": {"0": at}},
            "latestOffset": {"rides": {"0": at + batch.backlog}},
        }
    seen = read(found)
    assert seen.source_cap == 8_000
    came = batches[-1].backlog + sum(b.arrived for b in batches[1:]) - batches[0].backlog
    assert seen.rows == came > sum(b.arrived for b in batches[1:])


def test_a_new_run_was_an_outage() -> None:
    found = reports(lived(seconds=60.0))
    late = [{**one, "runId": "run-2"} for one in reports(lived(seconds=60.0))]
    for one in late:
        one["timestamp"] = one["timestamp"].replace("T14:13", "T14:33").replace("T14:14", "T14:34")
    (outage,) = read([*found, *late]).outages
    assert outage.until_s - outage.from_s == pytest.approx(1200.0 - 60.0, abs=5.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("time,rows\n", "line 1 is no JSON"),
        ("[1, 2]", "is no report of a batch"),
        ('{"a": 1}', "no report of a batch among 1 JSON objects"),
        ('{"durationMs": {"triggerExecution": 1}, "timestamp": "noon", "batchId": 7}', "batch 7 cannot"),
    ],
)
def test_what_is_no_report_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadArgument, match=says):
        read(objects_in(text))


def test_too_few_batches_say_nothing() -> None:
    with pytest.raises(BadArgument, match="5 batches were recorded then: choose a time"):
        read(reports(lived(seconds=60.0)[:5]))


# -- ledger


def test_a_ledger_has_its_classes_by_name_and_leaves_doubt_out(control: Path) -> None:
    gate = VirtualGate(control, settings=GateSettings(hold=1))
    records = gate.batches(30, 5_000)
    plan = Plan(0.5, {1: 1.0}, {1: "tier = 'vip'"})
    named = [
        Record("g", "q", r.batch, r.arrived, r.kept, r.shed, plan, started_at=r.started_at,
               duration_s=r.duration_s, found=Findings({"1": 1_000}))
        for r in records
    ]  # fmt: skip
    doubtful = Record(
        "g", "q", 99, 9, 9, 0, plan, started_at=2e9, evidence=Evidence(doubt="the source has more")
    )
    seen = recorded_by_ledger([*named, doubtful], 1000)
    assert seen.labels == {1: "tier = 'vip'"}
    assert seen.mix_at(5.0) == {1: 0.2}
    assert len(seen.batches) == 30
    assert "1 doubtful batches are left out" in seen.remarks


def test_a_batch_that_was_counted_again_says_nothing_of_durations(control: Path) -> None:
    records = VirtualGate(control).batches(30, 2_000)
    lost = Record("g", "q", 30, 2_000, 1_000, 1_000, Plan(0.5), evidence=Evidence(repaired=True))
    seen = recorded_by_ledger([*records, lost], 1000)
    assert seen.batches == recorded_by_ledger(records, 1000).batches
    assert "1 batches that were counted again, without a duration, are left out" in seen.remarks


def test_only_the_latest_batches_of_a_long_ledger(control: Path) -> None:
    records = VirtualGate(control).batches(50, 2_000)
    seen = recorded_by_ledger(records, 30)
    assert (len(seen.batches), seen.left_out, seen.batches[0].number) == (30, 20, 20)


# -- trace


def test_a_trace_has_rows_by_time_and_group() -> None:
    lines = [{"time": str(t), "rows": "10", "group": g} for t in range(40) for g in ("vip", "rest")]
    seen = recorded_by_trace(lines, ["vip"])
    assert seen.rows == 800
    assert seen.labels == {1: "vip", 2: "rest"}
    assert seen.arrivals().until(10.0) == 200
    assert seen.mix_at(7.0) == {1: 0.5, 2: 0.5}
    assert not seen.batched


def test_lines_without_rows_are_rows_and_gaps_are_gaps() -> None:
    lines = [{"time": f"2026-05-01T08:00:{s:02d}.{n}"} for s in range(60) for n in range(5)]
    assert recorded_by_trace(lines).rows == 300
    counted = [{"time": t, "rows": 10} for t in [*range(20), *range(50, 70)]]
    rows = recorded_by_trace(counted).arrivals()
    assert rows.until(20.0) == rows.until(49.9) == 200


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"time": "noon", "rows": 1}, "line 1: time='noon'"),
        ({"rows": 1}, "line 1: time=None"),
        ({"time": 1, "rows": "many"}, "line 1: rows='many'"),
        ({"time": 1, "rows": -1}, "rows=-1"),
    ],
)
def test_what_is_no_trace_is_refused(line: dict[str, Any], says: str) -> None:
    with pytest.raises(BadArgument, match=says):
        recorded_by_trace([line])


def test_pauses_of_a_stream_are_no_trigger() -> None:
    starts = [ORIGIN + n * n * 0.1 for n in range(40)]
    seen = Recording(tuple(RecordedBatch(at, 100, 100, 0.05) for at in starts))
    assert seen.trigger_s == 0.0


def test_reports_of_an_idle_query_are_no_trigger_either() -> None:
    batches = []
    for n in range(30):
        batches += [
            RecordedBatch(ORIGIN + 31.0 * n, 100, 100, 1.0),
            RecordedBatch(ORIGIN + 31.0 * n + 1.0, 80, 80, 0.9),
            RecordedBatch(ORIGIN + 31.0 * n + 11.0, 0, 0, 0.01),
            RecordedBatch(ORIGIN + 31.0 * n + 21.0, 0, 0, 0.01),
        ]
    seen = Recording(tuple(batches))
    assert seen.trigger_s == 0.0
    assert seen.arrivals().until(21.5) - seen.arrivals().until(2.0) < 10, "nothing came meanwhile"
