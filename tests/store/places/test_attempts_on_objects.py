"""Attempts at a batch whose control store is an object store: claimed by conditional puts, and few."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from headgate.core.plan import Plan
from headgate.errors import BadArgument
from headgate.spark.gate.rescue_refused import refuse_unseen_checkpoint
from headgate.store.attempts import Attempts
from headgate.store.folder import names_in
from headgate.store.places.objects import Objects
from headgate.store.places.place import ObjectPath
from headgate.store.plans import PlanStore
from headgate.store.query_facts import forget_query, tell_checkpoint, told_of
from tests.harness.object_stores import memory as memory
from tests.store.test_attempts import CALL, _begin, _me


def _attempts(control: ObjectPath) -> list[str]:
    return names_in(PlanStore(control, "g", "q").folder / "attempts")


def test_each_run_has_an_attempt_and_the_pin_is_the_latest_ones(memory: ObjectPath) -> None:
    pins = [_begin(memory, f"run {n}") for n in range(1, 7)]
    assert [p.plan.default for p in pins] == [0.8, 0.8, 0.2, 0.05, 0.0125, 0.01]
    assert [p.attempt for p in pins] == list(range(1, 7))
    assert PlanStore(memory, "g", "q").pinned(0) == pins[-1]
    assert _begin(memory, "run 2") == pins[-1], "a task of a run that is over makes no attempt"
    assert len(_attempts(memory)) == 2
    Attempts(PlanStore(memory, "g", "q")).forget(0, pins[-1].attempt)
    assert _attempts(memory) == []


def test_racing_tasks_agree_and_a_batch_that_ended_is_left_alone(memory: ObjectPath) -> None:
    _begin(memory, "a")
    for number, run in enumerate("bcd", start=2):
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(lambda _, r=run: _begin(memory, r), range(32)))  # type: ignore[misc]
        assert {pin.attempt for pin in found} == {number}
        assert len({pin.plan.digest for pin in found}) == 1
    PlanStore(memory, "g", "q").publish(Plan(1.0), after=0)
    assert _begin(memory, "e") == found[0]


def test_a_batch_that_runs_once_costs_no_request_more(
    memory: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _begin(memory, "a")
    for name in ("get", "get_all", "put", "create", "entries", "delete"):
        monkeypatch.setattr(Objects, name, lambda *_, **__: pytest.fail("a request"))
    store = PlanStore(memory, "g", "q")
    attempts = Attempts(store)
    again = attempts.of_run(0, found, _me("a"), CALL, lambda: pytest.fail("asked"))
    assert again == found
    attempts.forget(0, found.attempt)


def test_a_run_is_not_told_what_an_earlier_one_wrote_to(memory: ObjectPath) -> None:
    tell_checkpoint(memory, "q", "/checkpoint", "FileSink[/out]")
    assert told_of(memory, "q", "a")["sink"] == "FileSink[/out]"
    tell_checkpoint(memory, "q", "/checkpoint", "ForeachBatchSink")
    assert told_of(memory, "q", "a")["sink"] == "FileSink[/out]", "asked once a minute"
    assert told_of(memory, "q", "b")["sink"] == "ForeachBatchSink"
    forget_query(memory, "q")
    assert told_of(memory, "q", "b") == {}


@pytest.mark.parametrize("given", [("/checkpoint", None), ("s3a://bucket/x", None), (None, "/root")])
def test_over_connect_a_checkpoint_that_workers_can_read_is_enough(
    given: tuple[str | None, str | None],
) -> None:
    refuse_unseen_checkpoint("g", *given)


@pytest.mark.parametrize("given", [(None, None), ("hdfs://node/x", None), ("hdfs://node/x", "/root")])
def test_over_connect_nobody_sees_another_checkpoint(given: tuple[str | None, str | None]) -> None:
    with pytest.raises(BadArgument, match=r"over Connect .*: give checkpoint="):
        refuse_unseen_checkpoint("g", *given)
