"""Attempts at a batch: counted by runs, agreed on by racing tasks, and none once the batch has ended."""

from __future__ import annotations

import json
import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headgate.core.load import LoadSample
from headgate.core.plan import KEEP_ALL, Plan
from headgate.core.rescue import Rescue
from headgate.errors import SnapshotError
from headgate.policies import Uniform
from headgate.run.gate_report import BatchReport
from headgate.run.gate_run import GateRun
from headgate.run.gate_spec import GateSpec
from headgate.settings import GateSettings
from headgate.store.attempts import Attempts, Bounds
from headgate.store.gate_files.gate_call import GateCall
from headgate.store.lease import Holder
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger, Record
from headgate.store.places.place import Place
from headgate.store.plans import PinnedPlan, PlanStore

CALL = GateCall(number=1)
OPEN = PinnedPlan(KEEP_ALL, "fail-open")
BOUNDS = Bounds(Rescue("files"), least=0.01)


def _me(run: str) -> Holder:
    return Holder("driver", run=run)


def _begin(control: Place, run: str, batch: int = 0, bounds: Bounds | None = BOUNDS) -> PinnedPlan:
    """A task of this run asks for the batch's plan."""
    store = PlanStore(control, "g", "q")
    found = store.pin_to(batch, PinnedPlan(Plan(0.8), "plan", run=run, call=1))
    return Attempts(store).of_run(batch, found, _me(run), CALL, lambda: bounds)


def test_two_whole_attempts_and_then_a_quarter_each_time_down_to_the_least(control: Path) -> None:
    pins = [_begin(control, f"run {n}") for n in range(1, 9)]
    assert [p.plan.default for p in pins] == [0.8, 0.8, 0.2, 0.05, 0.0125, 0.01, 0.01, 0.01]
    assert [p.attempt for p in pins] == list(range(1, 9))
    assert [p.origin for p in pins[:3]] == ["plan", "plan", "rescued"]
    assert pins[2].earlier == ("run 1", "run 2")
    assert pins[2].said.startswith("rescued at attempt 3: ")
    assert "0.2 of the rows instead of 0.8" in pins[2].said
    assert PlanStore(control, "g", "q").pinned(0) == pins[-1], "the pin is the latest attempt's"


def test_a_batch_may_be_begun_a_thousand_times(control: Path) -> None:
    for n in range(60):
        pin = _begin(control, f"run {n}")
    assert (pin.attempt, pin.cuts, pin.plan.default, len(pin.earlier)) == (60, 4, 0.01, 8)
    assert len(list((control / "gates/g/queries/q/attempts").iterdir())) == 2


def test_all_tasks_of_a_run_meet_one_plan_and_so_do_late_ones_of_runs_before(control: Path) -> None:
    for run in ("a", "a", "b", "b"):
        assert _begin(control, run).plan.default == 0.8
    third = _begin(control, "c")
    assert third.plan.default == 0.2
    assert _begin(control, "c") == third
    assert _begin(control, "a") == third, "a task of a run that is over makes no attempt"
    assert _begin(control, "d").attempt == 4


@pytest.mark.parametrize("whole", [1, 3])
def test_people_say_how_many_run_whole(control: Path, whole: int) -> None:
    bounds = Bounds(Rescue("files", keep=0.5, whole=whole), 0.01)
    found = [_begin(control, f"run {n}", bounds=bounds).plan.default for n in range(whole + 2)]
    assert found == [0.8] * whole + [0.4, 0.2]


def test_each_keeps_no_more_than_the_one_before_whatever_people_change_between(control: Path) -> None:
    hard, soft = (Bounds(Rescue("files", keep=keep, whole=1), 0.01) for keep in (0.1, 0.9))
    found = [
        _begin(control, "1", bounds=hard),
        _begin(control, "2", bounds=hard),
        _begin(control, "3", bounds=soft),
    ]
    assert found[1].plan.default == found[2].plan.default == pytest.approx(0.08)


def test_a_batch_whose_gate_may_shed_nothing_now_is_left_as_it_is(control: Path) -> None:
    for run in "abcd":
        assert _begin(control, run, bounds=None).plan.default == 0.8
    assert _begin(control, "d").plan.default == 0.8, "all tasks of a run agree on that"
    later = _begin(control, "e")
    assert (later.plan.default, later.attempt, later.cuts) == (0.2, 5, 1), "and a quarter when it may"


def test_a_pin_of_an_unknown_run_is_met_again(control: Path) -> None:
    PlanStore(control, "g", "q").pin_to(0, PinnedPlan(Plan(0.8), "plan"))
    assert [_begin(control, run).plan.default for run in "abcd"] == [0.8] * 4


def _ended_by_record(store: PlanStore, control: Path) -> None:
    Ledger(control, "g", "q").append(Record("g", "q", 0, 10, 8, 2, Plan(0.8)))


def _ended_by_plan(store: PlanStore, control: Path) -> None:
    store.publish(Plan(0.5), after=0)


def _ended_by_pin(store: PlanStore, control: Path) -> None:
    store.pin_to(1, OPEN)


@pytest.mark.parametrize("ended", [_ended_by_record, _ended_by_plan, _ended_by_pin])
def test_a_batch_that_has_ended_is_replayed_and_not_rescued(control: Path, ended: Any) -> None:
    """Somebody rolled the checkpoint back: promise 2, the same batch keeps the same rows."""
    first = _begin(control, "a")
    ended(PlanStore(control, "g", "q"), control)
    assert [_begin(control, run) for run in "bcde"] == [first] * 4


