"""Which control folder serves which gate of which query, and who speaks for it.

The control loop hears of batches; here they find the worker of their gate's folder
(`headgate.spark.loop.folder_worker`). Nothing here reads or writes a folder, or waits for one unless it
says for how long. The loop's lock is held by whoever calls, but not by those that wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial

from headgate.run.faults import TOO_MANY_FAULTS
from headgate.run.report import Report
from headgate.run.spec import Spec
from headgate.spark.loop.folder_worker import FolderWorker, Key
from headgate.spark.loop.heartbeats import Heartbeats
from headgate.spark.loop.specs import Specs
from headgate.store.places.place import Place

__all__ = ["Folders"]

log = logging.getLogger("headgate")


class Folders:
    """The folders of one loop's gates."""

    def __init__(self, specs: Specs, going_round: Callable[[Place], bool]) -> None:
        self._specs = specs
        self.heartbeats = Heartbeats(going_round)
        self._workers: dict[Place, FolderWorker] = {}
        #: The folder that a gate's reports in a query go to, once there was one.
        self._home: dict[Key, Place] = {}
        #: Gates whose spec was forgotten, and of which that was said.
        self._unknown: set[Key] = set()
        #: Batches in a row of which not all reports could be read, by query; and gates not vouched for
        #: because of that.
        self._unread: dict[str, int] = {}
        self._muted: set[Key] = set()

    def worker(self, control: Place) -> FolderWorker:
        """The worker of a control folder, made when the first spec of it is added."""
        if control not in self._workers:
            gates = partial(self._specs.steering_in, control)
            self._workers[control] = FolderWorker(control, self.heartbeats, gates)
        return self._workers[control]

    def add(self, spec: Spec) -> None:
        """A spec was taken up; others may have been forgotten for it, and their folders with them.

        A join without ``control=`` has a folder of its own.
        """
        self.worker(spec.control)
        known = self._specs.controls()
        for control in [c for c, worker in self._workers.items() if c not in known and worker.idle]:
            del self._workers[control]

    def all(self) -> list[FolderWorker]:
        """The workers of all control folders."""
        return list(self._workers.values())

    def with_gate(self, name: str) -> list[FolderWorker]:
        """The workers of all folders in which one of this name may be."""
        known = {spec.control for spec in self._specs.named(name)}
        return [worker for control, worker in self._workers.items() if control in known]

    def in_use(self) -> set[int]:
        """The numbers of the specs that are at work."""
        return {spec.number for worker in self.all() for spec in worker.running().values()}

    def queries(self) -> set[str]:
        """The queries that have reported something."""
        return {query for _, query in self._home}

    def stuck_s(self, control: Place) -> float:
        """For how long the folder's worker has been at what it does now."""
        worker = self._workers.get(control)
        return 0.0 if worker is None else worker.stuck_s()

    def steer(self, query: str) -> None:
        """Speak for the query in every folder in which it may have a gate.

        A lease says which driver has it, so that what is said where it has none is heard by nobody.
        """
        for control in self._specs.controls(steering=True):
            self.heartbeats.steer(control, query)

    def take_up(self, query: str, checkpoint: str | None = None, sink: str | None = None) -> None:
        """A query begins: where it ran before, its gates go on where they stood.

        Its workers are told where its checkpoint is and what it writes to, where that is known.
        """
        if checkpoint is not None:
            for worker in self.all():
                worker.tell_checkpoint(query, checkpoint, sink)
        likeliest: dict[Place, dict[str, Spec]] = {}
        for name in self._specs:
            for spec in self._specs.named(name):  # in each folder the latest; a report will tell
                likeliest.setdefault(spec.control, {}).setdefault(name, spec)
        for control, specs in likeliest.items():
            self.worker(control).open_known(specs.values(), query, checkpoint)

    def pass_on(
        self, query: str, batch: int, reports: Mapping[str, Report], specs: Mapping[str, Spec | None]
    ) -> None:
        """The reports of a batch, by name, each to the folder of its spec."""
        self._pass_over(query, batch, reports.keys())
        for name, report in reports.items():
            spec = specs[name]
            if spec is None:
                self._give_up(name, query)
                continue
            self._settle((name, query), spec.control)
            self.worker(spec.control).report(spec, query, report, reports)

    def _pass_over(self, query: str, batch: int, reported: Collection[str]) -> None:
        for worker in self.all():
            worker.pass_over(query, batch, reported)

    def heard(self, query: str, told: Collection[str] | None) -> None:
        """Whose reports of a batch could be read; None: all of them.

        A gate that is at work, and of which nothing can be read again and again, keeps its last plan:
        nobody vouches for that one, so that it fails open or closed, as it was told.
        """
        muted = {key for key in self._muted if key[1] == query}
        if told is None:
            self._unread.pop(query, None)
            for key in muted:
                self.heartbeats.silence(*key, silent=False)
            self._muted -= muted
            return
        self._unread[query] = self._unread.get(query, 0) + 1
        if self._unread[query] < TOO_MANY_FAULTS:
            return
        at_work = {key for worker in self.all() for key in worker.running() if key[1] == query}
        for key in {key for key in at_work if key[0] not in told} - muted:
            self.heartbeats.silence(*key)
            self._muted.add(key)

    def exchange(self, spec: Spec, query: str) -> FolderWorker:
        """The query is behind this one of its name, from now on."""
        self._settle((spec.name, query), spec.control)
        worker = self.worker(spec.control)
        worker.open(spec, query)
        return worker

    def serves(self, name: str, query: str) -> bool:
        """Whether one of this name is at work in the query."""
        key = (name, query)
        return key in self._home or any(key in worker.running() for worker in self.all())

    def _settle(self, key: Key, control: Place) -> None:
        """The query is behind the gate of this folder, and not behind a namesake in another one."""
        if self._home.get(key) != control:
            self._home[key] = control
            for other, worker in self._workers.items():
                if other != control:
                    worker.forget(*key)

    def _give_up(self, gate: str, query: str) -> None:
        """Its spec was forgotten: it cannot be steered, so it fails open or closed, as it was told."""
        self.heartbeats.silence(gate, query)
        if (gate, query) not in self._unknown:
            self._unknown.add((gate, query))
            log.error(
                "gate %r of query %s was built so long ago, and so many were built since, that it is "
                "forgotten: it fails open or closed. Build its frame again, and start the query anew",
                gate, query,
            )  # fmt: skip

    def end(self, query: str, run: str | None = None, failed: bool = False) -> None:
        """The query is over: its books are closed, and then its leases given back."""
        for key in [key for key in self._home if key[1] == query]:
            del self._home[key]
        self._unknown = {key for key in self._unknown if key[1] != query}
        self._muted = {key for key in self._muted if key[1] != query}
        self._unread.pop(query, None)
        for worker in self.all():
            worker.end(query, run, failed)

    def stop(self) -> None:
        """The process is about to end, or nobody needs the loop any longer."""
        self.heartbeats.hush()
        for worker in self.all():
            worker.faults.quiet = True
            worker.end(None)
        for worker in self.all():
            worker.wait()
        self.heartbeats.stop()
