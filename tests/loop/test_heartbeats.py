"""Heartbeats: a thread for each control folder, only as long as there is something to beat for."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate.spark.loop import heart
from headgate.spark.loop.heartbeats import Heartbeats
from headgate.store import beats as beats_module
from headgate.store.beats import Beat, DriverFile, beats_place, heard_of
from headgate.store.lease import GONE_S, Holder, Lease, Watch, this_process
from headgate.store.places.objects import Objects
from headgate.store.places.place import ObjectPath
from headgate.store.plans import PlanStore
from tests.eventually import eventually
from tests.harness.object_stores import memory as memory

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
    real = beats_module.write_json  # type: ignore[attr-defined]

    def write(path: Path, *given: Any, **named: Any) -> None:
        if (tmp_path / "hangs") in path.parents and threading.current_thread() in _threads():
            waits.set()
            goes_on.wait()
        real(path, *given, **named)

    monkeypatch.setattr(beats_module, "write_json", write)
    yield waits
    goes_on.set()


def test_a_folder_that_hangs_silences_its_own_gates_alone(
    tmp_path: Path, hearts: Heartbeats, stuck: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.spark.loop.heartbeats._WAIT_S", 0.05)
    hangs, well = _lease(tmp_path / "hangs"), _lease(tmp_path / "well")
    for control, lease in ((tmp_path / "hangs", hangs), (tmp_path / "well", well)):
        lease.claim(ME, "gate 'g'")
        hearts.steer(control, "q")
    assert stuck.wait(20)
    _beats(well)
    assert _beat_of(hangs) == 0
    # Nothing that the loop asks of it waits for the folder either.
    hearts.steer(tmp_path / "hangs", "q2")
    hearts.silence("g", "q2")
    assert not hearts.lost("g", "q2")
    hearts.end("q2")
    _beats(well)


def test_a_thread_ends_with_the_last_gate_and_another_begins(tmp_path: Path, hearts: Heartbeats) -> None:
    lease, other = _lease(tmp_path), _lease(tmp_path, "other")
    before = len(_threads())
    for query, of in (("q", lease), ("other", other)):
        of.claim(ME, "gate 'g'")
        hearts.steer(tmp_path, query)
        hearts.meet(tmp_path, "g", query)
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
    assert not list((tmp_path / "drivers").iterdir()), "nor of the driver's word"
    lease.claim(replace(ME, run="another"), "gate 'g'")
    hearts.steer(tmp_path, "q")
    _beats(lease)


def test_a_query_is_spoken_for_before_its_first_gate_has_a_lease(
    tmp_path: Path, hearts: Heartbeats
) -> None:
    lease = _lease(tmp_path)
    hearts.steer(tmp_path, "q")
    eventually(lambda: list((tmp_path / "drivers").glob("*.json")), "the driver's word")
    assert lease.holder() is None
    lease.claim(ME, "gate 'g'")
    _beats(lease)
    lease.place.unlink()  # type: ignore[union-attr]
    lease.claim(ME, "gate 'g'")
    _beats(lease)


def test_a_silenced_gate_is_silent_until_it_is_not(tmp_path: Path, hearts: Heartbeats) -> None:
    lease = _lease(tmp_path)
    lease.claim(ME, "gate 'g'")
    hearts.steer(tmp_path, "q")
    _beats(lease)
    hearts.silence("g", "q")
    time.sleep(0.1)
    before = _beat_of(lease)
    time.sleep(0.1)
    assert _beat_of(lease) == before
    other = PlanStore(tmp_path, "h", "q").lease
    other.claim(ME, "gate 'h'")
    _beats(other)
    assert _beat_of(lease) == before, "of the same query, and not silenced"
    hearts.silence("g", "q", silent=False)
    _beats(lease)


def test_a_worker_without_a_memory_sees_how_long_a_gate_has_been_silent(
    tmp_path: Path, hearts: Heartbeats
) -> None:
    """The driver writes its file all the time, for the others."""
    _lease(tmp_path).claim(ME, "gate 'g'")
    driver = DriverFile(tmp_path, ME.owner)
    driver.say(1, {"q": Beat(7, 0.0)}, {})
    assert _lease(tmp_path).alive()
    driver.say(1, {"q": Beat(7, 0.0)}, {("q", "g"): Beat(5, GONE_S + 1.0)})
    long_ago = time.time() - 60
    os.utime(tmp_path / "gates" / "g" / "queries" / "q" / "lease.json", (long_ago, long_ago))
    assert not _lease(tmp_path).alive()
    driver.say(1, {"q": Beat(8, GONE_S + 1.0)}, {})
    assert not _lease(tmp_path).alive(), "its loop is stuck, and that of another session is not"


def test_the_beats_of_five_hundred_gates_are_one_request(
    memory: ObjectPath, hearts: Heartbeats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 20 ms a request a put for each gate takes ten seconds, and workers give a driver twenty."""
    puts: list[str] = []
    real = Objects.put
    monkeypatch.setattr(
        Objects, "put", lambda self, at, *a, **n: (puts.append(str(at)), real(self, at, *a, **n))[1]
    )
    leases = {}
    for number in range(500):
        query = f"q{number % 100}"
        leases[number] = PlanStore(memory, f"g{number}", query).lease
        leases[number].claim(ME, "gate")
        hearts.steer(memory, query)
        hearts.meet(memory, f"g{number}", query)
    before = {number: _beat_of(lease) for number, lease in leases.items()}
    puts.clear()
    beats = beats_place(memory, ME.owner)
    eventually(lambda: puts.count(str(beats)) >= 2, "two turns")
    assert set(puts) == {str(beats)}, "whatever the number of gates"
    for number, lease in leases.items():
        assert _beat_of(lease) > before[number]


