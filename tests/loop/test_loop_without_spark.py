"""The control loop behind a session that is played: what it does when Spark, or a lease, is gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate.core.plan import KEEP_ALL
from headgate.policies import Uniform
from headgate.run.gate_spec import GateSpec
from headgate.settings import GateSettings
from headgate.spark.loop import heart
from headgate.spark.loop import loop as loop_module
from headgate.spark.loop.loop import ControlLoop
from headgate.store.lease import Holder, Lease, this_process
from headgate.store.ledger.records import Ledger
from headgate.store.plans import PinnedPlan, PlanStore
from headgate_lab.bench.year.load import MadeUpLoad
from headgate_lab.bench.year.session import PlayedQuery, PlayedSession

ROME = Holder("rome-driver", run="r1", host="rome", boot="b", pid=7, pid_started="1")
#: Here a loop is stuck when Spark has not answered it for so long.
STUCK_S = 2.0


class Session(PlayedSession):
    """A session whose Spark may be gone: then it answers nothing."""

    gone = False

    @property
    def active(self) -> list[PlayedQuery]:
        if self.gone:
            raise ConnectionRefusedError("the JVM has ended")
        return super().active


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def loop(session: Any, control: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlLoop]:
    """A loop that looks often, beats often, and is soon taken for stuck; a gate runs in query "q"."""
    monkeypatch.setattr(heart, "BEAT_S", 0.01)
    monkeypatch.setattr(loop_module, "STUCK_S", STUCK_S)
    found = ControlLoop(session)
    found._poll_s = 0.02
    found.register(GateSpec("g", control, GateSettings(rate=0.5), Uniform()))
    session.start("q")
    found.drain()
    yield found
    session.gone = False
    found.end()


@pytest.fixture
def lease(loop: ControlLoop, control: Path) -> Lease:
    found = PlanStore(control, "g", "q").lease
    found.claim(replace(this_process(), run="mine"), "gate 'g'")
    return found


def _eventually(look: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 20.0
    while not look():
        assert time.monotonic() < until, f"never seen: {what}"
        time.sleep(0.01)


def _stands_still(lease: Lease) -> bool:
    before = lease.holder()
    time.sleep(0.2)
    return lease.holder() == before


def test_no_heartbeat_vouches_for_a_spark_that_is_gone(
    loop: ControlLoop, session: Session, lease: Lease
) -> None:
    time.sleep(1.2 * STUCK_S)
    assert loop._going_round(), "it is well as long as Spark answers, with nothing to report"
    _eventually(lambda: not _stands_still(lease), "heartbeats")
    session.gone = True
    _eventually(lambda: not loop._going_round(), "that it notices")
    assert loop._thread.is_alive()
    _eventually(lambda: _stands_still(lease), "silence")
    session.gone = False
    _eventually(lambda: not _stands_still(lease), "heartbeats again")


def test_no_heartbeat_vouches_for_a_loop_that_has_ended(loop: ControlLoop) -> None:
    assert loop._going_round()
    loop._ended.set()
    loop._thread.join(20)
    loop._was_well = time.monotonic()
    assert not loop._going_round()


def test_a_gate_that_another_process_took_is_steered_again_once_it_is_back(
    loop: ControlLoop, session: Session, lease: Lease, control: Path
) -> None:
    load = MadeUpLoad("g")

    def batch(number: int) -> None:
        plan = PlanStore(control, "g", "q").pin_to(number, PinnedPlan(KEEP_ALL, "plan")).plan
        session.report("q", load.progress(number, time.time(), plan))
        loop.drain()

    def taken() -> bool:  # again, should a beat that was under way have come after it
        lease._write(ROME)
        return loop._heartbeats.lost("g", "q")

    batch(0)
    _eventually(taken, "that it is lost")
    batch(1)
    lease._write(this_process())
    _eventually(lambda: not loop._heartbeats.lost("g", "q"), "that it is ours again")
    batch(2)
    assert list(Ledger(control, "g", "q").records()) == [0, 2], "batch 1 is in the other one's books"
