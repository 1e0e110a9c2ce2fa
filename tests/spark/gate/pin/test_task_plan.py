"""What a task knows of the query that it works for."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from headgate.core.plan import KEEP_ALL, Plan
from headgate.core.rescue import Rescue
from headgate.errors import NamedTwice, RescueRefused, ShapeChanged
from headgate.policies import Uniform
from headgate.settings import GateSettings
from headgate.spark.gate.pin import task_plan
from headgate.spark.gate.pin.resolver import Resolver
from headgate.spark.gate.pin.task_plan import TaskPlan, batch_of_task, run_of_task
from headgate.spark.gate.shape import GateShape
from headgate.store.gate_files.gate_call import GateCall
from headgate.store.lease import this_process
from headgate.store.places.place import ObjectPath, Place
from headgate.store.plans import PinnedPlan, PlanStore
from headgate.store.query_facts import forget_query, tell_checkpoint
from headgate.store.settings_file import SettingsFile
from tests.harness.object_stores import memory as memory

RUN = "d3a0b007-d953-4eff-b8db-b806453c28c4"


def _in_a_task(monkeypatch: pytest.MonkeyPatch, **properties: str) -> None:
    context = SimpleNamespace(getLocalProperty=lambda name: properties.get(name.replace(".", "_")))
    monkeypatch.setattr(task_plan, "TaskContext", SimpleNamespace(get=lambda: context))


@pytest.mark.parametrize(
    ("group", "run"),
    [(RUN, RUN), ("nightly report", ""), (f"report {RUN}", ""), (RUN.upper(), ""), ("", ""), (None, "")],
)
def test_only_what_spark_calls_a_run_is_one(
    monkeypatch: pytest.MonkeyPatch, group: str | None, run: str
) -> None:
    _in_a_task(monkeypatch, **({} if group is None else {"spark_jobGroup_id": group}))
    assert run_of_task() == run


def test_a_task_of_a_stream_knows_its_query_and_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert batch_of_task() is None, "no task"
    _in_a_task(monkeypatch, sql_streaming_queryId="q", streaming_sql_batchId="7")
    assert batch_of_task() == ("q", 7)
    _in_a_task(monkeypatch, sql_streaming_queryId="q")
    assert batch_of_task() is None, "no stream's"


@pytest.fixture
def rescuing(control: Path) -> TaskPlan:
    """The lookup of a gate that rescues, in a folder in which its query has begun."""
    return _rescuing(control, control / "checkpoint")


def _rescuing(control: Place, checkpoint: Path) -> TaskPlan:
    SettingsFile(control, "g").declare(GateSettings(rate=0.8))
    tell_checkpoint(control, "q", str(checkpoint), "FileSink[/out]")
    shape = GateShape(("id",), 1)
    shape.save(control, "g")
    store = PlanStore(control, "g", "q")
    store.beat()
    call = GateCall(number=1, opening=Plan(0.8))
    lookup = TaskPlan(str(control), "g", shape.digest, "open", 0.01, driver=this_process(), call=call)
    return replace(lookup, rescue=Rescue("files"), sink_told=True)


def _started(lookup: TaskPlan, monkeypatch: pytest.MonkeyPatch, runs: int = 1) -> list[float]:
    """The keep rates that the batch meets in so many runs more."""
    found = []
    for _ in range(runs):
        _in_a_task(monkeypatch, spark_jobGroup_id=str(uuid.uuid4()))
        found.append(lookup.of("q", 0).default)
        assert lookup.of("q", 0).default == found[-1], "a task that Spark runs again is no attempt"
    return found


def test_restarts_are_counted_where_people_asked_for_a_rescue(
    rescuing: TaskPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _started(replace(rescuing, rescue=None), monkeypatch, 4) == [0.8] * 4
    assert _started(rescuing, monkeypatch, 3) == [0.8, 0.2, 0.05]
    assert _started(replace(rescuing, rescue=None), monkeypatch, 2) == [0.05] * 2, "replayed as it is"


def test_restarts_are_counted_in_an_object_store_and_another_sink_is_seen_at_once(
    memory: ObjectPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookup = _rescuing(memory, tmp_path)
    assert _started(lookup, monkeypatch, 3) == [0.8, 0.8, 0.2]
    # Stopped, and started with another sink: what this process was told of the run before is no answer.
    tell_checkpoint(memory, "q", str(tmp_path), "ForeachBatchSink")
    with pytest.raises(RescueRefused, match="writes to ForeachBatchSink"):
        _started(lookup, monkeypatch)


def test_over_connect_the_checkpoint_is_the_one_that_people_gave(
    memory: ObjectPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody says where it is, nor what the query writes to."""
    lookup = replace(_rescuing(memory, tmp_path), sink_told=False)
    forget_query(memory, "q")
    with pytest.raises(RescueRefused, match="give checkpoint="):
        _started(lookup, monkeypatch)
    (tmp_path / "metadata").write_text('{"id":"q"}')
    resolver = Resolver(Uniform(), "Uniform()", checkpoint=str(tmp_path)).to_text()
    lookup = replace(lookup, resolver=resolver)
    assert _started(lookup, monkeypatch, 3) == [0.8, 0.8, 0.2]
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "0").mkdir()
    with pytest.raises(RescueRefused, match="keeps state"):
        _started(lookup, monkeypatch)


