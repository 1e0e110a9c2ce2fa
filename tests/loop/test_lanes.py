"""Steps of one lane in order, those of several lanes beside each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from headgate.spark.loop import lanes as lanes_module
from headgate.spark.loop.lanes import Lanes
from tests.eventually import eventually


@pytest.fixture
def goes_on() -> Iterator[threading.Event]:
    found = threading.Event()
    yield found
    found.set()


def test_a_lane_keeps_its_order_and_waits_for_no_other(goes_on: threading.Event) -> None:
    lanes, done = Lanes("a folder", lambda: False), []
    lanes.post("slow", goes_on.wait)
    for number in range(100):
        lanes.post("slow", lambda n=number: done.append(("slow", n)))
        lanes.post("quick", lambda n=number: done.append(("quick", n)))
    eventually(lambda: len(done) == 100, "the other lane")
    assert {lane for lane, _ in done} == {"quick"}
    assert not lanes.all_done
    goes_on.set()
    assert lanes.wait()
    for lane in ("slow", "quick"):
        assert [n for of, n in done if of == lane] == list(range(100))
    assert lanes.all_done


def test_threads_are_few_however_many_lanes_there_are(goes_on: threading.Event) -> None:
    lanes = Lanes("a folder", lambda: False, at_once=4)
    at, most, lock = [0], [0], threading.Lock()

    def work() -> None:
        with lock:
            at[0] += 1
            most[0] = max(most[0], at[0])
        goes_on.wait(0.01)
        with lock:
            at[0] -= 1

    for number in range(100):
        lanes.post(f"lane {number}", work)
    assert lanes.wait()
    assert most[0] == 4
    assert lanes._threads <= 4


def test_threads_end_when_nothing_is_left_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "_LINGER_S", 0.01)
    keeps = [True]
    lanes = Lanes("a folder", lambda: keeps[0])
    for number in range(20):
        lanes.post(f"lane {number}", lambda: None)
    assert lanes.wait()
    eventually(lambda: lanes._threads == 1, "that one is left")
    keeps[0] = False
    lanes.post("the last", lambda: None)
    eventually(lambda: lanes._threads == 0, "that none is left")
    done: list[int] = []
    lanes.post("again", lambda: done.append(1))
    assert lanes.wait()
    assert done


def test_whoever_waits_waits_for_what_was_left_before_and_not_for_ever(
    goes_on: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = Lanes("a folder", lambda: False)
    lanes.post("hangs", goes_on.wait)
    assert not lanes.wait(0.05)
    monkeypatch.setattr(lanes_module, "HANGS_S", 0.05)
    eventually(lambda: not lanes.wait(), "that it hangs")
    goes_on.set()
    monkeypatch.undo()
    assert lanes.wait()


def test_a_step_that_fails_ends_no_thread_and_no_lane() -> None:
    lanes, done = Lanes("a folder", lambda: False), []

    def fail() -> None:
        raise SystemExit(3)

    lanes.post("q", fail)
    lanes.post("q", lambda: done.append(1))
    assert lanes.wait()
    assert done == [1]


def test_too_many_reports_are_given_up_the_oldest_first_over_all_lanes(
    goes_on: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes_module, "MOST_WAITING", 4)
    lanes, done = Lanes("a folder", lambda: False, at_once=1), []
    lanes.post("a", goes_on.wait)
    eventually(lambda: not lanes.waiting, "that the thread is at it")
    for number in range(10):
        lanes.post("ab"[number % 2], lambda n=number: done.append(n), report=True)
    lanes.post("b", lambda: done.append(-1))
    goes_on.set()
    assert lanes.wait()
    assert sorted(done) == [-1, 6, 7, 8, 9]
    assert lanes.all_done
