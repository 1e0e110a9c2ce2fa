"""Who repays which batch: one process, and after its death one other; in a folder and in objects."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate.store.lease import GONE_S, Holder, this_process
from headgate.store.repaid.marks import marks_of
from headgate.store.repaid.slices import Given, Slices
from headgate.testing.clock import ManualClock
from tests.killed import killed_at

FILES = Given("files", "/lake/late", "parquet")
FUNCTION = Given("function")
#: A process that this machine knows to have ended, and one of another machine.
DEAD = replace(this_process(), owner="dead", pid=2**22 - 3, pid_started="1")
FAR = Holder("far", host="elsewhere", boot="another", pid=7)


def _slices(control: Path, me: Holder | None = None, clock: ManualClock | None = None) -> Slices:
    time = clock or ManualClock()
    return Slices(control, "g", "q", me=me, clock=time, sleep=time.sleep)


def test_a_batch_is_in_one_slice_and_its_mark_says_so(control: Path) -> None:
    ours, theirs = _slices(control), _slices(control, FAR)
    one = ours.take([1, 2, 3], FILES)
    assert one is not None
    assert one.batches == (1, 2, 3)
    two = theirs.take([2, 3, 4], FILES)
    assert two is not None
    assert two.batches == (4,)
    assert ours.take([1, 4], FILES) is None
    assert one.begin({1: 10, 3: 5})
    again = theirs.take([2], FILES)
    assert again is not None, "it began without batch 2, which is free again"
    assert again.batches == (2,)
    assert one.decide()
    one.mark({1: 10, 3: 5}, 0.5, 100.0)
    assert marks_of(control, "g", "q").rows() == {1: 10, 3: 5}
    assert _slices(control).take([1, 3], FILES) is None


def test_of_many_at_once_each_batch_has_one(control: Path) -> None:
    won: list[int] = []

    def work(number: int) -> None:
        me = replace(FAR, owner=f"w{number}")
        for first in range(0, 40, 5):
            got = _slices(control, me).take(range(first, first + 5), FILES)
            won.extend(got.batches if got is not None else ())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(40))


def _repays(control: Path, barrier: Any, answers: Any) -> None:
    """All that a backfill does with a slice, over and over, until nothing is free."""
    slices, mine = Slices(control, "g", "q"), []
    barrier.wait()
    for first in range(0, 60, 3):
        got = slices.take(range(first, first + 3), FILES)
        if got is not None and got.begin(dict.fromkeys(got.batches, 10)) and got.decide():
            got.mark(dict.fromkeys(got.batches, 10), 0.1, 100.0)
            mine += got.batches
    answers.put(mine)


def test_two_processes_that_repay_at_once_share_the_batches_and_double_none(control: Path) -> None:
    fork = multiprocessing.get_context("fork")
    barrier, answers = fork.Barrier(2), fork.Queue()
    both = [fork.Process(target=_repays, args=(control, barrier, answers)) for _ in range(2)]
    for one in both:
        one.start()
    told = [answers.get(timeout=120) for _ in both]
    for one in both:
        one.join()
    assert sorted([*told[0], *told[1]]) == list(range(60))
    assert marks_of(control, "g", "q").rows() == dict.fromkeys(range(60), 10)


def test_a_slice_that_begins_while_another_process_looks_around_keeps_its_batches(
    control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    us, listed = _slices(control), Slices._claims
    others = []

    def late() -> dict[int, int]:
        others.append(_slices(control, FAR).take([1], FILES))
        return listed(us)

    monkeypatch.setattr(us, "_claims", late)
    assert us.take([1], FILES) is None
    assert others[0] is not None
    assert others[0].batches == (1,)


def test_a_holder_that_only_slept_cannot_let_its_rows_count(control: Path) -> None:
    slow = _slices(control, FAR).take([1], FILES)
    assert slow is not None
    assert slow.begin({1: 3})
    us = _slices(control)
    (left,) = us.unfinished()
    assert not us.lives(left), "no beat in 20 s by this process's own clock"
    taken = us.take_over(left)
    assert taken is not None
    taken.give_up()
    assert not slow.decide()
    fresh = us.take([1], FILES)
    assert fresh is not None
    assert fresh.id != slow.id
    assert us.unfinished()[0].id == fresh.id


def test_one_that_was_given_up_before_it_began_cannot_begin(control: Path) -> None:
    slow = _slices(control, FAR).take([1], FUNCTION)
    assert slow is not None
    us = _slices(control)
    taken = us.take_over(us.unfinished()[0])
    assert taken is not None
    taken.give_up()
    assert not slow.begin({1: 3})


def test_rows_that_count_are_not_given_up(control: Path) -> None:
    one = _slices(control, DEAD).take([1], FILES)
    assert one is not None
    assert one.begin({1: 3})
    assert one.decide()
    us = _slices(control)
    (left,) = us.unfinished()
    assert left.decided == 1
    taken = us.take_over(left)
    assert taken is not None
    assert not taken.give_up()
    assert us.take([1], FILES) is None
    assert us.unfinished()[0].decided == 1


@pytest.mark.parametrize("given", [FUNCTION, Given("delta", "/lake/late", "delta")])
def test_what_may_have_rows_keeps_its_slice_though_it_began_while_others_looked(
    control: Path, given: Given
) -> None:
    slow = _slices(control, FAR).take([1], given)
    assert slow is not None
    us = _slices(control)
    (left,) = us.unfinished()
    assert slow.begin({1: 3}), "it may write from now on"
    taken = us.take_over(left)
    assert taken is not None
    assert not taken.give_up()
    assert us.take([1], given) is None, "never the same rows under another id"
    now = us.now(left)
    assert now is not None
    taken.resume(now)
    assert (taken.id, taken.batches, taken.shed) == (slow.id, (1,), {1: 3})


def test_a_dead_process_of_this_machine_is_known_at_once_and_one_takes_over(control: Path) -> None:
    dead = _slices(control, DEAD).take([5, 6], FUNCTION)
    assert dead is not None
    assert dead.begin({5: 1, 6: 2})
    clock = ManualClock()
    one, other = _slices(control, FAR, clock), _slices(control, None, clock)
    (left,) = one.unfinished()
    assert not one.lives(left)
    assert clock() == ManualClock()(), "nobody waited"
    first, second = one.take_over(left), other.take_over(left)
    assert first is not None
    assert second is None, "of two that saw it, one has it"
    assert (first.batches, first.id) == ((5, 6), dead.id), "the same slice, for the same function"


def test_a_beat_is_a_sign_of_life(control: Path) -> None:
    far = _slices(control, FAR).take([1], FILES)
    assert far is not None
    clock = ManualClock()
    began = clock()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if clock() - began > 5.0:
            far.beat()

    us = Slices(control, "g", "q", clock=clock, sleep=sleep)
    assert us.lives(us.unfinished()[0])
    assert clock() - began < GONE_S


def test_what_has_expired_is_forgotten(control: Path) -> None:
    us = _slices(control)
    for batches in ([1, 2], [8, 9]):
        one = us.take(batches, FILES)
        assert one is not None
        one.begin(dict.fromkeys(batches, 1))
        one.decide()
        one.mark(dict.fromkeys(batches, 1), 0.1, 1.0)
    assert us.forget_before(5) == 1
    assert marks_of(control, "g", "q").rows() == {8: 1, 9: 1}
    folder = control / "gates" / "g" / "queries" / "q" / "repaid"
    assert len(list((folder / "claims").glob("*.json"))) == 2
    assert len(list((folder / "slices").iterdir())) == 1


def _work(control: Path) -> None:
    """A process that repays two batches, one slice each."""
    for batch in (1, 2):
        one = Slices(control, "g", "q").take([batch], FILES)
        if one is not None and one.begin({batch: 4}) and one.decide():
            one.mark({batch: 4}, 0.1, 1.0)


def _steps() -> Iterator[int]:
    yield from range(1, 200, 4)


@pytest.mark.timeout(120)
def test_killed_at_every_step_the_next_one_ends_it(control: Path) -> None:
    """Whatever call a kill interrupts, a batch is either done, or in the hand of a process that is
    gone.
    """
    for step in _steps():
        folder = control / str(step)
        if not killed_at(step, lambda at=folder: _work(at)):  # type: ignore[misc]
            break
        us = _slices(folder)
        for left in us.unfinished():
            assert not us.lives(left)
            taken = us.take_over(left)
            assert taken is not None
            if left.decided is not None:  # its rows count: only the mark is missing
                taken.mark(left.shed(), 0.0, 1.0)
            else:
                taken.give_up()
        for batch in (1, 2):
            one = us.take([batch], FILES)
            if one is not None:
                assert one.begin({batch: 4})
                assert one.decide()
                one.mark({batch: 4}, 0.1, 1.0)
        assert marks_of(folder, "g", "q").rows() == {1: 4, 2: 4}, f"killed at step {step}"
    else:
        pytest.fail("it was never through")
    assert step > 20
    assert os.getpid() == this_process().pid
