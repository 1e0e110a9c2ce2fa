"""Leases: one owner at a time, known by its beats and by nobody's wall clock."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.errors import OwnedElsewhere
from headgate.store.lease import GONE_S, Holder, Lease, Watch, _machine, this_process

ROME = Holder("rome-driver", run="r1", host="rome", boot="b", pid=7, pid_started="1")
OSLO = Holder("oslo-driver", run="r2", host="oslo", boot="c", pid=7, pid_started="1")


class Clock:
    """Time that passes only while somebody sleeps; `meanwhile` happens then."""

    def __init__(self) -> None:
        self.now = 0.0
        self.meanwhile: Callable[[], object] = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lease(tmp_path: Path, clock: Clock) -> Lease:
    return Lease(tmp_path, clock=clock, sleep=clock.sleep)


def test_a_free_lease_is_taken_at_once_and_kept_by_its_owner(lease: Lease, clock: Clock) -> None:
    lease.claim(ROME, "gate 'g'")
    lease.claim(ROME, "gate 'g'")
    assert lease.beat(ROME)
    assert lease.beat(ROME)
    assert lease.holder() == replace(ROME, beat=2)
    assert clock.now == 0.0


def test_a_second_owner_is_refused_as_soon_as_the_first_one_beats(lease: Lease, clock: Clock) -> None:
    lease.claim(ROME, "gate 'g'")

    def beat_every_two_seconds() -> None:
        if clock.now % 2.0 == 0.0:
            lease.beat(ROME)

    clock.meanwhile = beat_every_two_seconds
    with pytest.raises(
        OwnedElsewhere, match=r"gate 'g' is steered by process 7 on rome, which is alive"
    ):
        lease.claim(OSLO, "gate 'g'")
    assert clock.now <= 4.0
    assert not lease.beat(OSLO)
    assert lease.holder().owner == "rome-driver"  # type: ignore[union-attr]


def test_one_that_is_gone_is_taken_over_after_a_while_and_must_notice(
    lease: Lease, clock: Clock
) -> None:
    lease.claim(ROME, "gate 'g'")
    lease.beat(ROME)
    lease.claim(OSLO, "gate 'g'")
    assert GONE_S <= clock.now <= GONE_S + 1
    assert lease.beat(OSLO)
    assert not lease.beat(ROME), "the first one, awake again, is told"


def test_one_that_was_heard_lately_is_not_taken_over_for_its_silence_before(
    lease: Lease, clock: Clock
) -> None:
    """A pause of 19 s, a beat, and it goes on: nothing of that is a silence of 20 s."""
    lease.claim(ROME, "gate 'g'")

    def wake_up_late() -> None:
        if clock.now >= GONE_S - 1.0 and clock.now % 2.0 == 1.0:
            lease.beat(ROME)

    clock.meanwhile = wake_up_late
    with pytest.raises(OwnedElsewhere, match="which is alive"):
        lease.claim(OSLO, "gate 'g'")
    assert lease.holder().owner == "rome-driver"  # type: ignore[union-attr]


def test_of_two_that_wait_for_a_dead_one_the_second_leaves_it_to_the_first(
    lease: Lease, clock: Clock, tmp_path: Path
) -> None:
    milan = Holder("milan-driver", run="r3", host="milan", boot="d", pid=9, pid_started="1")
    lease.claim(ROME, "gate 'g'")
    taken = Lease(tmp_path, clock=clock, sleep=clock.sleep)

    def take_over_just_before() -> None:
        if clock.now == GONE_S - 0.25:
            taken._write(milan)
        elif clock.now > GONE_S and clock.now % 2.0 == 0.0:
            taken.beat(milan)

    clock.meanwhile = take_over_just_before
    with pytest.raises(OwnedElsewhere, match="process 9 on milan"):
        lease.claim(OSLO, "gate 'g'")
    assert taken.beat(milan)


def test_of_two_that_take_it_over_at_one_moment_the_last_has_it_and_the_other_knows(
    lease: Lease, clock: Clock, tmp_path: Path
) -> None:
    milan = Holder("milan-driver", run="r3", host="milan", boot="d", pid=9, pid_started="1")
    lease.claim(ROME, "gate 'g'")
    other = Lease(tmp_path, clock=clock, sleep=clock.sleep)
    written = lease._write

    def and_milan_a_moment_later(holder: Holder) -> None:
        written(holder)
        if holder.owner == OSLO.owner:
            other._write(milan)

    lease._write = and_milan_a_moment_later  # type: ignore[method-assign]
    clock.meanwhile = lambda: clock.now > GONE_S and clock.now % 2.0 == 0.0 and other.beat(milan)
    with pytest.raises(OwnedElsewhere, match="process 9 on milan"):
        lease.claim(OSLO, "gate 'g'")
    assert other.beat(milan)


def test_one_that_released_it_is_followed_at_once(lease: Lease, clock: Clock) -> None:
    lease.claim(ROME, "gate 'g'")
    lease.release(OSLO)  # not theirs to give back
    assert not lease.holder().released  # type: ignore[union-attr]
    lease.release(ROME)
    lease.claim(OSLO, "gate 'g'")
    assert clock.now == 0.0


def test_a_killed_process_of_this_machine_is_followed_at_once(lease: Lease, clock: Clock) -> None:
    code = (
        "import json, dataclasses; from headgate.store.lease import this_process;"
        "print(json.dumps(dataclasses.asdict(this_process())), flush=True); import time; time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        import json

        other = Holder.from_json(json.loads(child.stdout.readline()))
        assert other is not None
        assert not other.surely_gone()
        lease.claim(other, "gate 'g'")
        child.kill()
        child.wait()
    lease.claim(this_process(), "gate 'g'")
    assert clock.now == 0.0
    assert lease.holder() == this_process()


def test_of_a_process_elsewhere_only_its_beats_are_known() -> None:
    assert not ROME.surely_gone()
    assert not this_process().surely_gone()
    assert replace(this_process(), pid_started="another one").surely_gone()


@pytest.mark.parametrize("wall", [-1e6, 0.0, 1e6])
def test_a_watch_counts_by_its_own_clock_alone(wall: float) -> None:
    now = [wall]
    watch = Watch(lambda: now[0])
    assert watch.silent_s("a", ROME) == 0.0
    now[0] += 30.0
    assert watch.silent_s("a", ROME) == 30.0
    assert watch.silent_s("a", replace(ROME, beat=1)) == 0.0
    assert watch.silent_s("b", ROME) == 0.0, "another lease"


def test_many_tasks_of_one_owner_claim_it_together(tmp_path: Path) -> None:
    failed = []

    def claim() -> None:
        try:
            Lease(tmp_path).claim(ROME, "gate 'g'")
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=claim) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert Lease(tmp_path).holder() == ROME


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}", '{"owner": 3}', "null"),
        *('{"owner": "a", "pid": "7"}', '{"owner": "a", "beat": null}', '{"owner": "a", "run": []}'),
        '{"owner": "../../a"}',
    ],
)
def test_what_is_no_lease_is_nobodys(tmp_path: Path, text: str) -> None:
    (tmp_path / "lease.json").write_text(text)
    lease = Lease(tmp_path)
    assert lease.holder() is None
    lease.claim(ROME, "gate 'g'")
    assert lease.holder() == ROME


def test_a_last_word_before_it_is_given_back_refuses_nobody(lease: Lease, clock: Clock) -> None:
    lease.claim(ROME, "gate 'g'")

    def say_goodbye() -> None:
        if clock.now == 1.0:
            lease.beat(ROME)
        if clock.now == 2.0:
            lease.release(ROME)

    clock.meanwhile = say_goodbye
    lease.claim(OSLO, "gate 'g'")
    assert clock.now <= 2.5


def test_the_late_end_of_one_run_leaves_the_next_ones_lease(lease: Lease) -> None:
    first, second = replace(ROME, run="r1"), replace(ROME, run="r2")
    lease.claim(first, "gate 'g'")
    lease.claim(second, "gate 'g'")
    lease.release(ROME, "r1")
    assert lease.alive()
    lease.release(ROME, "r2")
    assert not lease.alive()
    lease.claim(second, "gate 'g'")
    assert not lease.alive(), "workers of a run whose loop has ended do not speak for it"
    lease.claim(replace(ROME, run="r3"), "gate 'g'")
    assert lease.alive()


def test_a_worker_without_a_memory_judges_by_the_age_of_the_file(tmp_path: Path) -> None:
    lease = Lease(tmp_path)
    lease.claim(ROME, "gate 'g'")
    assert Lease(tmp_path).alive()
    long_ago = (tmp_path / "lease.json").stat().st_mtime - 60
    os.utime(tmp_path / "lease.json", (long_ago, long_ago))
    assert not Lease(tmp_path).alive()
    assert [p.name for p in tmp_path.iterdir()] == ["lease.json"]


def test_a_query_that_begins_again_after_a_pause_finds_its_driver_alive(tmp_path: Path) -> None:
    """A worker has heard nothing of the lease meanwhile: nothing was to be heard."""
    now = [0.0]
    watch = Watch(lambda: now[0])
    first, second = replace(ROME, run="r1"), replace(ROME, run="r2")
    lease = Lease(tmp_path, watch)
    lease.claim(first, "gate 'g'")
    assert lease.alive(look=False)
    lease.release(ROME, "r1")
    now[0] += 3 * GONE_S
    again = Lease(tmp_path, watch)
    again.claim(second, "gate 'g'")
    assert again.alive(look=False)
    now[0] += GONE_S
    assert not again.alive(), "it has said nothing since"


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Takes this process for one in a container of this name, on the same host and boot."""
    real = os.readlink

    def put(name: str) -> None:
        def readlink(path: str) -> str:
            return f"pid:[{name}]" if str(path) == "/proc/self/ns/pid" else real(path)

        monkeypatch.setattr(os, "readlink", readlink)
        _machine.cache_clear()

    yield put
    monkeypatch.undo()
    _machine.cache_clear()


def test_numbers_of_processes_say_nothing_of_another_container(
    container: Callable[[str], None],
) -> None:
    if not Path("/proc/self/ns/pid").exists():
        pytest.skip("process numbers have no namespaces here")
    container("one")
    host, boot = _machine()
    ended = Holder("driver", host=host, boot=boot, pid=2**22 + 1, pid_started="1")
    assert ended.surely_gone(), "seen from where it ran"
    container("two")
    assert not ended.surely_gone(), "its number is another one's here, or nobody's"


def test_a_number_that_no_process_can_have_says_nothing() -> None:
    host, boot = _machine()
    assert not Holder("driver", host=host, boot=boot or "b", pid=2**80).surely_gone()
