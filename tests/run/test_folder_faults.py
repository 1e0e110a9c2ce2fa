"""A gate through every fault of its control folder: it goes on, and its books say what happened.

Without Spark: the worker's pin, the driver's run, and the audit of what they leave.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headgate import LoadSample
from headgate.core.plan import KEEP_ALL, Plan
from headgate.run.gate_report import BatchReport
from headgate.settings import GateSettings
from headgate.store.gate_files.gate_call import GateCall
from headgate.store.lease import this_process
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger, Record
from headgate.store.plans import PinnedPlan
from headgate.store.settings_file import SettingsFile
from headgate.testing.faults.folders import FOLDER_FAULTS
from tests.run.test_gate_run import Job

pytest.importorskip("pyspark")
from headgate.spark.gate.pin.task_plan import TaskPlan

ROWS, SHED = 1000, Plan(0.5)


class Query:
    """A gated query whose tasks and driver share a folder, and find it as it is."""

    def __init__(self, control: Path, on_failure: str = "open") -> None:
        settings = GateSettings(rate=0.5, min_keep=0.2, on_failure=on_failure)
        self.job = Job(control, settings)
        call = GateCall(opening=SHED)  # of a fixed rate
        self.tasks = TaskPlan(str(control), "g", "", on_failure, 0.2, driver=this_process(), call=call)
        self.met: dict[int, PinnedPlan] = {}
        self.booked: dict[int, Record] = {}

    def batches(self, count: int) -> None:
        for batch in range(len(self.met), len(self.met) + count):
            with suppress(OSError):  # as the loop's heartbeats do
                self.job.store.beat()
            met = self.tasks.pin("q", batch)
            # Tasks of one batch meet one plan, whatever becomes of the folder between them.
            sample = LoadSample(batch, self.job.clock(), 1.0, ROWS, round(ROWS * met.plan.default))
            record = self.job.run.handle(
                BatchReport(query="q", sample=sample, weight=met.plan.default_weight)
            )
            assert record is not None
            self.met[batch], self.booked[batch] = met, record
            self.job.clock.sleep(1.0)


def _audit(control: Path) -> Any:
    (found,) = audit(control, "g")
    return found


@pytest.mark.parametrize("on_failure", ["open", "closed"])
@pytest.mark.parametrize("fault", FOLDER_FAULTS)
def test_a_gate_goes_on_and_its_books_say_what_happened(
    control: Path, fault: str, on_failure: str
) -> None:
    query = Query(control, on_failure)
    query.batches(4)
    with FOLDER_FAULTS[fault](control):
        query.batches(3)
    query.job.run.refresh()
    query.batches(4)

    fallback = KEEP_ALL if on_failure == "open" else Plan(0.2)
    assert [query.met[n].plan for n in (1, 2, 3, 10)] == [SHED] * 4, "before, and when it is over"
    assert all(query.met[n].plan in (SHED, fallback) for n in (4, 5, 6))
    for batch, record in query.booked.items():
        assert record.balanced
        assert record.plan == query.met[batch].plan, "booked as it was"
    found = _audit(control)
    assert found.consistent, found.to_json()
    written = Ledger(control, "g", "q").records()
    assert all(written[n] == query.booked[n] for n in written)
    lost = set(query.met) - set(written)
    if fault == "gone":
        assert lost <= set(range(7)), "what was deleted is gone, and what came since is there"
        assert lost >= set(range(4))
        assert found.deleted == [(0, max(lost))], "and the audit misses it"
    elif fault == "away":
        assert lost <= {4, 5, 6}, "what was written while it was away"
    else:
        assert not lost, "what could not be written was written later"


@pytest.mark.parametrize("fault", [f for f in FOLDER_FAULTS if f not in ("gone", "torn")])
def test_a_replay_after_it_meets_the_plans_that_are_pinned(control: Path, fault: str) -> None:
    query = Query(control)
    query.batches(4)
    with FOLDER_FAULTS[fault](control):
        query.batches(3)
    query.batches(1)
    pinned = [n for n in query.met if query.job.store.pinned(n) is not None]
    assert set(pinned) >= {0, 1, 2, 3, 7}
    for batch in pinned:
        assert query.tasks.pin("q", batch).plan == query.met[batch].plan


def test_a_replay_of_a_batch_whose_pin_was_cut_off_meets_what_its_record_says(control: Path) -> None:
    query = Query(control)
    query.batches(4)
    with FOLDER_FAULTS["torn"](control):
        pass
    for batch in range(4):
        assert query.tasks.pin("q", batch).plan == query.met[batch].plan, batch


def _join_run(control: Path) -> tuple[Any, Any]:
    from headgate.control.allowance import Spent
    from headgate.spark.join.meter import _SUMMED, JoinReport
    from headgate.spark.join.run import JoinRun, JoinSpec

    settings = GateSettings(hold=2.0)
    SettingsFile(control, "g").declare(settings)

    def report(sample: LoadSample) -> JoinReport:
        sums = {**dict.fromkeys(_SUMMED, 0.0), "found": 90.0, "fixed_s": 0.1}
        return JoinReport(query="q", sample=sample, spent=Spent(1.5, 0.5, 200, 0.01, 45, 90), sums=sums)

    return JoinRun(JoinSpec("g", control, settings, 2, 1e-9, 1e-7), "q"), report


def _guard_run(control: Path) -> tuple[Any, Any]:
    from headgate.guards.inline_policy import InlinePolicy
    from headgate.guards.targets import average
    from headgate.spark.guard.meter import GuardReport
    from headgate.spark.guard.run import GuardRun, GuardSpec

    def report(sample: LoadSample) -> GuardReport:
        dropped = sample.arrived - sample.kept
        outcomes = {"kept": sample.kept, "failed": 0, "price": dropped, "dead_letter": 0}
        return GuardReport(query="q", sample=sample, outcomes=outcomes)

    policy = InlinePolicy("balanced", average("1 second"))
    return GuardRun(GuardSpec("g", control, policy), "q"), report


@pytest.mark.parametrize("open_run", [_join_run, _guard_run], ids=["join", "guard"])
@pytest.mark.parametrize("fault", FOLDER_FAULTS)
def test_the_books_of_joins_and_guards_outlast_it_too(control: Path, fault: str, open_run: Any) -> None:
    run, report = open_run(control)

    def batches(some: range) -> None:
        for batch in some:
            record = run.handle(report(LoadSample(batch, 1000.0 + 2 * batch, 1.5, 1000, 400)))
            assert record is not None
            assert record.balanced

    batches(range(4))
    with FOLDER_FAULTS[fault](control):
        batches(range(4, 7))
    run.refresh()
    batches(range(7, 9))
    written = set(Ledger(control, "g", "q").records())
    lost = set(range(9)) - written
    assert lost <= {"gone": set(range(7)), "away": {4, 5, 6}}.get(fault, set()), lost
    found = _audit(control)
    assert found.consistent
    assert found.deleted == ([(min(lost), max(lost))] if lost else []), "of these, too"
    assert found.complete == (not lost)
