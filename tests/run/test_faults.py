"""What goes wrong in a controller, a policy or the ledger neither freezes shedding nor loses records."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from headgate import Budget, GroupStats, LoadSample, Policy
from headgate.control import Controller, ControllerConfig
from headgate.core.plan import KEEP_ALL, Plan
from headgate.errors import OwnedElsewhere
from headgate.policies import Grouping
from headgate.run.faults import TOO_MANY_FAULTS
from headgate.run.gate_report import BatchReport
from headgate.settings import GateSettings
from headgate.store.lease import Holder, this_process
from headgate.store.ledger import bookkeeper
from headgate.store.ledger.records import Ledger, Record
from headgate.store.plans import BEHIND, PinnedPlan, PlanStore
from headgate.store.settings_file import SettingsFile
from headgate.testing.clock import ManualClock
from tests.run.test_gate_run import OPEN, Job

ROME = Holder("rome-driver", host="rome", boot="b", pid=7, pid_started="1")


@dataclass(frozen=True)
class Failing(ControllerConfig):
    """Keeps a hundredth, and fails while `broken` says so."""

    broken: dict[str, bool]

    def build(self, snapshot: Any = None) -> Controller:
        return _Failing(self.broken)


class _Failing(Controller):
    def __init__(self, broken: dict[str, bool]) -> None:
        self._broken = broken

    def opening(self, now: float) -> Budget:
        return Budget(0.01, "shedding")

    def decide(self, sample: LoadSample) -> Budget:
        if self._broken["now"]:
            raise ZeroDivisionError("no rows a second")
        return Budget(0.01, "shedding")

    def snapshot(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    ("on_failure", "fallback", "origin"),
    [("open", KEEP_ALL, "fail-open"), ("closed", Plan(0.2), "fail-closed")],
)
def test_a_controller_that_fails_again_and_again_fails_as_chosen_and_every_batch_is_recorded(
    control: Path, on_failure: str, fallback: Plan, origin: str
) -> None:
    broken = {"now": False}
    settings = GateSettings(hold=1, min_keep=0.2, on_failure=on_failure)
    job = Job(control, settings, controller=Failing(broken))
    job.steps(2)
    assert job.current == Plan(0.01)
    broken["now"] = True
    records = job.steps(TOO_MANY_FAULTS - 1)
    assert job.current == Plan(0.01), "once may be chance: the last plan holds"
    assert {r.state for r in records} == {"fault"}
    assert "ZeroDivisionError: no rows a second" in records[0].why
    job.step()
    assert job.current == fallback
    failed = job.steps(3)
    assert [(r.plan, r.origin) for r in failed] == [(fallback, origin)] * 3
    broken["now"] = False
    job.step()
    assert job.current == Plan(0.01), "and it works again"
    assert job.step().state == "shedding"  # type: ignore[union-attr]
    assert list(Ledger(control, "g", "q").records()) == list(range(job.batch))


@pytest.mark.parametrize("mode", ["monitor", "off"])
def test_in_the_modes_that_shed_nothing_nothing_is_shed_for_a_fault(control: Path, mode: str) -> None:
    settings = GateSettings(hold=1, mode=mode, on_failure="closed")
    job = Job(control, settings, controller=Failing({"now": True}))
    records = job.steps(TOO_MANY_FAULTS + 2)
    assert job.current == KEEP_ALL
    assert records[-1].origin == "fail-open"
    assert sum(r.shed for r in records) == 0
    # A batch whose rows have different weights, and no pin that could be read.
    report = BatchReport(query="q", sample=LoadSample(job.batch, job.clock(), 1.0, 100, 100))
    record = job.run.handle(report)
    assert record is not None
    assert (record.plan, record.origin) == (KEEP_ALL, "fail-open")


class Moody(Policy):
    """Fails to plan once a batch was there."""

    @property
    def grouping(self) -> Grouping:
        return Grouping()

    def plan(self, budget: Budget, groups: GroupStats) -> Plan:
        if groups.total:
            raise KeyError("route")
        return Plan(budget.keep)


def test_a_policy_that_fails_is_no_reason_to_shed_for_ever(control: Path) -> None:
    job = Job(control, GateSettings(rate=0.01), policy=Moody())
    records = job.steps(5)
    assert [r.batch for r in records] == list(range(5))
    assert job.current == KEEP_ALL
    assert records[-1].origin == "fail-open"


def test_records_that_could_not_be_written_are_written_as_soon_as_they_can_be(
    control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(control, GateSettings(hold=1))
    job.steps(2)
    real = Ledger.append

    def full(self: Ledger, record: Record) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Ledger, "append", full)
    job.steps(3)
    assert list(Ledger(control, "g", "q").records()) == [0, 1]
    monkeypatch.setattr(Ledger, "append", real)
    job.run.refresh()
    assert list(Ledger(control, "g", "q").records()) == [0, 1, 2, 3, 4]


def test_what_waits_has_a_bound(control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookkeeper, "MOST_WAITING", 5)
    written: list[int] = []

    class Full(Ledger):
        def append(self, record: Record) -> None:
            if not written:
                raise OSError("full")
            written.append(record.batch)

    books = bookkeeper.Bookkeeper(Full(control, "g", "q"), "gate 'g'")
    for batch in range(9):
        with pytest.raises(OSError, match="full"):
            books.add(Record("g", "q", batch, 0, 0, 0, KEEP_ALL))
    written.append(-1)
    books.retry()
    assert written == [-1, 4, 5, 6, 7, 8]


def test_another_applications_declaration_leaves_this_ones_target(control: Path) -> None:
    job = Job(control, GateSettings(hold=2))
    SettingsFile(control, "g").declare(GateSettings(hold=60))
    job.run.refresh()
    assert job.run.settings.hold == 2
    SettingsFile(control, "g").change(hold=3)
    job.run.refresh()
    assert job.run.settings.hold == 3, "what people change holds for both"


class Shy(Policy):
    """Plans while nothing is to be shed, and fails in the middle of an overload."""

    @property
    def grouping(self) -> Grouping:
        return Grouping()

    def plan(self, budget: Budget, groups: GroupStats) -> Plan:
        if budget.keep < 1.0:
            raise ValueError("no idea whom to shed")
        return Plan(budget.keep)


def test_a_policy_that_fails_only_while_shedding_fails_as_chosen(control: Path) -> None:
    job = Job(control, GateSettings(hold=1, min_keep=0.2, on_failure="closed"), policy=Shy())
    records = job.steps(8)
    assert job.current == Plan(0.2)
    assert records[-1].origin == "fail-closed"
    assert "no idea whom to shed" in records[-1].why


class _Restless(_Failing):
    def revised(self) -> Budget | None:
        raise RuntimeError("no site")


@dataclass(frozen=True)
class Restless(Failing):
    """Has no second thoughts, and says so badly."""

    def build(self, snapshot: Any = None) -> Controller:
        return _Restless(self.broken)


def test_second_thoughts_that_fail_cost_no_record(control: Path) -> None:
    job = Job(control, GateSettings(hold=1), controller=Restless({"now": False}))
    job.steps(5)
    assert list(Ledger(control, "g", "q").records()) == list(range(5))


@dataclass(frozen=True)
class Forgetful(ControllerConfig):
    """Keeps a tenth; what it learned is no JSON, or cannot be said at all, and is never understood."""

    learned: Any

    def build(self, snapshot: Any = None) -> Controller:
        if snapshot:
            raise AttributeError("what is this?")
        return _Forgetful(self.learned)


class _Forgetful(Controller):
    def __init__(self, learned: Any) -> None:
        self._learned = learned

    def decide(self, sample: LoadSample) -> Budget:
        return Budget(0.1, "shedding")

    def snapshot(self) -> dict[str, Any]:
        if isinstance(self._learned, Exception):
            raise self._learned
        return {"learned": self._learned}


@pytest.mark.parametrize("learned", [{1, 2}, IndexError("no batch yet")], ids=["a set", "raises"])
def test_what_was_learned_and_cannot_be_written_costs_nothing_else(
    control: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, learned: object
) -> None:
    job = Job(control, GateSettings(hold=1), controller=Forgetful(learned))
    kept_small: list[int] = []
    monkeypatch.setattr(job.run.upkeep, "after", lambda batch, _: kept_small.append(batch))
    records = job.steps(5)
    assert job.current == Plan(0.1)
    assert {r.state for r in records} == {"shedding"}
    assert kept_small == list(Ledger(control, "g", "q").records()) == list(range(5))
    said = [r for r in caplog.records if "what was learned cannot be written" in r.getMessage()]
    assert len(said) == 1, "once, and not for every batch"


def test_a_snapshot_that_a_controller_does_not_understand_is_a_fresh_start(control: Path) -> None:
    job = Job(control, GateSettings(hold=1), controller=Forgetful(7), start=0.5)
    job.steps(3)
    job.restart()
    assert job.current == Plan(0.5)


def test_a_record_that_a_full_disk_cuts_off_is_written_again(control: Path) -> None:
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from headgate.core.plan import KEEP_ALL\n"
        "from headgate.store.ledger.records import Ledger, Record\n"
        "from headgate.store.ledger.bookkeeper import Bookkeeper\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "books = Bookkeeper(Ledger(Path(sys.argv[1]), 'g', 'q'), 'g')\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (30, hard))\n"
        "try: books.add(Record('g', 'q', 7, 2, 1, 1, KEEP_ALL))\n"
        "except OSError: print('told')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard)); books.retry()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(control)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "told\n"
    assert Ledger(control, "g", "q").records()[7].arrived == 2


class TestEveryPinHasAStory:
    def test_a_plan_that_cannot_be_read_fails_open_and_a_replay_meets_that_again(
        self, control: Path
    ) -> None:
        pytest.importorskip("pyspark")
        from headgate.spark.gate.pin.task_plan import TaskPlan

        store = PlanStore(control, "g", "q")
        store.publish(Plan(0.1))
        (store.folder / "plan.json").write_text('{"plan": {"v": 99}, "after": 3, "urgent_s": null}')
        task = TaskPlan(str(control), "g", "", "open", 0.01, driver=this_process())
        assert task.pin("q", 4).origin == "fail-open"
        store.publish(Plan(0.1))
        assert task.pin("q", 4) == PinnedPlan(KEEP_ALL, "fail-open")
        assert task.pin("q", 5).plan == Plan(0.1)

    def test_after_a_crash_a_batch_without_a_pin_says_what_is_not_known(self, control: Path) -> None:
        clock = ManualClock()
        store = PlanStore(control, "g", "q", clock, clock.sleep)
        store.pin(0, OPEN, me=ROME)
        store.lease.beat(ROME)
        found = store.pin(1, OPEN, me=this_process())
        assert "ended without a word" in found.note
        assert store.pinned(1) == found
        assert store.pin(2, OPEN, me=this_process()).note == ""

    @pytest.mark.parametrize("failed", [True, False], ids=["failed", "folder away at its end"])
    def test_a_batch_that_failed_open_without_a_folder_and_runs_again_says_what_is_not_known(
        self, control: Path, failed: bool
    ) -> None:
        """The folder is away when the batch first runs, and back when the query begins again."""
        first, second = (replace(this_process(), run=run) for run in ("r1", "r2"))
        store = PlanStore(control, "g", "q")
        store.pin(0, OPEN, me=first)
        store.publish(Plan(0.1))
        if failed:
            store.lease.release(this_process(), "r1", failed=True)
        found = store.pin(1, OPEN, me=second)
        assert "could not be written then" in found.note
        assert store.pin(2, OPEN, me=second).note == ""

    def test_after_a_proper_end_nothing_is_in_doubt(self, control: Path) -> None:
        store = PlanStore(control, "g", "q")
        store.pin(0, OPEN, me=ROME)
        store.lease.release(ROME)
        assert store.pin(1, OPEN, me=this_process()).note == ""
        one, two = (replace(this_process(), run=run) for run in ("r1", "r2"))
        store.pin(2, OPEN, me=one)
        store.lease.release(one, "r1")
        assert store.pin(3, OPEN, me=two).note == ""


class TestWhoSteers:
    def test_a_second_driver_is_refused_even_a_batch_that_is_pinned(self, control: Path) -> None:
        clock = ManualClock()
        store = PlanStore(control, "g", "q", clock, lambda s: (clock.sleep(s), store.lease.beat(ROME)))
        store.pin(0, OPEN, me=ROME)
        for batch in (0, 1):
            with pytest.raises(
                OwnedElsewhere, match=r"gate 'g' of query q is steered by process 7 on rome"
            ):
                store.pin(batch, OPEN, me=this_process())

    def test_a_clock_that_is_off_makes_no_difference(self, control: Path) -> None:
        driver = PlanStore(control, "g", "q", ManualClock(1_000_000.0))
        driver.publish(Plan(0.1))
        for skew in (-300.0, 21.0, 300.0):
            executor = PlanStore(control, "g", "q", ManualClock(1_000_000.0 + skew))
            driver.beat()
            assert executor.pin(int(skew) + 1000, OPEN, me=this_process()).plan == Plan(0.1)

    def test_a_plan_that_is_many_batches_old_is_nobodys(self, control: Path) -> None:
        store = PlanStore(control, "g", "q")
        store.beat()
        store.publish(Plan(0.1), after=7)
        assert store.pin(7 + BEHIND, OPEN, me=this_process()).plan == Plan(0.1)
        assert store.pin(8 + BEHIND, OPEN, me=this_process()).origin == "fail-open"