def test_leases_are_given_back_with_one_word_for_the_others(
    memory: ObjectPath, hearts: Heartbeats
) -> None:
    """Those of a query that has reported nothing, too: it may have failed in its first batch."""
    for query in ("reports", "fails"):
        for gate in ("a", "b"):
            PlanStore(memory, gate, query).lease.claim(ME, "gate")
        hearts.steer(memory, query)
    PlanStore(memory, "c", "fails").lease.claim(ROME, "gate")
    hearts.meet(memory, "a", "reports")
    hearts.end("fails", "mine", memory, failed=True, gates=["a", "b", "c"])
    hearts.end("reports", "another run", memory, gates=["a", "b", "c"])
    holders = {
        (gate, query): PlanStore(memory, gate, query).lease.holder()
        for gate, query in (("a", "fails"), ("b", "fails"), ("c", "fails"), ("a", "reports"))
    }
    assert all(holders[gate, "fails"].released and holders[gate, "fails"].failed for gate in "ab")  # type: ignore[union-attr]
    assert holders["c", "fails"] == ROME, "not ours to give back"
    assert not holders["a", "reports"].released, "the next run has it"  # type: ignore[union-attr]


def test_a_driver_of_an_earlier_version_beats_in_its_leases(tmp_path: Path) -> None:
    lease = _lease(tmp_path)
    lease.claim(ROME, "gate 'g'")
    for count in (1, 2):
        assert lease.beat(ROME)
        assert lease.holder() == replace(ROME, beat=count)
    (tmp_path / "drivers").mkdir()
    for text in ("", "{", "[]", '{"v": 1}', '{"v": 1, "queries": {"q": 3}, "silent": {}}', '{"v": 99}'):
        (tmp_path / "drivers" / f"{ROME.owner}.json").write_text(text)
        assert lease.holder() == replace(ROME, beat=2), "what cannot be read says nothing"
        assert lease.alive()


def test_what_drivers_left_that_were_killed_long_ago_is_removed(tmp_path: Path) -> None:
    old, young = (beats_place(tmp_path, name) for name in ("killed", "alive"))
    for place in (old, young):
        DriverFile(tmp_path, place.stem).say(1, {"q": Beat(1)}, {})
    os.utime(str(old), (time.time() - 90 * 86_400,) * 2)
    DriverFile(tmp_path, "me").say(1, {"q": Beat(1)}, {})
    assert sorted(p.stem for p in (tmp_path / "drivers").glob("*.json")) == ["alive", "me"]


def test_a_lost_lease_that_comes_back_is_ours_again(tmp_path: Path, hearts: Heartbeats) -> None:
    lease = _lease(tmp_path)
    lease.claim(ME, "gate 'g'")
    hearts.steer(tmp_path, "q")
    hearts.meet(tmp_path, "g", "q")
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