def test_a_rescued_batch_that_has_ended_is_replayed_as_it_was_rescued(control: Path) -> None:
    rescued = [_begin(control, run) for run in "abc"][-1]
    assert rescued.origin == "rescued"
    PlanStore(control, "g", "q").publish(Plan(1.0), after=0)
    assert [_begin(control, run) for run in "def"] == [rescued] * 3


def test_a_kill_between_the_claim_and_the_pin_loses_no_attempt(control: Path) -> None:
    store = PlanStore(control, "g", "q")
    for run in "abc":
        _begin(control, run)
    third = store.pinned(0)
    assert third is not None
    _begin(control, "d")
    store.repin(0, third)  # as if d had been killed before it could write the pin
    assert _begin(control, "d").attempt == 4, "another task of d finds what was claimed"
    store.repin(0, third)
    assert _begin(control, "e").attempt == 5
    assert (store.pinned(0) or OPEN).attempt == 5


def test_an_attempt_that_was_cut_off_is_claimed_anew(control: Path) -> None:
    _begin(control, "a")
    folder = control / "gates/g/queries/q/attempts"
    folder.mkdir()
    (folder / f"{0:012d}-0002.json").write_text('{"plan":')
    assert _begin(control, "b").attempt == 2
    assert _begin(control, "c").plan.default == 0.2


def test_racing_tasks_of_one_run_agree(control: Path) -> None:
    _begin(control, "a")
    with ThreadPoolExecutor(16) as pool:
        for run in ("b", "c", "d"):
            found = list(pool.map(lambda _, r=run: _begin(control, r), range(32)))  # type: ignore[misc]
            assert len({json.dumps(pin.to_json()) for pin in found}) == 1
    assert found[0].attempt == 4


def _race(control: Path, barrier: Any, answers: Any, run: str) -> None:
    barrier.wait()
    answers.put((run, _begin(control, run).to_json()))


def test_racing_processes_agree_and_each_run_has_an_attempt_of_its_own(control: Path) -> None:
    """Two drivers that both believe that the batch is theirs: no attempt is counted twice, or lost."""
    _begin(control, "a")
    fork = multiprocessing.get_context("fork")
    barrier, answers = fork.Barrier(6), fork.Queue()
    runs = ["b", "c"] * 3
    racers = [fork.Process(target=_race, args=(control, barrier, answers, run)) for run in runs]
    for racer in racers:
        racer.start()
    told = [answers.get(timeout=60) for _ in racers]
    for racer in racers:
        racer.join()
    by_run = {run: {json.dumps(pin) for named, pin in told if named == run} for run in "bc"}
    assert {len(pins) for pins in by_run.values()} == {1}, "tasks of one run meet one plan"
    attempts = sorted(json.loads(*pins)["attempt"] for pins in by_run.values())
    assert attempts == [2, 3]
    assert (PlanStore(control, "g", "q").pinned(0) or OPEN).attempt == 3, "whoever wrote last"


def _run(control: Path) -> GateRun:
    return GateRun(GateSpec("g", control, GateSettings(rate=0.8), Uniform()), "q")


def test_the_ledger_says_which_attempt_ended_it_and_the_counts_of_attempts_go(control: Path) -> None:
    pin = [_begin(control, run) for run in "abc"][-1]
    sample = LoadSample(0, 100.0, 1.0, 1000, 200)
    record = _run(control).handle(BatchReport(query="q", sample=sample, weight=pin.plan.default_weight))
    assert record is not None
    assert (record.attempt, record.origin, record.plan) == (3, "rescued", Plan(0.2))
    assert record.why.startswith("rescued at attempt 3")
    assert record.balanced
    assert Ledger(control, "g", "q").record(0) == record
    assert list((control / "gates/g/queries/q/attempts").glob("*.json")) == []
    (books,) = audit(control)
    assert books.complete
    assert books.other_plan == []
    assert _begin(control, "d") == pin, "it runs again after a rollback, as it was"


def test_what_a_killed_driver_left_of_attempts_is_swept(control: Path) -> None:
    for batch in (0, 1):
        for run in "abc":
            PlanStore(control, "g", "q")
            _begin(control, run, batch=1 - batch)
    store, folder = PlanStore(control, "g", "q"), control / "gates/g/queries/q/attempts"
    store.unpin(1)
    Attempts(store).sweep()
    assert {path.name[:12] for path in folder.glob("*.json")} <= {f"{0:012d}"}


@pytest.mark.parametrize("broken", [{"attempt": "many"}, {"attempt": -3}, {"cuts": 1.5}, {"whole": 7}])
def test_what_is_no_pin_is_said_to_be_none(broken: dict[str, Any]) -> None:
    with pytest.raises(SnapshotError):
        PinnedPlan.from_json(PinnedPlan(Plan(0.8), "plan").to_json() | broken)


def test_pins_and_records_of_0_1_0_are_of_a_first_attempt(control: Path) -> None:
    value = PinnedPlan(Plan(0.8), "plan", run="a").to_json()
    assert not {"attempt", "earlier", "cuts", "whole"} & value.keys(), "and an older Headgate reads ours"
    assert PinnedPlan.from_json(value).attempt == 1
    record = Record("g", "q", 0, 10, 8, 2, Plan(0.8)).to_json()
    del record["attempt"]
    assert Record.from_json(record).attempt == 1
