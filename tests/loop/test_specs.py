"""What a session remembers of the gates that were built in it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.policies import Policy, Uniform
from headgate.run.gate_run import GateSpec
from headgate.settings import GateSettings
from headgate.spark.loop.loop import ControlLoop
from headgate.spark.loop.specs import MOST_SPECS, Specs
from headgate.store.gate_files.gate_call import GateCall
from headgate.store.ledger.records import Ledger
from headgate_lab.bench.year.load import MadeUpLoad
from tests.loop.conftest import Session

RATE = GateSettings(rate=0.5)


class NeverEqual(Uniform):
    """A policy of which no two are the same, as where a class does without __eq__."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def _spec(control: Path, name: str = "g", policy: Policy | None = None) -> GateSpec:
    return GateSpec(name, control, RATE, Uniform() if policy is None else policy)


def test_equal_ones_are_remembered_once_and_have_one_number(tmp_path: Path) -> None:
    specs = Specs()
    first = specs.add(_spec(tmp_path))
    assert specs.add(_spec(tmp_path)).number == first.number
    other = specs.add(_spec(tmp_path, policy=NeverEqual()))
    assert other.number != first.number
    assert len(specs) == 2
    assert specs.of("g", first.number) == first
    assert specs.of("g") == other, "the latest"
    assert specs.add(_spec(tmp_path)).number == specs.named("g")[0].number == first.number


def test_those_not_used_for_longest_are_forgotten_and_those_in_use_never(tmp_path: Path) -> None:
    specs = Specs(most=3)
    a, b, c, d = (specs.add(_spec(tmp_path, name), in_use=()) for name in "abcd")
    assert list(specs) == ["b", "c", "d"], "one of another name is as good as any"
    specs.of("b", b.number)
    specs.add(_spec(tmp_path, "e"))
    assert list(specs) == ["b", "d", "e"], "b was asked for since"
    for name in "fghi":
        specs.add(_spec(tmp_path, name), in_use={d.number})
    assert list(specs) == ["d", "h", "i"]
    assert specs.of("a", a.number) is specs.of("c", c.number) is None


@pytest.fixture
def progress(session: Session) -> Callable[[GateSpec, str, int], None]:
    """A batch behind the frame that was made with this spec."""

    def report(spec: GateSpec, query: str, batch: int) -> None:
        load: Any = MadeUpLoad(spec.name, call=GateCall(1, spec.number))
        session.report(query, load.progress(batch, 1e9, spec.opening))

    return report


def test_a_session_that_builds_gates_for_days_remembers_so_many_and_steers_those_that_run(
    loop: ControlLoop, session: Session, control: Path, progress: Any, caplog: pytest.LogCaptureFixture
) -> None:
    runs, waits = (loop.register(_spec(control, policy=NeverEqual())) for _ in range(2))
    session.start("q")
    progress(runs, "q", 0)
    loop.drain()
    for _ in range(MOST_SPECS + 10):
        loop.register(_spec(control, "other", NeverEqual()))
    assert len(loop.specs) == MOST_SPECS
    progress(runs, "q", 1)
    loop.drain()
    assert list(Ledger(control, "g", "q").records()) == [0, 1]
    session.start("late")
    for batch in (0, 1):
        progress(waits, "late", batch)
        loop.drain()
    told = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    assert len(told) == 1, "once"
    assert "gate 'g' of query late was built so long ago" in told[0]
    assert not Ledger(control, "g", "late").records()


def test_folders_of_forgotten_gates_have_no_worker(loop: ControlLoop, tmp_path: Path) -> None:
    loop.specs._most = 3
    for i in range(10):
        loop.register(_spec(tmp_path / f"temporary-{i}", f"join-{i}"))
    assert len(loop.folders._workers) == 3
