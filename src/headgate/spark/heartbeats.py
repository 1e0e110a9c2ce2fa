"""A thread that says, for each gate of each running query, that this process steers it.

It does not wait for the loop's lock, a ledger or Spark; only for the control folders, one after another,
so that a mount that hangs silences all gates of the process. It speaks only while
the loop really goes round, and not for a gate whose batches the loop fails at again and again: then the
gate's workers must fail open or closed, as they were told.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path

from headgate.store.lease import BEAT_S, Lease, this_process
from headgate.store.plans import PlanStore

__all__ = ["Heartbeats"]

log = logging.getLogger("headgate")

_Key = tuple[str, str]


class Heartbeats:
    """The leases of one loop, by gate and query."""

    def __init__(self, going_round: Callable[[], bool]) -> None:
        self._going_round = going_round
        self._leases: dict[_Key, Lease] = {}
        self._silenced: set[_Key] = set()
        self.lost: set[_Key] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-heartbeats", daemon=True)
        self._thread.start()

    def steer(self, control: Path, gate: str, query: str) -> None:
        """Beat for this gate in this query from now on, if it is there: its workers begin the lease."""
        with self._lock:
            self._leases.setdefault((gate, query), Lease(PlanStore(control, gate, query).folder))

    def silence(self, gate: str, query: str, silent: bool = True) -> None:
        """Do not vouch for a gate whose reports cannot be handled; or do so again."""
        with self._lock:
            (self._silenced.add if silent else self._silenced.discard)((gate, query))

    def end(self, query: str, run: str | None = None) -> None:
        """The query is over: whoever runs it next need not wait. Of another run the lease is kept."""
        with self._lock:
            ended = {key: self._leases.pop(key) for key in list(self._leases) if key[1] == query}
            self._silenced -= ended.keys()
            self.lost -= ended.keys()
        for lease in ended.values():
            with contextlib.suppress(OSError):
                lease.release(this_process(), run)

    def stop(self) -> None:
        """The process is about to end."""
        self._ended.set()
        for query in {query for _, query in list(self._leases)}:
            self.end(query)

    def _run(self) -> None:
        while not self._ended.wait(BEAT_S):
            if self._going_round():
                with self._lock:
                    due = [(k, v) for k, v in self._leases.items() if k not in self._silenced]
                for key, lease in due:
                    self._beat(key, lease)

    def _beat(self, key: _Key, lease: Lease) -> None:
        try:
            holder = lease.holder()
            if holder is None:
                return  # no batch of the query has come to the gate yet
            if holder.owner == this_process().owner:
                self.lost.discard(key)  # the other one has ended, and our workers took it up again
            with self._lock:  # not behind the back of `end`
                if key not in self._leases or lease.beat(this_process()):
                    return
            if key not in self.lost:
                self.lost.add(key)
                log.error(
                    "gate %r of query %s is steered by another process now: this one's query ends with "
                    "its next batch",
                    *key,
                )
        except OSError as error:
            log.debug("no heartbeat for gate %r of query %s: %s", *key, error)
