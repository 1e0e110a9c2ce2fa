"""The runs of one control folder, and the thread that reads and writes there for them, and nobody else.

The control loop hears of batches for all folders; what a report means for a gate is files in the gate's
own folder. A mount that hangs must not keep other folders' gates waiting, so each folder has a thread,
which takes up in order what the loop leaves for it. Nothing that the loop asks of a worker waits for the
folder, but for `wait`, and that has an end.

The thread begins when there is something to do, and ends when the folder has no run any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from headgate.run.faults import TOO_MANY_FAULTS
from headgate.run.report import Report
from headgate.run.run import Run
from headgate.run.spec import Spec
from headgate.spark.loop.fault_log import FaultLog
from headgate.spark.loop.heartbeats import Heartbeats
from headgate.store.folder import is_used
from headgate.store.places.place import Place
from headgate.store.plans import PlanStore
from headgate.store.query_facts import forget_query, tell_checkpoint

__all__ = ["HANGS_S", "MOST_WAITING", "FolderWorker", "Key"]

log = logging.getLogger("headgate")

#: A gate, and a query that it is in.
Key = tuple[str, str]
#: A folder that has kept a thread for so long hangs.
HANGS_S = 20.0
#: Reports that wait for a folder at most; the oldest go first, and their batches show as unsettled.
MOST_WAITING = 1000


@dataclass(frozen=True)
class _Step:
    """Something to do; a report may be given up if too many wait."""

    act: Callable[[], object]
    report: bool = False


class FolderWorker:
    """Whoever has a gate, a guard, a join or a result in this folder is served here."""

    def __init__(self, control: Place, heartbeats: Heartbeats) -> None:
        self.control, self._heartbeats = control, heartbeats
        #: The thread alone opens, changes and closes them; others look under the lock.
        self._runs: dict[Key, Run[Any, Any]] = {}
        self._failed: dict[Key, int] = {}
        #: Queries whose checkpoints are noted in the folder.
        self._noted: set[str] = set()
        self.faults = FaultLog("the control loop")
        # The lock is never held while a file is read or written.
        self._changed = threading.Condition()
        self._steps: deque[_Step] = deque()
        self._reports = 0
        self._thread: threading.Thread | None = None
        #: Steps that were left here, and those that are done or given up.
        self._left = self._done = 0
        self._began: float | None = None
        self._refreshing = self._said_hangs = self._said_full = False

    # What the loop asks: none of it waits.

    def tell_checkpoint(self, query: str, location: str) -> None:
        """Leave the place of a query's checkpoint for its workers: how large a batch is stands there."""

        def act() -> None:
            tell_checkpoint(self.control, query, location)
            self._noted.add(query)

        self._post(lambda: self.faults.do("telling where a checkpoint is", act))

    def open_known(self, spec: Spec, query: str) -> None:
        """Take up a query that ran behind this one before, where it stood; pass over any other."""

        def act() -> None:
            if is_used(PlanStore(self.control, spec.name, query).folder):
                self._open(spec, query)

        self._post(lambda: self.faults.do(f"opening {spec.name!r}", act))

    def open(self, spec: Spec, query: str) -> None:
        """The query is behind this one, from now on."""
        self._post(lambda: self.faults.do(f"opening {spec.name!r}", lambda: self._open(spec, query)))

    def report(self, spec: Spec, query: str, report: Report, beside: Mapping[str, Report]) -> None:
        """A batch ended at this one; `beside` are the reports of the same batch."""

        def act() -> None:
            self._handle(spec, query, report, beside)

        self._post(lambda: self.faults.do(f"gate {spec.name!r}", act), report=True)

    def pass_over(self, query: str, batch: int, reported: Collection[str]) -> None:
        """A batch ended that had nothing for the query's other ones."""
        with self._changed:
            if not any(of == query and name not in reported for name, of in self._runs):
                return

        def act() -> None:
            for (name, of), run in list(self._runs.items()):
                if of == query and name not in reported:
                    self.faults.do(f"gate {name!r}", partial(run.pass_over, batch))

        self._post(act, report=True)

    def refresh(self) -> None:
        """Between batches: look whether people have changed something."""
        with self._changed:
            if self._refreshing or not self._runs:
                return
            self._refreshing = True

        def act() -> None:
            self._refreshing = False
            for (name, _), run in list(self._runs.items()):
                self.faults.do(f"the settings of {name!r}", run.refresh)

        self._post(act)

    def forget(self, name: str, query: str) -> None:
        """The query is behind one of that name in another folder."""
        if not self.idle:
            self._post(lambda: self._close((name, query)))

    def end(self, query: str | None, run: str | None = None, failed: bool = False) -> None:
        """The query (None: all) is over: its books are closed, and then its leases given back."""

        def act() -> None:
            for key in [key for key in self._runs if query in (None, key[1])]:
                self._close(key)
            self._heartbeats.end(query, run, self.control, failed)
            for one in self._noted if query is None else self._noted & {query}:
                forget_query(self.control, one)
            self._noted -= self._noted if query is None else {query}

        if not self.idle or self._noted or self._heartbeats.steers(self.control, query):
            self._post(act)

    # What anybody asks.

    def running(self) -> dict[Key, Spec]:
        """What is open here, by gate and query."""
        with self._changed:
            return {key: run.spec for key, run in self._runs.items()}

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do, and nothing open."""
        with self._changed:
            return not self._runs and not self._noted and self._done == self._left

    def stuck_s(self) -> float:
        """For how long the thread has been at what it does now."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    def wait(self, at_most_s: float | None = None) -> bool:
        """Return when all that was left here so far is done; False where the folder hangs.

        `at_most_s` is for whoever cannot wait for a folder that is only slow, either.
        """
        until = None if at_most_s is None else time.monotonic() + at_most_s
        with self._changed:
            asked = self._left
            if self._thread is None:  # none can be begun any more: the process is about to end
                while self._steps:
                    self._do_first()
            while self._done < asked:
                left_s = HANGS_S - self.stuck_s()
                if until is not None:
                    left_s = min(left_s, until - time.monotonic())
                if left_s <= 0.0:
                    return False
                self._changed.wait(left_s)
            return True

    def tell_if_it_hangs(self) -> None:
        """Say once that it hangs, and once that it does not any more."""
        hangs = self.stuck_s() > HANGS_S
        if hangs != self._said_hangs:
            self._said_hangs = hangs
            if hangs:
                log.error(
                    "the control folder %s has not answered for %.0f s: its gates fail open or closed, "
                    "as they were told; those of other folders go on", self.control, self.stuck_s(),
                )  # fmt: skip
            else:
                log.warning("the control folder %s answers again", self.control)

    # The thread.

    def _post(self, act: Callable[[], object], report: bool = False) -> None:
        with self._changed:
            self._steps.append(_Step(act, report))
            self._left += 1
            self._reports += report
            if self._reports > MOST_WAITING:
                self._give_up_oldest()
            if self._thread is None:
                self._begin()
            self._changed.notify_all()

    def _begin(self) -> None:
        thread = threading.Thread(target=self._run, name="headgate-folder", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # at the interpreter's end no thread can be begun: `wait` does the work
            return
        self._thread = thread

    def _give_up_oldest(self) -> None:
        oldest = next(index for index, step in enumerate(self._steps) if step.report)
        del self._steps[oldest]
        self._reports -= 1
        self._done += 1
        if not self._said_full:
            self._said_full = True
            log.error(
                "the control folder %s hangs and %d reports of batches wait for it: older ones are "
                "given up, and their batches show as unsettled (headgate recount settles them)",
                self.control, MOST_WAITING,
            )  # fmt: skip

    def _run(self) -> None:
        with self._changed:
            while True:
                while self._steps:
                    self._do_first()
                self._said_full = False
                if not self._runs:
                    self._thread = None
                    return
                self._changed.wait()

    def _do_first(self) -> None:
        """Do the first step; the lock is held before and after, and not meanwhile."""
        step = self._steps.popleft()
        self._reports -= step.report
        self._began = time.monotonic()
        self._changed.release()
        try:
            step.act()
        except (Exception, SystemExit) as error:  # its parts say what failed: nobody foresaw this one
            log.warning("the control loop failed in folder %s: %s", self.control, error)
        finally:
            self._changed.acquire()
            self._began = None
            self._done += 1
            self._changed.notify_all()

    def _handle(self, spec: Spec, query: str, report: Report, beside: Mapping[str, Report]) -> None:
        key = (spec.name, query)
        if self._heartbeats.lost(*key):
            return  # another process steers it now, and keeps its books
        try:
            self._open(spec, query).handle(spec.complete(report, beside))
        except Exception:
            self._failed[key] = self._failed.get(key, 0) + 1
            if self._failed[key] >= TOO_MANY_FAULTS:
                self._heartbeats.silence(*key)  # its workers fail open or closed from now on
            raise
        if self._failed.pop(key, 0) >= TOO_MANY_FAULTS:
            self._heartbeats.silence(*key, silent=False)

    def _open(self, spec: Spec, query: str) -> Run[Any, Any]:
        """The run of this one in this query; the query may turn out to be behind another of the name."""
        key = (spec.name, query)
        before = self._runs.get(key)
        if before is not None and before.spec == spec:
            return before
        if before is not None:
            self._close(key)
        opened = spec.open(query)
        if before is not None:
            opened.last_batch = before.last_batch
        with self._changed:
            self._runs[key] = opened
        return opened

    def _close(self, key: Key) -> None:
        with self._changed:
            run = self._runs.pop(key, None)
        self._failed.pop(key, None)
        if run is not None:
            self.faults.do(f"closing {key[0]!r}", run.finish)
