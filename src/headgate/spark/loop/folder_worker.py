"""The runs of one control folder, and the threads that read and write there for them, and nobody else.

The control loop hears of batches for all folders; what a report means for a gate is files in the gate's
own folder. A mount that hangs must not keep other folders' gates waiting, so each folder has threads of
its own (`headgate.spark.loop.lanes`), which take up what the loop leaves for it: in order within a
query, several queries beside each other. Nothing that the loop asks of a worker waits for the folder,
but for `wait`, and that has an end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from headgate.run.faults import TOO_MANY_FAULTS
from headgate.run.report import Report
from headgate.run.run import Run
from headgate.run.spec import Spec
from headgate.spark.backfill.left_unsettled import note_left_unsettled
from headgate.spark.checkpoint import began_before
from headgate.spark.loop import lanes
from headgate.spark.loop.fault_log import FaultLog
from headgate.spark.loop.heartbeats import Heartbeats
from headgate.spark.loop.lanes import Lanes
from headgate.store.folder import is_used
from headgate.store.ledger.board import Board
from headgate.store.places.place import Place, asks_server
from headgate.store.places.stores import store_of
from headgate.store.plans import PlanStore
from headgate.store.query_facts import forget_query, gates_of_query, note_gates, tell_checkpoint

__all__ = ["FolderWorker", "Key"]

log = logging.getLogger("headgate")

#: A gate, and a query that it is in.
Key = tuple[str, str]
#: The lane of what is the whole folder's and no query's.
_ALL = ""


class FolderWorker:
    """Whoever has a gate, a guard, a join or a result in this folder is served here.

    `gates` names those that may be in any query.
    """

    def __init__(
        self, control: Place, heartbeats: Heartbeats, gates: Callable[[], Collection[str]] = tuple
    ) -> None:
        self.control, self._heartbeats, self._gates = control, heartbeats, gates
        #: A query's lane alone opens, changes and closes its runs; others look under the lock.
        self._runs: dict[Key, Run[Any, Any]] = {}
        self._lock = threading.Lock()  # never held while a file is read or written
        self._failed: dict[Key, int] = {}
        #: Queries whose checkpoints are noted in the folder.
        self._noted: set[str] = set()
        self.faults = FaultLog("the control loop")
        self.lanes = Lanes(control, lambda: bool(self._runs))
        self._board = Board(control)
        self._refreshing: set[str] = set()
        self._said_hangs = False

    # What the loop asks: none of it waits.

    def tell_checkpoint(self, query: str, location: str, sink: str | None = None) -> None:
        """Leave the place of a query's checkpoint for its workers: how large a batch is stands there."""

        def act() -> None:
            tell_checkpoint(self.control, query, location, sink)
            self._noted.add(query)

        self._post(query, "telling where a checkpoint is", act)

    def open_known(self, specs: Collection[Spec], query: str, checkpoint: str | None = None) -> None:
        """Take up a query that ran behind these before, where it stood; pass over any other."""

        def act() -> None:
            known = gates_of_query(self.control, query)
            if known is None and checkpoint is not None and not began_before(checkpoint):
                return  # no batch of it has ever ended
            for spec in self._with_a_lease(specs, query) if known is None else specs:
                if known is None or spec.name in known:
                    self.faults.do(f"opening {spec.name!r}", partial(self._open_if_used, spec, query))
                    if checkpoint is not None:
                        note = partial(note_left_unsettled, self.control, spec.name, query, checkpoint)
                        self.faults.do(f"noting what a run before left of {spec.name!r}", note)

        self._post(query, "looking for what ran before", act)

    def _with_a_lease(self, specs: Collection[Spec], query: str) -> list[Spec]:
        """Those that the query has run behind, in a store where each look is a request: many at once."""
        if not asks_server(self.control):
            return list(specs)
        leases = [PlanStore(self.control, spec.name, query).lease.place for spec in specs]
        found = store_of(self.control).get_all(leases)
        return [s for s, held in zip(specs, found, strict=True) if held is not None or not s.steers]

    def _open_if_used(self, spec: Spec, query: str) -> None:
        if is_used(PlanStore(self.control, spec.name, query).folder):
            self._open(spec, query)

    def open(self, spec: Spec, query: str) -> None:
        """The query is behind this one, from now on."""
        self._post(query, f"opening {spec.name!r}", lambda: self._open(spec, query))

    def report(self, spec: Spec, query: str, report: Report, beside: Mapping[str, Report]) -> None:
        """A batch ended at this one; `beside` are the reports of the same batch."""
        act = partial(self._handle, spec, query, report, beside)
        self._post(query, f"gate {spec.name!r}", act, report=True)

    def pass_over(self, query: str, batch: int, reported: Collection[str]) -> None:
        """A batch ended that had nothing for the query's other ones."""
        if not any(of == query and name not in reported for name, of in self._keys()):
            return

        def act() -> None:
            for (name, of), run in self._open_runs():
                if of == query and name not in reported:
                    self.faults.do(f"gate {name!r}", partial(run.pass_over, batch))

        self._post(query, "a batch of others", act, report=True)

    def refresh(self) -> None:
        """Between batches: look whether people have changed something, and say how the gates stand."""
        runs = self._open_runs()
        for query in {query for (_, query), _ in runs} - self._refreshing:
            self._refreshing.add(query)
            self._post(query, "looking around", partial(self._refresh, query))
        if (runs or self._board.behind) and self._board.due and _ALL not in self._refreshing:
            self._refreshing.add(_ALL)
            self._post(_ALL, "saying how the gates stand", self._tell_standing)

    def _refresh(self, query: str) -> None:
        self._refreshing.discard(query)
        for (name, of), run in self._open_runs():
            if of == query:
                self.faults.do(f"the settings of {name!r}", run.refresh)
                if self._board.due:  # what must be read for it is read beside other queries'
                    self.faults.do(f"how {name!r} stands", run.standing)

    def _tell_standing(self) -> None:
        self._refreshing.discard(_ALL)
        self._board.tell({key: found for key, run in self._open_runs() if (found := run.standing())})

    def forget(self, name: str, query: str) -> None:
        """The query is behind one of that name in another folder."""
        if not self.idle:
            self.lanes.post(query, lambda: self._close((name, query)))

    def end(self, query: str | None, run: str | None = None, failed: bool = False) -> None:
        """The query (None: all) is over: its books are closed, and then its leases given back."""
        if query is None:
            for one in self._queries():
                self.end(one, run, failed)
            return

        def act() -> None:
            for key in [key for key in self._keys() if key[1] == query]:
                self._close(key)
            self._heartbeats.end(query, run, self.control, failed, self._gates())
            if query in self._noted:
                forget_query(self.control, query)
                self._noted.discard(query)

        if not self.idle or query in self._noted or self._heartbeats.steers(self.control, query):
            self.lanes.post(query, act)

    def _queries(self) -> set[str]:
        """All that there may be something of here, or about to be."""
        found = {query for _, query in self._keys()} | self._noted | self.lanes.waiting.keys()
        return (found | self._heartbeats.queries(self.control)) - {_ALL}

    # What anybody asks.

    def running(self) -> dict[Key, Spec]:
        """What is open here, by gate and query."""
        return {key: run.spec for key, run in self._open_runs()}

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do, and nothing open."""
        return not self._runs and not self._noted and self.lanes.all_done

    def stuck_s(self) -> float:
        """For how long a thread has been at what it does now."""
        return self.lanes.stuck_s()

    def wait(self, at_most_s: float | None = None) -> bool:
        """Return when all that was left here so far is done; False where the folder hangs."""
        return self.lanes.wait(at_most_s)

    def tell_if_it_hangs(self) -> None:
        """Say once that it hangs, and once that it does not any more."""
        hangs = self.stuck_s() > lanes.HANGS_S
        if hangs != self._said_hangs:
            self._said_hangs = hangs
            if hangs:
                log.error(
                    "the control folder %s has not answered for %.0f s: its gates fail open or closed, "
                    "as they were told; those of other folders go on", self.control, self.stuck_s(),
                )  # fmt: skip
            else:
                log.warning("the control folder %s answers again", self.control)

    # The threads.

    def _post(self, query: str, what: str, act: Callable[[], object], report: bool = False) -> None:
        self.lanes.post(query, lambda: self.faults.do(what, act), report)

    def _keys(self) -> list[Key]:
        with self._lock:
            return list(self._runs)

    def _open_runs(self) -> list[tuple[Key, Run[Any, Any]]]:
        with self._lock:
            return list(self._runs.items())

    def _handle(self, spec: Spec, query: str, report: Report, beside: Mapping[str, Report]) -> None:
        key = (spec.name, query)
        if self._heartbeats.lost(*key):
            return  # another process steers it now, and keeps its books
        if spec.steers:
            self._heartbeats.meet(self.control, *key)
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
        with self._lock:
            self._runs[key] = opened
            gates = {name for name, of in self._runs if of == query}
        self.faults.do("noting a query's gates", lambda: note_gates(self.control, query, gates))
        return opened

    def _close(self, key: Key) -> None:
        with self._lock:
            run = self._runs.pop(key, None)
        self._failed.pop(key, None)
        if run is not None:
            self.faults.do(f"closing {key[0]!r}", run.finish)
            self.faults.do("saying how it stood", partial(self._say_how_it_stood, key, run))

    def _say_how_it_stood(self, key: Key, run: Run[Any, Any]) -> None:
        """Where that cannot be read now, what was said of it before stands, and that it is over."""
        standing: dict[str, Any] | None = None
        try:
            standing = run.standing()
        finally:
            self._board.close(key, standing)
