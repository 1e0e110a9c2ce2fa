"""What a guard remembers, in an object store; no session is needed for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.errors import NamedTwice
from headgate.guards.inline_policy import InlinePolicy
from headgate.guards.targets import average
from headgate.spark.guard.memory import GuardMemory
from headgate.store.folder import read_json
from headgate.store.gate_files.gate_call import GateCall
from headgate.store.keeping.upkeep import remove_query
from headgate.store.lease import this_process
from headgate.store.places.objects import Objects
from headgate.store.places.place import ObjectPath
from headgate.store.places.stores import store_of
from headgate.store.plans import PlanStore
from tests.harness.object_stores import memory as memory
from tests.spark.guard.test_guard_task import Bench, counts

RUN = "11111111-2222-3333-4444-555555555555"


def _guard(control: ObjectPath) -> GuardMemory:
    return GuardMemory(control, "g", InlinePolicy("balanced", average("1 second")))


def test_lessons_are_read_merged_and_forgotten(memory: ObjectPath) -> None:
    guard = _guard(memory)
    for partition in range(3):
        guard.leave_lesson("q", 4, partition, [(7, 3, 0.5)])
    assert guard.costs("q", 4).mean is not None
    assert _guard(memory).merge("q", 4) == 3
    assert read_json(memory / "gates" / "g" / "costs.json")["through"] == {"q": 4}
    guard.keep_queue("q", 0, {"check": [1.0]})
    guard.leave_lesson("q", 5, 0, [(7, 3, 0.5)])
    assert guard.merge("q", 5) == 1
    assert read_json(memory / "gates" / "g" / "costs.json")["through"] == {"q": 5}
    assert _guard(memory).queue("q", 0) == {"check": [1.0]}
    guard.note_warm("q", "run")
    assert _guard(memory).warm_run("q") == "run"
    remove_query(memory, "g", "q")
    assert _guard(memory).queue("q", 0) is None


def test_unmerged_lessons_are_bounded(memory: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.spark.guard.memory._MOST_LESSONS", 4)
    guard = _guard(memory)
    for batch in range(10):
        guard.leave_lesson("q", batch, 0, [(7, 3, 0.5)])
    assert guard.merge("q", 99) == 4


def test_a_batch_that_began_is_marked_and_a_namesake_is_refused(memory: ObjectPath) -> None:
    guard, me = _guard(memory), replace(this_process(), run=RUN)
    guard.mark_begun("q", 3, me, GateCall(1))
    guard.mark_begun("q", 3, me, GateCall(1))
    assert PlanStore(memory, "g", "q").pinned_batches() == [3]
    with pytest.raises(NamedTwice, match="twice"):
        guard.mark_begun("q", 3, me, GateCall(2))


def test_what_is_no_pin_of_a_batch_ends_no_query(memory: ObjectPath) -> None:
    """Somebody copied the store, and an object of it came without its content."""
    store_of(memory).put(memory / "gates" / "g" / "queries" / "q" / "pins" / f"{0:012d}.json", b"")
    bench = Bench({"a": 0.002}, control=str(memory), driver=replace(this_process(), run=RUN), number=1)
    assert counts(bench.run(bench.batch(["a"] * 3, 0.01))) == {"kept": 3}
    assert _guard(memory).merge("q", 0) == 1, "what it learned is there all the same"


def test_a_store_that_is_gone_ends_no_query_that_has_no_dead_letters(
    memory: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> None:
        raise OSError("nobody answers")

    for name in ("get", "put", "create", "entries", "delete"):
        monkeypatch.setattr(Objects, name, gone)
    given = {"control": str(memory), "dead_letters": str(memory / "dead"), "on_error": "dead-letter"}
    bench = Bench({"a": 0.002}, **given)
    assert counts(bench.run(bench.batch(["a"] * 3, 0.01))) == {"kept": 3}
    with pytest.raises(OSError, match="nobody answers"):
        bench.run(bench.batch(["unheard of"], 0.01))  # its row fails, and is not lost in silence
