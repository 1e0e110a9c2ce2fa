"""The charts' data: what was measured, what was to be held then, and what came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.page.charts import charts_of
from headgate.settings import GateSettings
from headgate.store.ledger.record import Record
from headgate.store.settings_file import SettingsFile
from headgate.view.facts import Asked, target_in_force
from headgate.view.job import Job
from headgate.view.observer import Observer
from headgate.view.verdict import inside_share
from tests.page.conftest import ended_now
from tests.view.virtual_gate import VirtualGate


def job_of(control: Path) -> Job:
    return Observer(control).look().jobs[0]


def target_line(job: Job) -> tuple[list[str], list[float | None]]:
    """The corners of the target's line: when, and at which height."""
    found = [line for line in _delay_chart(job)["data"] if line["name"] == "target"]
    assert len(found) == 1
    assert found[0]["line"]["shape"] == "vh", "a batch's target holds from the end of the one before"
    return found[0]["x"], found[0]["y"]


def _delay_chart(job: Job) -> dict[str, Any]:
    return charts_of(job)[f"delay-{job.key}"]


def test_a_changed_target_is_not_drawn_over_the_time_before(control: Path) -> None:
    gate = VirtualGate(control, settings=GateSettings(hold=1), clock=ended_now(30))
    gate.batches(10, 1000)
    SettingsFile(control, "rides").change(hold="3 seconds")
    gate.run.refresh()  # as the loop does between batches
    gate.batches(10, 1000)
    job = job_of(control)
    times, heights = target_line(job)
    assert heights == [1.0, 1.0, 3.0, 3.0]
    ends = charts_of(job)[f"rows-{job.key}"]["data"][0]["x"]
    assert times == [ends[0], ends[9], ends[10], ends[19]]
    said = _delay_chart(job)["said"]
    assert "The target is 3.00 s. Before batch 10 it was 1.00 s." in said
    assert _delay_chart(job)["most"] >= 3.0


def test_a_batch_that_runs_while_the_target_is_changed_had_the_one_before(control: Path) -> None:
    gate = VirtualGate(control, settings=GateSettings(hold=1))
    gate.batches(3, 1000)
    SettingsFile(control, "rides").change(hold="3 seconds")
    records = gate.batches(2, 1000)  # the change is taken up when the first of them has ended
    assert [r.target.target_s for r in records] == [1.0, 3.0]
    assert {r.target.target_of for r in records} == {"duration"}


def test_batches_are_judged_by_the_target_of_their_time(control: Path) -> None:
    gate = VirtualGate(control, settings=GateSettings(hold=1, mode="monitor"), clock=ended_now(20))
    gate.batches(5, 1000, takes=lambda kept: 0.8)
    SettingsFile(control, "rides").change(hold="500 ms")
    gate.run.refresh()
    gate.batches(5, 1000, takes=lambda kept: 0.8)
    assert job_of(control).inside == 0.5


def test_where_a_share_was_asked_for_there_is_no_line(control: Path) -> None:
    gate = VirtualGate(control, settings=GateSettings(rate=0.5), clock=ended_now(10))
    gate.batches(3, 1000)
    SettingsFile(control, "rides").change(hold="2 seconds")
    gate.run.refresh()
    gate.batches(3, 1000)
    job = job_of(control)
    assert target_line(job)[1] == [None, None, 2.0, 2.0]
    assert "Before batch 3 it was none or another kind." in _delay_chart(job)["said"]
    SettingsFile(control, "rides").change(rate=0.5)
    chart = _delay_chart(job_of(control))
    assert [line["name"] for line in chart["data"]] == ["How long batches take"]


@pytest.mark.parametrize(("changed", "drawn"), [({}, 2.0), ({"mode": "off"}, 2.0), ({"hold": 2}, None)])
def test_records_of_an_earlier_version_had_the_code_s_target_unless_people_changed_it(
    control: Path, changed: dict[str, Any], drawn: float | None
) -> None:
    record = VirtualGate(control).batch(1000)
    old = {k: v for k, v in record.to_json().items() if not k.startswith("target")}
    asked = Asked.of_gate(GateSettings(hold=2), changed)
    read = Record.from_json(old)
    assert target_in_force(read, asked) == drawn
    assert inside_share([read], asked) == (None if drawn is None else 1.0)


def test_a_record_says_its_target_in_json_and_reads_it_again(control: Path) -> None:
    record = VirtualGate(control, settings=GateSettings(delay=2)).batch(1000)
    flat = record.to_json()
    assert (flat["target_s"], flat["target_of"]) == (2.0, "delay")
    assert Record.from_json(flat) == record
