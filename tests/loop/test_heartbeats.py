"""Heartbeats: a thread for each control folder, only as long as there is something to beat for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate.spark.loop import heart
from headgate.spark.loop.heartbeats import Heartbeats
from headgate.store import lease as lease_module
from headgate.store.lease import Holder, Lease, this_process
from headgate.store.plans import PlanStore
from tests.eventually import eventually

ROME = Holder("rome-driver", run="r1", host="rome", boot="b", pid=7, pid_started="1")
ME = replace(this_process(), run="mine")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heart, "BEAT_S", 0.01)


@pytest.fixture
def hearts() -> Iterator[Heartbeats]:
    found = Heartbeats(lambda _: True)
    yield found
    found.stop()


def _lease(control: Path, query: str = "q") -> Lease:
    return PlanStore(control, "g", query).lease


def _beat_of(lease: Lease) -> int:
    holder = lease.holder()
    return -1 if holder is None or holder.owner != ME.owner else holder.beat


def _beats(lease: Lease) -> None:
    before = _beat_of(lease)
    eventually(lambda: _beat_of(lease) > before + 2, "three more beats")


def _threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "headgate-heartbeats"]


@pytest.fixture
def stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Set once somebody waits for the folder "hangs", whose writing never returns."""
    waits, goes_on = threading.Event(), threading.Event()
    real = lease_module.write_json  # type: ignore[attr-defined]

    def write(path: Path, *given: Any, **named: Any) -> None:
        if (tmp_path / "hangs") in path.parents and threading.current_thread() in _threads():
            waits.set()
            goes_on.wait()
        real(path, *given, **named)

    monkeypatch.setattr(lease_module, "write_json", write)
    yield waits
    goes_on.set()


def test_a_folder_that_hangs_silences_its_own_gates_alone(
    tmp_path: Path, hearts: Heartbeats, stuck: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.spark.loop.heartbeats._WAIT_S", 0.05)
    hangs, well = _lease(tmp_path / "hangs"), _lease(tmp_path / "well")
    for control, lease in ((tmp_path / "hangs", hangs), (tmp_path / "well", well)):
        lease.claim(ME, "gate 'g'")
        hearts.steer(control, "g", "q")
    assert stuck.wait(20)
    _beats(well)
    assert _beat_of(hangs) == 0
    # Nothing that the loop asks of it waits for the folder either.
    hearts.steer(tmp_path / "hangs", "g", "q2")
    hearts.silence("g", "q2")
    assert not hearts.lost("g", "q2")
    hearts.end("q2")
    _beats(well)


def test_a_thread_ends_with_the_last_gate_and_another_begins(tmp_path: Path, hearts: Heartbeats) -> None:
    lease, other = _lease(tmp_path), _lease(tmp_path, "other")
    before = len(_threads())
    for query, of in (("q", lease), ("other", other)):
        of.claim(ME, "gate 'g'")
        hearts.steer(tmp_path, "g", query)
    assert len(_threads()) == before + 1, "one folder, one thread"
    assert all(thread.daemon for thread in _threads())
    _beats(lease)
    hearts.end("q")
    assert lease.holder().released  # type: ignore[union-attr]
    _beats(other)
    assert lease.holder().released, "no beat behind the back of its end"  # type: ignore[union-attr]
    hearts.end("other")
    eventually(lambda: len(_threads()) == before, "the thread's end")
    assert not hearts._hearts, "nothing is left of the folder"
    hearts.steer(tmp_path, "g", "q")
    _beats(lease)


def test_a_lease_that_stays_away_is_forgotten_and_a_report_brings_it_back(
    tmp_path: Path, hearts: Heartbeats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heart, "_PATIENCE", 5)
    lease = _lease(tmp_path)
    hearts.steer(tmp_path, "g", "q")
    time.sleep(0.2)
    assert hearts._hearts[tmp_path].steers(None), "a gate that no batch has come to is waited for"
    lease.claim(ME, "gate 'g'")
    _beats(lease)
    path = tmp_path / "gates" / "g" / "queries" / "q" / "lease.json"

    def forgotten() -> bool:
        path.unlink(missing_ok=True)  # a beat that was under way writes it once more
        return not hearts._hearts[tmp_path].steers(None)

    eventually(forgotten, "that it is forgotten")
    lease.claim(ME, "gate 'g'")
    hearts.steer(tmp_path, "g", "q")
    _beats(lease)


def test_a_silenced_gate_is_silent_until_it_is_not(tmp_path: Path, hearts: Heartbeats) -> None:
    lease = _lease(tmp_path)
    lease.claim(ME, "gate 'g'")
    hearts.steer(tmp_path, "g", "q")
    _beats(lease)
    hearts.silence("g", "q")
    time.sleep(0.1)
    before = _beat_of(lease)
    time.sleep(0.1)
    assert _beat_of(lease) == before
    hearts.silence("g", "q", silent=False)
    _beats(lease)


def test_a_lost_lease_that_comes_back_is_ours_again(tmp_path: Path, hearts: Heartbeats) -> None:
    lease = _lease(tmp_path)
    lease.claim(ME, "gate 'g'")
    hearts.steer(tmp_path, "g", "q")
    _beats(lease)

    def taken() -> bool:  # again, should a beat that was under way have come after it
        lease._write(ROME)
        return hearts.lost("g", "q")

    eventually(taken, "that it is lost")
    lease._write(replace(ROME, beat=1))
    time.sleep(0.1)
    assert lease.holder() == replace(ROME, beat=1), "it is left to the other one"
    lease._write(ME)  # our workers, when that one was gone
    eventually(lambda: not hearts.lost("g", "q"), "that it is ours again")
    _beats(lease)
