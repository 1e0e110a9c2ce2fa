"""Steps that threads do: those of one lane in order, those of several lanes beside each other.

A control folder's lanes are its queries. What a batch's report means is a handful of reads and writes in
the folder, each of which waits for a disk or a server; a hundred queries that waited for each other's
would fall behind by minutes. Within a query the order counts.

Threads begin when there is something to do. One stays as long as it is told to, the others end when
there has been nothing for them for a while.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["AT_ONCE", "HANGS_S", "MOST_WAITING", "Lanes"]

log = logging.getLogger("headgate")

#: Steps that are done beside each other: enough to hide the way to a server, and few for a driver that
#: has many folders.
AT_ONCE = 16
#: A folder that has kept a thread for so long hangs.
HANGS_S = 20.0
#: Reports that wait for a folder at most; the oldest go first, and their batches show as unsettled.
MOST_WAITING = 1000
#: A thread beyond the first waits so long for more to do.
_LINGER_S = 5.0


@dataclass(frozen=True)
class _Step:
    """Something to do; a report may be given up if too many wait."""

    number: int
    act: Callable[[], object]
    report: bool = False


class Lanes:
    """The steps of one folder; `keeps` says whether a thread is to stay when there is nothing to do."""

    def __init__(self, whose: object, keeps: Callable[[], bool], at_once: int = AT_ONCE) -> None:
        self._whose, self._keeps, self._at_once = whose, keeps, at_once
        # The lock is never held while a step is done. Whoever waits for steps to be done waits for
        # `changed`, threads without a step for `_work`.
        lock = threading.RLock()
        self.changed, self._work = threading.Condition(lock), threading.Condition(lock)
        self._waiting: dict[str, deque[_Step]] = {}
        #: Lanes with something to do that no thread is at, the longest wait first.
        self._ready: deque[str] = deque()
        self._busy: set[str] = set()
        self._began: dict[int, float] = {}
        #: Steps that were left here and are neither done nor given up, in order.
        self._open: dict[int, None] = {}
        self._left = self._reports = self._threads = self._idle = 0
        self._said_full = False

    def post(self, lane: str, act: Callable[[], object], report: bool = False) -> None:
        """Have this done behind all that is in the lane; does not wait."""
        with self.changed:
            self._left += 1
            self._open[self._left] = None
            self._reports += report
            self._waiting.setdefault(lane, deque()).append(_Step(self._left, act, report))
            if lane not in self._busy and len(self._waiting[lane]) == 1:
                self._ready.append(lane)
            if self._reports > MOST_WAITING:
                self._give_up_oldest()
            self._begin_if_needed()
            self._work.notify()

    @property
    def all_done(self) -> bool:
        """Whether nothing waits, and nothing is being done."""
        with self.changed:
            return not self._open

    @property
    def waiting(self) -> dict[str, int]:
        """How many steps wait, by lane."""
        with self.changed:
            return {lane: len(steps) for lane, steps in self._waiting.items() if steps}

    def stuck_s(self) -> float:
        """For how long the slowest thread has been at what it does now."""
        with self.changed:
            began = min(self._began.values(), default=None)
        return 0.0 if began is None else time.monotonic() - began

    def wait(self, at_most_s: float | None = None) -> bool:
        """Return when all that was left here so far is done; False where the folder hangs.

        `at_most_s` is for whoever cannot wait for a folder that is only slow, either.
        """
        until = None if at_most_s is None else time.monotonic() + at_most_s
        with self.changed:
            asked = self._left
            if not self._threads:  # none can be begun any more: the process is about to end
                while self._ready:
                    self._do_next()
            while next(iter(self._open), asked + 1) <= asked:
                began = min(self._began.values(), default=None)
                left_s = HANGS_S - (0.0 if began is None else time.monotonic() - began)
                if until is not None:
                    left_s = min(left_s, until - time.monotonic())
                if left_s <= 0.0:
                    return False
                self.changed.wait(left_s)
            return True

    # The threads.

    def _begin_if_needed(self) -> None:
        if len(self._ready) <= self._idle or self._threads >= self._at_once:
            return
        thread = threading.Thread(target=self._run, name="headgate-folder", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # at the interpreter's end no thread can be begun: `wait` does the work
            return
        self._threads += 1

    def _run(self) -> None:
        with self.changed:
            worked = time.monotonic()
            while True:
                while self._ready:
                    self._do_next()
                    worked = time.monotonic()
                if not self._open:
                    self._said_full = False
                last, idle_s = self._threads == 1, time.monotonic() - worked
                if (not last and idle_s >= _LINGER_S) or (last and not self._open and not self._keeps()):
                    break
                self._idle += 1
                self._work.wait(None if last else _LINGER_S - idle_s)
                self._idle -= 1
            self._threads -= 1
            self._work.notify()  # whoever is left may be the last one now

    def _do_next(self) -> None:
        """Do the first step of a lane; the lock is held before and after, and not meanwhile."""
        lane = self._ready.popleft()
        step = self._waiting[lane].popleft()
        self._busy.add(lane)
        self._reports -= step.report
        self._began[step.number] = time.monotonic()
        self._begin_if_needed()
        self.changed.release()
        try:
            step.act()
        except (Exception, SystemExit) as error:  # its parts say what failed: nobody foresaw this one
            log.warning("the control loop failed in folder %s: %s", self._whose, error)
        finally:
            self.changed.acquire()
            self._busy.discard(lane)
            if self._waiting.get(lane):
                self._ready.append(lane)
                self._work.notify()
            else:
                self._waiting.pop(lane, None)
            del self._began[step.number]
            del self._open[step.number]
            self.changed.notify_all()

    def _give_up_oldest(self) -> None:
        """Drop the report that has waited for longest."""
        reports = (
            (step.number, lane) for lane, of in self._waiting.items() for step in of if step.report
        )
        number, lane = min(reports)
        steps = self._waiting[lane]
        steps.remove(next(step for step in steps if step.number == number))
        self._reports -= 1
        del self._open[number]
        if not steps and lane in self._ready:
            self._ready.remove(lane)
        if not self._said_full:
            self._said_full = True
            log.error(
                "the control folder %s hangs and %d reports of batches wait for it: older ones are "
                "given up, and their batches show as unsettled (headgate recount settles them)",
                self._whose, MOST_WAITING,
            )  # fmt: skip
