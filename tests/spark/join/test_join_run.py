"""The driver's side of a join, with reports that no Spark made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headgate.control.allowance import Spent
from headgate.core.load import LoadSample
from headgate.settings import GateSettings
from headgate.spark.join.meter import _SUMMED, JoinReport
from headgate.spark.join.run import JoinRun, JoinSpec
from headgate.store.plans import PlanStore
from headgate.store.settings_file import SettingsFile


def _run(control: Path, **settings) -> JoinRun:
    given = GateSettings(**{"hold": 2.0, **settings})
    SettingsFile(control, "join").declare(given)
    return JoinRun(JoinSpec("join", control, given, 2, 1e-9, 1e-7), "query")


def _report(batch: int, wanted: int, made: int, **sums: float) -> JoinReport:
    sample = LoadSample(batch, 1000.0 + 2 * batch, 1.5, wanted, made)
    found = {**dict.fromkeys(_SUMMED, 0.0), "found": 90.0, "fixed_s": 0.1, **sums}
    return JoinReport(
        query="query", sample=sample, spent=Spent(1.5, 0.5, made / 2, 0.01, 45, 90), sums=found
    )


def test_a_record_adds_up_and_says_how_complete_the_result_is(tmp_path: Path) -> None:
    record = _run(tmp_path).handle(_report(0, 1000, 400, missed=10.0, variance=25.0))
    assert record is not None
    assert (record.kind, record.arrived, record.kept, record.shed) == ("join", 1000, 400, 600)
    assert record.balanced
    assert record.found.measures["completeness"] == pytest.approx(0.9)
    assert record.found.measures["completeness_error"] == pytest.approx(0.045)
    assert record.state == "shedding"
    assert (record.target.target_s, record.target.target_of) == (2.0, "duration")


@pytest.mark.parametrize("way", ["open", "closed"])
def test_tasks_without_their_plan_are_in_the_record(tmp_path: Path, way: str) -> None:
    record = _run(tmp_path, on_failure=way).handle(_report(0, 1000, 1000, tasks_without_plan=1.0))
    assert record is not None
    assert record.origin == f"fail-{way}"


def test_a_batch_counts_once_and_its_plan_follows_the_settings(tmp_path: Path) -> None:
    run = _run(tmp_path)
    assert run.handle(_report(3, 1000, 1000)) is not None
    assert run.handle(_report(3, 1000, 1000)) is None
    before = PlanStore(tmp_path, "join", "query").current()
    SettingsFile(tmp_path, "join").change(hold=4.0)
    run.refresh()
    after = PlanStore(tmp_path, "join", "query").current()
    assert before is not None
    assert after is not None
    assert before.work is not None
    assert after.work is not None
    assert after.work.units > 1.5 * before.work.units


def test_monitoring_compares_everything_and_says_what_it_would_skip(tmp_path: Path) -> None:
    run = _run(tmp_path, mode="monitor")
    assert run.plan().keeps_everything
    slow = replace(_report(0, 10**10, 10**10), spent=Spent(20.0, 18.0, 5e9, 0.0, 45, 90))
    record = run.handle(slow)
    assert record is not None
    assert record.mode == "monitor"
    assert 0 < record.would_shed < 10**10


def test_what_was_learnt_survives_a_restart(tmp_path: Path) -> None:
    run = _run(tmp_path)
    for batch in range(4):
        run.handle(_report(batch, 10**9, 10**9))
    assert _run(tmp_path).plan() == run.plan()
