"""A control loop behind a session that is played."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.core.plan import KEEP_ALL
from headgate.spark.loop import heart
from headgate.spark.loop.loop import ControlLoop
from headgate.store.plans import PinnedPlan, PlanStore
from headgate_lab.bench.year.load import MadeUpLoad
from headgate_lab.bench.year.session import PlayedQuery, PlayedSession


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
def loop(session: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlLoop]:
    """A loop that looks often and beats often."""
    monkeypatch.setattr(heart, "BEAT_S", 0.01)
    found = ControlLoop(session)
    found._poll_s = 0.02
    yield found
    session.gone = False
    found.end()


@pytest.fixture
def batch(session: Session) -> Callable[..., None]:
    """A batch of a query ends, behind a gate: as its task and Spark would tell."""
    loads: dict[tuple[str, str], MadeUpLoad] = {}

    def end(control: Path, gate: str, query: str, number: int) -> None:
        plan = PlanStore(control, gate, query).pin_to(number, PinnedPlan(KEEP_ALL, "plan")).plan
        load = loads.setdefault((gate, query), MadeUpLoad(gate))
        session.report(query, load.progress(number, time.time(), plan))

    return end
