"""A control folder that hangs is the problem of its own gates, and of nobody else's."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.policies import Uniform
from headgate.run.gate_run import GateSpec
from headgate.settings import GateSettings
from headgate.spark.loop import lanes
from headgate.spark.loop import loop as loop_module
from headgate.spark.loop.loop import ControlLoop
from headgate.store.lease import Lease, this_process
from headgate.store.ledger.records import Ledger
from headgate.store.plans import PlanStore
from headgate.store.settings_file import SettingsFile
from tests.eventually import eventually
from tests.loop.conftest import Session


class Mount:
    """A control folder in which reading people's changes hangs: that file is a pipe without a writer."""

    def __init__(self, control: Path) -> None:
        self.control = control
        self._pipe = control / "gates" / "g" / "overrides.json"

    def hang(self) -> None:
        self._pipe.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(self._pipe)

    def answer(self) -> None:
        """Whoever waits gets an answer, and the next one finds no such file."""
        if self._pipe.exists():
            with contextlib.suppress(OSError):  # nobody waits
                waits = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
                os.write(waits, b"{}")
                self._pipe.unlink()
                os.close(waits)
            self._pipe.unlink(missing_ok=True)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    found = Mount(tmp_path / "hangs")
    yield found
    found.answer()


@pytest.fixture
def well(tmp_path: Path) -> Path:
    return tmp_path / "well"


class Errors(logging.Handler):
    """What is said at level ERROR, also between a test's setup and its call, which caplog misses."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())


@pytest.fixture
def errors() -> Iterator[Errors]:
    handler = Errors()
    logging.getLogger("headgate").addHandler(handler)
    yield handler
    logging.getLogger("headgate").removeHandler(handler)


@pytest.fixture
def gates(
    errors: Errors, mount: Mount, loop: ControlLoop, session: Session, well: Path,
    batch: Callable[..., None], monkeypatch: pytest.MonkeyPatch,
) -> Iterator[ControlLoop]:  # fmt: skip
    """The gate "g" of query "one" in a folder that hangs since a moment, that of "two" in another."""
    monkeypatch.setattr(lanes, "HANGS_S", 0.3)
    for control, name, query in ((mount.control, "g", "one"), (well, "h", "two")):
        loop.register(GateSpec(name, control, GateSettings(rate=0.5), Uniform()))
        run = session.start(query).runId
        PlanStore(control, name, query).lease.claim(replace(this_process(), run=run), "gate")
        batch(control, name, query, 0)
    loop.drain()
    assert _recorded(mount.control, "g", "one") == _recorded(well, "h", "two") == [0]
    mount.hang()
    eventually(lambda: loop.folders._workers[mount.control].stuck_s() > 0.3, "that the folder hangs")
    yield loop
    mount.answer()


def _recorded(control: Path, gate: str, query: str) -> list[int]:
    return list(Ledger(control, gate, query).records())


def test_gates_of_another_folder_are_recorded_and_steered(
    gates: ControlLoop, mount: Mount, well: Path, batch: Callable[..., None]
) -> None:
    for number in range(1, 6):
        batch(mount.control, "g", "one", number)
        batch(well, "h", "two", number)
    eventually(lambda: _recorded(well, "h", "two") == list(range(6)), "the other folder's records")
    SettingsFile(well, "h").declare(GateSettings(rate=0.5))
    SettingsFile(well, "h").change(rate=0.25)
    plans = PlanStore(well, "h", "two")
    eventually(lambda: plans.current().default == 0.25, "the plan that people ask for")  # type: ignore[union-attr]
    assert _recorded(mount.control, "g", "one") == [0]
    mount.answer()
    eventually(lambda: len(_recorded(mount.control, "g", "one")) == 6, "what waited")
    assert _recorded(mount.control, "g", "one") == list(range(6)), "in order"


def test_whoever_waits_for_the_books_does_not_wait_for_ever(
    gates: ControlLoop, session: Session, mount: Mount, well: Path, batch: Callable[..., None],
    errors: Errors,
) -> None:  # fmt: skip
    batch(mount.control, "g", "one", 1)
    batch(well, "h", "two", 1)
    gates.drain()
    assert _recorded(well, "h", "two") == [0, 1]
    session.stop("one")
    session.stop("two")
    gates.drain()
    assert PlanStore(well, "h", "two").lease.holder().released  # type: ignore[union-attr]
    told = eventually(lambda: list(errors.told), "that somebody says so")
    assert len(told) == 1, "once"
    assert str(mount.control) in told[0]
    assert "has not answered" in told[0]
    gates.end()
    assert _recorded(mount.control, "g", "one") == [0]


def test_calls_go_on_in_other_folders(
    gates: ControlLoop, session: Session, well: Path, tmp_path: Path, batch: Callable[..., None]
) -> None:
    other = gates.register(GateSpec("i", tmp_path / "third", GateSettings(rate=0.5), Uniform()))
    session.start("three")
    batch(other.control, "i", "three", 0)
    gates.drain()
    assert _recorded(other.control, "i", "three") == [0]


def test_a_name_in_a_folder_that_hangs_is_judged_by_what_was_open_there(
    gates: ControlLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "_OPENING_S", 0.1)
    with pytest.raises(loop_module.BadArgument, match="gate 'g' is running in query one"):
        gates.register(GateSpec("g", tmp_path / "third", GateSettings(rate=0.5), Uniform()))


def _beat(lease: Lease) -> int:
    return lease.holder().beat  # type: ignore[union-attr]


def test_no_heartbeat_vouches_for_a_folder_whose_reports_nobody_takes_up(
    gates: ControlLoop, mount: Mount, well: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its leases can be written: it is one file that hangs."""
    hangs, goes_on = PlanStore(mount.control, "g", "one").lease, PlanStore(well, "h", "two").lease
    before = _beat(hangs)
    eventually(lambda: _beat(hangs) > before, "a heartbeat, for a while")
    monkeypatch.setattr(loop_module, "STUCK_S", 0.5)
    eventually(lambda: not gates._going_round(mount.control), "that it is stuck")
    time.sleep(0.1)
    before, other = _beat(hangs), _beat(goes_on)
    eventually(lambda: _beat(goes_on) > other + 5, "heartbeats of the other folder")
    assert _beat(hangs) == before
    mount.answer()
    eventually(lambda: _beat(hangs) > before, "heartbeats again")