def test_in_monitor_mode_nothing_is_shed_for_a_rescue_either(
    rescuing: TaskPlan, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SettingsFile(control, "g").change(mode="monitor")
    assert _started(rescuing, monkeypatch, 4) == [0.8] * 4


@pytest.mark.parametrize("mode", ["monitor", "off"])
def test_without_a_plan_nothing_is_shed_in_the_modes_that_shed_nothing(control: Path, mode: str) -> None:
    settings = SettingsFile(control, "g")
    settings.declare(GateSettings(hold=1, mode=mode, on_failure="closed"))
    lookup = TaskPlan(str(control), "g", "", "closed", 0.01, mode=mode)
    assert lookup.pin("q", 1) == PinnedPlan(KEEP_ALL, "fail-open"), "its loop never said a word"
    settings.change(mode="shed", min_keep=0.2)
    assert lookup.pin("q", 2) == PinnedPlan(Plan(0.2), "fail-closed")
    shutil.rmtree(control)
    control.write_text("in the way")
    assert lookup.pin("q", 3).plan == KEEP_ALL, "without the folder, the mode of the call"
    assert replace(lookup, mode="shed").pin("q", 3).plan == Plan(0.01)
    control.unlink()


def test_another_sink_is_refused_before_anything_is_pinned(
    rescuing: TaskPlan, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_checkpoint(control, "q", str(control / "checkpoint"), "KafkaTable")
    with pytest.raises(RescueRefused, match=r"sink='files'.*writes to KafkaTable"):
        _started(rescuing, monkeypatch)
    assert PlanStore(control, "g", "q").pinned(0) is None


def test_a_driver_that_cannot_see_the_sink_is_not_waited_for(
    rescuing: TaskPlan, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.spark.gate.rescue_refused._TOLD_WITHIN_S", float("inf"))
    tell_checkpoint(control, "q", str(control / "checkpoint"))
    assert _started(rescuing, monkeypatch) == [0.8]


def test_a_driver_that_says_nothing_costs_the_rescue_and_not_the_query(
    rescuing: TaskPlan, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.spark.gate.rescue_refused._TOLD_WITHIN_S", 0.0)
    told = control / "queries" / "q.json"
    before = told.read_text()
    told.unlink()
    assert _started(rescuing, monkeypatch, 4) == [0.8] * 4
    told.write_text(before)
    assert _started(rescuing, monkeypatch) == [0.2]


def test_a_query_with_state_or_a_checkpoint_that_cannot_be_read_is_refused(
    rescuing: TaskPlan, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = control / "checkpoint"
    (checkpoint / "state").mkdir(parents=True)
    with pytest.raises(RescueRefused, match="keeps state"):
        _started(rescuing, monkeypatch)
    apart = replace(rescuing, state_apart=True)
    with pytest.raises(RescueRefused, match="keeps state"):
        apart.of("q", 7)  # nobody knows what its batches before this one have written
    (checkpoint / "commits").mkdir()
    (checkpoint / "commits" / "6").write_text("v1\n{}")
    with pytest.raises(RescueRefused, match="checkpointFormatVersion=2"):
        apart.of("q", 7)
    (checkpoint / "commits" / "6").write_text('v2\n{"stateUniqueIds":{}}')
    assert apart.of("q", 7).default == 0.8
    tell_checkpoint(control, "q", "hdfs://node/checkpoint", "FileSink[/out]")
    with pytest.raises(RescueRefused, match="give checkpoint="):
        _started(rescuing, monkeypatch)
    assert PlanStore(control, "g", "q").pinned(0) is None


def test_a_job_that_bears_another_name_than_its_run_is_refused(
    rescuing: TaskPlan, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _in_a_task(monkeypatch, spark_jobGroup_id="nightly report")
    with pytest.raises(RescueRefused, match="setJobGroup"):
        rescuing.of("q", 0)
    assert PlanStore(control, "g", "q").pinned(0) is None


def test_a_folder_that_takes_no_pin_lets_no_batch_be_judged_by_another_shape(
    rescuing: TaskPlan, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookup = replace(rescuing, rescue=None)
    _in_a_task(monkeypatch, spark_jobGroup_id=RUN)
    assert lookup.of("q", 0).default == 0.8
    other = GateShape(("id",), 2)
    other.save(control, "g")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PlanStore, "pin", full)
    monkeypatch.setattr(PlanStore, "repin", full)
    assert lookup.of("q", 0).default == 0.8, "the pin can be read"
    changed = replace(lookup, shape=other.digest)
    with pytest.raises(ShapeChanged):
        changed.of("q", 0)
    assert replace(changed, on_reshape="accept").pin("q", 0).shape == other.digest
    with pytest.raises(NamedTwice):
        replace(lookup, call=replace(lookup.call, number=2)).of("q", 0)


def test_a_run_that_ends_for_its_shape_is_no_attempt(
    rescuing: TaskPlan, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _started(rescuing, monkeypatch) == [0.8]
    other = GateShape(("id",), 2)
    other.save(control, "g")
    for _ in range(3):
        with pytest.raises(ShapeChanged):
            _started(replace(rescuing, shape=other.digest), monkeypatch)
    assert _started(rescuing, monkeypatch, 2) == [0.8, 0.2]
