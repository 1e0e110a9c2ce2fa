"""The control folder: pins that hold, files that are whole, books that survive a kill."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.core.plan import KEEP_ALL, Plan
from headgate.errors import BadArgument, ControlFolderError, NamedTwice
from headgate.settings import GateSettings
from headgate.store.folder import (
    check_gate_name,
    claim_json,
    open_control_folder,
    read_json,
    used_control_folder,
    write_json,
)
from headgate.store.gate_files.gate_call import GateCall
from headgate.store.lease import BEAT_S, GONE_S, this_process
from headgate.store.ledger.records import Evidence, Findings, Ledger, Record, gates_in, queries_of
from headgate.store.plans import PLAN_WAIT_S, PinnedPlan, PlanStore
from headgate.store.settings_file import SettingsFile
from headgate.testing.clock import ManualClock

OPEN = PinnedPlan(KEEP_ALL, "fail-open")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(control: Path, clock: ManualClock) -> PlanStore:
    return PlanStore(control, "g", "q", clock)


# ------------------------------------------------------------------------------------------- pins


def test_the_first_claim_wins_among_many_racing_tasks(control: Path) -> None:
    PlanStore(control, "g", "q").beat()
    start = threading.Barrier(16)

    def task(number: int) -> Plan:
        mine = PlanStore(control, "g", "q")
        start.wait()
        mine.publish(Plan(number / 100))  # the plan changes while the tasks race
        return mine.pin(7, OPEN).plan

    with ThreadPoolExecutor(16) as pool:
        met = list(pool.map(task, range(1, 17)))
    assert len({plan.digest for plan in met}) == 1
    pinned = PlanStore(control, "g", "q").pinned(7)
    assert pinned is not None
    assert pinned.plan == met[0]


def test_racing_claims_of_a_file_agree_and_leave_no_parts(tmp_path: Path) -> None:
    path = tmp_path / "claim.json"
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda n: claim_json(path, {"n": n}), range(64)))
    assert all(r == results[0] for r in results)
    assert [p.name for p in tmp_path.iterdir()] == ["claim.json"]


def test_a_replayed_batch_meets_the_plan_it_met_before(store: PlanStore, clock: ManualClock) -> None:
    store.beat()
    store.publish(Plan(0.25, {3: 1.0}))
    first = store.pin(4, OPEN)
    store.publish(Plan(0.9))
    clock.sleep(10 * GONE_S)  # the loop is gone by the time of the replay
    assert store.pin(4, OPEN) == first == PinnedPlan(Plan(0.25, {3: 1.0}), "plan")


def test_a_loop_that_is_gone_means_the_fallback_and_a_word_from_it_ends_that(
    store: PlanStore, clock: ManualClock
) -> None:
    closed = PinnedPlan(Plan(0.01), "fail-closed")
    store.publish(Plan(0.5))
    assert store.pin(0, closed) == closed  # never heard of
    store.beat()
    assert store.pin(1, closed).origin == "plan"
    clock.sleep(GONE_S - BEAT_S)
    assert store.pin(2, closed).origin == "plan"
    clock.sleep(BEAT_S)
    assert store.pin(3, closed) == closed
    store.beat()
    assert store.pin(4, closed).origin == "plan"
    assert store.pin(3, OPEN) == closed  # what was pinned stays


def test_before_any_plan_the_opening_holds(store: PlanStore) -> None:
    store.beat()
    assert store.pin(0, OPEN) == PinnedPlan(KEEP_ALL, "start")
    assert store.pin(1, OPEN, call=GateCall(opening=Plan(0.2))) == PinnedPlan(Plan(0.2), "start")


def test_a_plan_for_another_gate_of_the_name_is_not_met(store: PlanStore) -> None:
    mine, namesake = GateCall(spec=1, opening=Plan(0.2)), GateCall(spec=2, opening=Plan(0.3))
    me = this_process()
    store.publish(Plan(0.5), spec=1)
    store.beat()
    assert store.pin(0, OPEN, me=me, call=mine).plan == Plan(0.5)
    assert store.pin(1, OPEN, me=me, call=namesake) == PinnedPlan(Plan(0.3), "start")
    store.lease.release(me)
    after_restart = replace(me, owner="another process")
    assert store.pin(2, OPEN, me=after_restart, call=namesake).plan == Plan(0.5), "numbers begin anew"


def test_two_gates_of_one_name_in_one_run_are_refused_and_a_replay_by_another_call_is_not(
    store: PlanStore,
) -> None:
    first, second = GateCall(7), GateCall(8)
    run = replace(this_process(), run="a")
    store.pin(0, OPEN, me=run, call=first)
    assert store.pin(0, OPEN, me=run, call=first).call == 7, "each task of a gate asks"
    with pytest.raises(NamedTwice, match=r"gate 'g' is twice in query q.*behind the union"):
        store.pin(0, OPEN, me=run, call=second)
    again = replace(this_process(), run="b")
    store.pin(0, OPEN, me=again, call=second)
    unnamed = replace(this_process(), run="")
    store.pin(0, OPEN, me=unnamed, call=second)


# ------------------------------------------------------------------------------------------ files


def test_a_reader_never_sees_a_part_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    write_json(path, [0] * 2000)
    done = threading.Event()

    def write() -> None:
        for n in range(150):
            write_json(path, [n] * 2000)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    reads = 0
    while not done.is_set() or reads == 0:
        value = read_json(path)
        assert len(value) == 2000
        assert len(set(value)) == 1
        reads += 1
    writer.join()
    assert [p.name for p in tmp_path.iterdir()] == ["value.json"]


def test_a_write_that_fails_leaves_the_old_value_and_no_part(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    write_json(path, 1)
    with pytest.raises(TypeError):
        write_json(path, {"not json": object()})
    assert read_json(path) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["value.json"]


def test_no_file_is_none_and_a_folder_below_a_file_is_an_error(tmp_path: Path) -> None:
    assert read_json(tmp_path / "none.json") is None
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="file"):
        read_json(tmp_path / "file" / "value.json")


def test_the_control_folder_is_made_and_tried(tmp_path: Path) -> None:
    folder = open_control_folder(tmp_path / "a" / "b")
    assert folder.is_dir()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_paths_are_taken_as_spark_writes_them(tmp_path: Path, form: str) -> None:
    assert open_control_folder(form.format(tmp_path / "c")) == tmp_path / "c"


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_a_folder_that_gates_have_used_is_found_as_spark_writes_it(tmp_path: Path, form: str) -> None:
    SettingsFile(tmp_path / "c", "g").declare(GateSettings(hold=1))
    assert used_control_folder(form.format(tmp_path / "c")) == tmp_path / "c"


def test_a_folder_that_no_gate_has_used_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(ControlFolderError, match=r"there is no folder .*control="):
        used_control_folder(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    with pytest.raises(ControlFolderError, match=r"no gate has used .*control="):
        used_control_folder(tmp_path)
    with pytest.raises(ControlFolderError, match=r"cannot be read .*too long"):
        used_control_folder(tmp_path / ("x" * 300))


@pytest.mark.parametrize("find", [open_control_folder, used_control_folder])
@pytest.mark.parametrize("url", ["hdfs://n/x", "dbfs:/x", "s3:/bucket/x", "s3://", "http://host/x"])
def test_an_address_of_another_kind_is_refused_with_what_to_do(
    url: str, find: Callable[[str], Path]
) -> None:
    with pytest.raises(ControlFolderError, match=r"(?s)mounted volume.*object store.*s3://"):
        find(url)


def test_an_address_that_is_none_is_refused_without_what_may_be_a_password() -> None:
    with pytest.raises(ControlFolderError, match=r"no address .* write s3://bucket/path") as refused:
        open_control_folder("s3://key:geheim@[bucket/x")
    assert "geheim" not in str(refused.value)


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ControlFolderError, match="cannot be written"):
        open_control_folder(tmp_path / "file" / "control")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ControlFolderError, match="Permission denied"):
            open_control_folder(tmp_path / "control")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", ".x", "a" * 65, "ä", "a b", None, 3])
def test_a_gate_name_must_do_for_a_folder_and_a_metric(name: object) -> None:
    with pytest.raises(BadArgument, match="gate name"):
        check_gate_name(name)  # type: ignore[arg-type]


def test_good_gate_names_pass() -> None:
    assert [check_gate_name(n) for n in ("a", "clicks.v2_x-1", "9")] == ["a", "clicks.v2_x-1", "9"]


# ----------------------------------------------------------------------------------------- ledger


def _record(batch: int, **other: object) -> Record:
    given = {"arrived": 100, "kept": 40, "shed": 60, "plan": Plan(0.4, {9: 1.0}, {9: "high"})}
    return Record(gate="g", query="q", batch=batch, **{**given, **other})  # type: ignore[arg-type]


def test_records_come_back_as_they_were_written(control: Path) -> None:
    ledger = Ledger(control, "g", "q")
    record = _record(
        3, delay_s=1.5, backlog=7, parts_ms={"addBatch": 9}, offsets=[{"endOffset": {"t": {"0": 5}}}],
        found=Findings({"1": 10}), why="because", state="shedding", started_at=1.5, duration_s=0.7,
    )  # fmt: skip
    ledger.append(record)
    assert ledger.records() == {3: record}
    assert ledger.records()[3].plan.labels == {9: "high"}
    assert gates_in(control) == ["g"]
    assert queries_of(control, "g") == ["q"]


def test_a_record_of_an_earlier_version_is_read_into_its_parts(control: Path) -> None:
    """All fields lay flat in 0.1.0, and still do: what each mechanism owns is told by name."""
    value = _record(3).to_json()
    value |= {"groups": {"1": 10}, "measures": {"floor": 0.5}, "windows": [[0.0, 1.0]]}
    value |= {"fingerprint": "f", "witness": "rows", "doubt": "", "handed_out": 9, "repaired": True}
    record = Record.from_json({**value, "of a later version": 1})
    assert record.found == Findings({"1": 10}, {"floor": 0.5}, [[0.0, 1.0]])
    assert record.evidence == Evidence("f", "rows", "", 9, True)
    assert not {"found", "evidence"} & record.to_json().keys()
    older = {k: v for k, v in value.items() if k not in ("fingerprint", "witness", "windows")}
    assert Record.from_json(older).evidence.fingerprint == ""


def test_an_unused_folder_has_no_gates_and_an_empty_ledger(control: Path) -> None:
    assert gates_in(control) == []
    assert queries_of(control, "g") == []
    assert Ledger(control, "g", "q").records() == {}


def _segments(control: Path) -> list[Path]:
    return sorted(control.rglob("*.jsonl"))


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_torn_last_line_costs_its_record_and_no_other(control: Path, cut: int) -> None:
    ledger = Ledger(control, "g", "q")
    for batch in range(3):
        ledger.append(_record(batch))
    (path,) = _segments(control)
    path.write_bytes(path.read_bytes()[:-cut])  # killed while it appended
    survived = [0, 1, 2] if cut == 1 else [0, 1]  # only the line's end was missing
    assert sorted(ledger.records()) == survived
    ledger.append(_record(3))
    assert sorted(ledger.records()) == [*survived, 3]


def test_a_batch_recorded_twice_counts_once_and_the_last_wins(control: Path) -> None:
    ledger = Ledger(control, "g", "q")
    for record in (_record(1), _record(0), _record(1, kept=41, shed=59)):
        ledger.append(record)
    assert [r.batch for r in ledger.lines()] == [1, 0, 1]
    assert list(ledger.records()) == [0, 1]
    assert ledger.records()[1].kept == 41


def test_a_long_run_is_in_several_files(control: Path) -> None:
    ledger = Ledger(control, "g", "q")
    for batch in (0, 4999, 5000, 12_345):
        ledger.append(_record(batch))
    assert [p.name for p in _segments(control)] == [
        "00000000.jsonl", "00000001.jsonl", "00000002.jsonl",
    ]  # fmt: skip
    assert list(ledger.records()) == [0, 4999, 5000, 12_345]


def test_lines_are_json_that_people_can_read(control: Path) -> None:
    Ledger(control, "g", "q").append(_record(5))
    (path,) = _segments(control)
    value = json.loads(path.read_text())
    assert value["digest"] == _record(5).plan.digest
    assert (value["arrived"], value["kept"], value["shed"]) == (100, 40, 60)


def test_a_batch_waits_shortly_for_a_plan_that_is_on_its_way(control: Path) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            PlanStore(control, "g", "q").publish(Plan(0.25), after=4, urgent_s=0.0)

    store = PlanStore(control, "g", "q", sleep=sleep)
    store.beat()
    store.publish(Plan(1.0), after=3, urgent_s=0.0)
    fallback = PinnedPlan(Plan(1.0), "fail-open")
    assert store.pin(4, fallback).plan == Plan(1.0)
    assert not slept, "the plan of batch 4 is there"
    assert store.pin(5, fallback).plan == Plan(0.25), "batch 4 had just ended"
    slept.clear()
    assert store.pin(9, fallback).plan == Plan(0.25)
    assert not slept, "a loop that is further behind is not waited for"
    assert store.pin(6, fallback).plan == Plan(0.25)
    assert 0 < sum(slept) < 0.3, "and nothing is waited for long"


@pytest.mark.parametrize("off_s", [-3600.0, 3600.0])
@pytest.mark.parametrize(("urgent_s", "waits"), [(0.0, True), (300.0, False)])
def test_a_wait_does_not_depend_on_the_workers_clock(
    control: Path, off_s: float, urgent_s: float, waits: bool
) -> None:
    slept: list[float] = []
    driver = PlanStore(control, "g", "q")
    driver.beat()
    driver.publish(Plan(0.5), after=3, urgent_s=urgent_s)
    worker = PlanStore(control, "g", "q", lambda: time.time() + off_s, slept.append)
    worker.pin(5, PinnedPlan(Plan(1.0), "fail-open"))
    assert bool(slept) is waits


def test_an_idle_gate_waits_only_after_a_long_batch(control: Path) -> None:
    slept: list[float] = []
    store = PlanStore(control, "g", "q", sleep=slept.append)
    fallback = PinnedPlan(Plan(1.0), "fail-open")
    store.beat()
    store.publish(Plan(1.0), after=3, urgent_s=300.0)
    store.pin(5, fallback)
    assert not slept
    store.publish(Plan(1.0), after=4, urgent_s=300.0)
    plan = store.folder / "plan.json"
    os.utime(plan, (plan.stat().st_mtime - 301,) * 2)
    store.pin(6, fallback)
    assert sum(slept) == pytest.approx(PLAN_WAIT_S)
    assert not list(store.folder.glob(".look-*"))
    slept.clear()
    store.publish(Plan(0.5), after=5, urgent_s=None)
    store.pin(7, fallback)
    assert not slept, "a fixed rate has nothing to wait for"


def test_a_folder_that_nobody_can_make_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/proc says of each new folder that its parent is not there, though it is."""

    def mkdir(path: object, *_mode: int) -> None:
        if Path(str(path)).is_dir():
            raise FileExistsError(17, "File exists", str(path))
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(ControlFolderError, match="nowhere"):
        open_control_folder(tmp_path / "nowhere" / "control")
