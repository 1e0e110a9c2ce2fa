"""The control loop behind a session that is played: what it does when Spark, or a lease, is gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.errors import BadArgument
from headgate.policies import Uniform
from headgate.run.gate_spec import GateSpec
from headgate.settings import GateSettings
from headgate.spark.loop import kinds
from headgate.spark.loop import loop as loop_module
from headgate.spark.loop.loop import ControlLoop
from headgate.store.lease import Holder, Lease, this_process
from headgate.store.ledger.records import Ledger
from headgate.store.ledger.standing import Standing
from headgate.store.plans import PlanStore
from tests.eventually import eventually
from tests.loop.conftest import Session

ROME = Holder("rome-driver", run="r1", host="rome", boot="b", pid=7, pid_started="1")
#: Here a loop is stuck when Spark has not answered it for so long.
STUCK_S = 2.0


@pytest.fixture
def gate(
    loop: ControlLoop, session: Session, control: Path, monkeypatch: pytest.MonkeyPatch
) -> GateSpec:
    """A gate that runs in query "q", behind a loop that is soon taken for stuck."""
    monkeypatch.setattr(loop_module, "STUCK_S", STUCK_S)
    spec = loop.register(GateSpec("g", control, GateSettings(rate=0.5), Uniform()))
    session.start("q")
    loop.drain()
    return spec


@pytest.fixture
def lease(gate: GateSpec, control: Path) -> Lease:
    found = PlanStore(control, "g", "q").lease
    found.claim(replace(this_process(), run="mine"), "gate 'g'")
    return found


def _stands_still(lease: Lease) -> bool:
    before = lease.holder()
    time.sleep(0.2)
    return lease.holder() == before


@pytest.mark.slow
def test_no_heartbeat_vouches_for_a_spark_that_is_gone(
    loop: ControlLoop, session: Session, lease: Lease
) -> None:
    time.sleep(1.2 * STUCK_S)
    assert loop._going_round(), "it is well as long as Spark answers, with nothing to report"
    eventually(lambda: not _stands_still(lease), "heartbeats")
    session.gone = True
    eventually(lambda: not loop._going_round(), "that it notices")
    assert loop._thread.is_alive()
    eventually(lambda: _stands_still(lease), "silence")
    session.gone = False
    eventually(lambda: not _stands_still(lease), "heartbeats again")


def test_no_heartbeat_vouches_for_a_loop_that_has_ended(loop: ControlLoop, gate: GateSpec) -> None:
    assert loop._going_round()
    loop._ended.set()
    loop._thread.join(20)
    loop._was_well = time.monotonic()
    assert not loop._going_round()


def test_a_gate_that_another_process_took_is_steered_again_once_it_is_back(
    loop: ControlLoop, lease: Lease, control: Path, batch: Callable[..., None]
) -> None:
    def taken() -> bool:  # again, should a beat that was under way have come after it
        lease._write(ROME)
        return loop.folders.heartbeats.lost("g", "q")

    def ends(number: int) -> None:
        batch(control, "g", "q", number)
        loop.drain()

    ends(0)
    eventually(taken, "that it is lost")
    ends(1)
    lease._write(this_process())
    eventually(lambda: not loop.folders.heartbeats.lost("g", "q"), "that it is ours again")
    ends(2)
    assert list(Ledger(control, "g", "q").records()) == [0, 2], "batch 1 is in the other one's books"


def test_a_report_that_the_listener_did_not_bring_is_taken_up_before_the_next_one(
    loop: ControlLoop, session: Session, gate: GateSpec, control: Path, batch: Callable[..., None]
) -> None:
    batch(control, "g", "q", 0)
    loop.drain()
    listeners, session._listeners = session._listeners, []
    with loop._lock:  # nobody looks by himself meanwhile
        batch(control, "g", "q", 1)
        session._listeners = listeners
        batch(control, "g", "q", 2)
        loop._work_off()
    loop.drain()
    assert list(Ledger(control, "g", "q").records()) == [0, 1, 2]


def test_one_of_the_same_name_is_refused_while_a_query_that_began_again_has_not_reported_yet(
    loop: ControlLoop, session: Session, gate: GateSpec, control: Path, batch: Callable[..., None]
) -> None:
    batch(control, "g", "q", 0)
    loop.drain()
    session.stop("q")
    loop.drain()
    loop.register(GateSpec("g", control, GateSettings(rate=0.7), Uniform()))
    assert loop.register(gate) == gate, "nothing runs: the name is free"
    session.start("q")
    with pytest.raises(BadArgument, match="gate 'g' is running in query q, and is another one there"):
        loop.register(GateSpec("g", control, GateSettings(rate=0.9), Uniform()))


def test_a_query_is_over_though_nobody_can_say_how_its_gates_stood(
    loop: ControlLoop,
    session: Session,
    gate: GateSpec,
    control: Path,
    batch: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A driver that beats for a query that has ended keeps everybody else from running it."""
    lease = PlanStore(control, "g", "q").lease
    lease.claim(replace(this_process(), run=str(loop._queries["q"].runId)), "gate 'g'")
    batch(control, "g", "q", 0)
    loop.drain()

    def unreadable(*_: object) -> dict[str, object]:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Standing, "to_json", unreadable)
    session.stop("q")
    loop.drain()
    assert not loop.folders.heartbeats.steers(control, "q")
    holder = lease.holder()
    assert holder is not None
    assert holder.released


@pytest.mark.parametrize("fails", ["a kind of reports", "what Spark is asked besides"])
def test_a_gate_whose_reports_cannot_be_read_is_not_vouched_for(
    loop: ControlLoop, lease: Lease, control: Path, batch: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch, fails: str,
) -> None:  # fmt: skip
    """Its plan is never made anew: what holds now, perhaps one row in a hundred, must not hold on."""

    def ends(number: int) -> None:
        batch(control, "g", "q", number)
        loop.drain()

    def broken(*_: object) -> dict[str, object]:
        raise AttributeError("Spark says it otherwise now")

    ends(0)
    eventually(lambda: not _stands_still(lease), "heartbeats")
    with monkeypatch.context() as upgraded:
        if fails == "a kind of reports":
            upgraded.setattr(kinds, "_KINDS", [broken])
        else:
            upgraded.setattr(loop._facts, "added", broken)
        for number in range(1, 3):
            ends(number)
        assert not _stands_still(lease), "once or twice may be chance"
        ends(3)
        eventually(lambda: _stands_still(lease), "silence")
    ends(4)
    eventually(lambda: not _stands_still(lease), "heartbeats again")
    assert list(Ledger(control, "g", "q").records()) == [0, 4]