_ENDS = """
import atexit
from obstore.store import MemoryStore
from headgate.spark.loop.heartbeats import Heartbeats
from headgate.store.lease import this_process
from headgate.store.places.objects import Objects
from headgate.store.places.place import place_from
from headgate.store.plans import PlanStore

Objects.serve("memory://ends", MemoryStore())
control, hearts = place_from("memory://ends/control"), Heartbeats(lambda _: True)
leases = [PlanStore(control, gate, "q").lease for gate in ("a", "b")]

def end():
    hearts.stop()
    print([lease.holder().released for lease in leases])

atexit.register(end)
hearts.steer(control, "q")
for gate, lease in zip(("a", "b"), leases):
    lease.claim(this_process(), "gate")
    hearts.meet(control, gate, "q")
"""


def test_a_process_that_ends_gives_the_leases_of_all_its_gates_back() -> None:
    """At its end Python takes no more work for pools of threads: reading many at once does without."""
    done = subprocess.run([sys.executable, "-c", _ENDS], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[True, True]", "")


def test_whatever_is_wrong_with_a_look_ends_nobodys_heartbeat(
    tmp_path: Path, hearts: Heartbeats, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = _lease(tmp_path)
    lease.claim(ME, "gate 'g'")

    def unforeseen(*_: object) -> None:
        raise KeyError("nobody thought of this")

    monkeypatch.setattr(heart, "own_holder", unforeseen)
    hearts.steer(tmp_path, "q")
    hearts.meet(tmp_path, "g", "q")
    eventually(lambda: "looking at leases" in caplog.text, "a look")
    _beats(lease)
    assert caplog.text.count("looking at leases") == 1, "said once, and not every two seconds"
    hearts.end("q")
    assert lease.holder().released  # type: ignore[union-attr]


@pytest.mark.parametrize(("gates", "turns"), [(40, 1), (500, 8)])
def test_a_look_at_the_leases_of_a_slow_folder_keeps_no_beat_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gates: int, turns: int
) -> None:
    """On a mount that takes 40 ms for a file, five hundred in one turn are as long as a dead driver."""
    looked: list[list[Path]] = []

    class Mount:
        def get_all(self, places: list[Path]) -> list[None]:
            looked.append(places)
            return [None] * len(places)

    monkeypatch.setattr(heart, "store_of", lambda _: Mount())
    found = heart.Heart(tmp_path, lambda: True)
    for number in range(gates):
        found.meet((f"g{number}", "q"))
    for _ in range(turns):
        found._look()
    assert max(map(len, looked)) <= 64
    assert len({place for places in looked for place in places}) == gates, "all of them in some turns"


def test_control_stores_that_were_used_once_are_not_remembered(
    tmp_path: Path, hearts: Heartbeats
) -> None:
    """A join without ``control=`` has a folder of its own, and a notebook builds one after the other."""
    before = len(DriverFile._of_process)
    for number in range(3):
        hearts.steer(tmp_path / str(number), "q")
    hearts.end("q")
    gc.collect()
    eventually(lambda: len(DriverFile._of_process) <= before, "that nothing is left of them")


def test_a_query_that_begins_again_has_counts_that_nobody_has_seen(
    tmp_path: Path, hearts: Heartbeats
) -> None:
    """A worker that saw the same count an hour ago, in the run before, would take it for silence."""
    lease, worker = _lease(tmp_path), Watch(clock := Ticks())
    lease.claim(ME, "gate 'g'")
    seen: set[int] = set()
    for run in ("one", "two", "three"):
        hearts.steer(tmp_path, "q")
        lease.claim(replace(ME, run=run), "gate 'g'")  # by a task of another worker
        counts = {_vouched_count(tmp_path, "q") for _ in range(5)}
        assert not counts & seen, run
        holder = lease.holder()
        assert holder is not None
        assert worker.silent_s("lease", holder) == 0.0
        seen |= counts
        hearts.end("q", run)
        clock.now += 3600.0


class Ticks:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _vouched_count(control: Path, query: str) -> int:
    """What the driver says next of the query."""
    found: list[int] = []

    def said() -> bool:
        heard = heard_of(control, ME.owner)
        found[:] = [] if heard is None or query not in heard.queries else [heard.queries[query].count]
        return bool(found)

    eventually(said, "the driver's word")
    return found[0]