def test_what_waits_for_a_folder_is_bounded_and_the_latest_is_kept(
    gates: ControlLoop, mount: Mount, well: Path, batch: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(lanes, "MOST_WAITING", 5)
    for number in range(1, 21):
        batch(mount.control, "g", "one", number)
        batch(well, "h", "two", number)  # takes nobody's place
    eventually(lambda: gates._seen["one"] == 20, "that all were heard of")
    assert len([r for r in caplog.records if "are given up" in r.getMessage()]) == 1, "once"
    assert sum(gates.folders._workers[mount.control].lanes.waiting.values()) < 10
    mount.answer()
    eventually(lambda: _recorded(mount.control, "g", "one")[-1] == 20, "the latest batch")
    assert _recorded(mount.control, "g", "one") == [0, 16, 17, 18, 19, 20]


def test_a_worker_ends_with_the_last_run_of_its_folder(
    loop: ControlLoop, session: Session, control: Path, batch: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(lanes, "_LINGER_S", 0.05)

    def workers() -> int:
        return loop.folders.worker(control).lanes._threads

    loop.register(GateSpec("g", control, GateSettings(rate=0.5), Uniform()))
    session.start("q")
    batch(control, "g", "q", 0)
    loop.drain()
    assert workers() > 0
    session.stop("q")
    loop.drain()
    eventually(lambda: workers() == 0, "the threads' end")
    session.start("q")
    batch(control, "g", "q", 1)
    loop.drain()
    assert _recorded(control, "g", "q") == [0, 1]
