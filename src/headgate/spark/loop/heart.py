"""The thread that beats for the gates of one control folder, and for no others.

All that it writes and reads is in that folder, and whoever asks something of it does not wait for the
folder: where a mount hangs, its own gates fall silent, and those of other folders do not. The thread
begins with the first gate to beat for and ends with the last.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from headgate.store.lease import BEAT_S, Lease, this_process
from headgate.store.places.place import ObjectPath, Place

__all__ = ["Heart", "Key"]

log = logging.getLogger("headgate")

#: A gate, and a query that it is in.
Key = tuple[str, str]

#: A lease that was there and has not been for so many turns, ten minutes, is not looked for any more.
_PATIENCE = 300
#: A lease that never was there is looked for in an object store every so many turns.
_SELDOM = 4


@dataclass
class _Pair:
    """A gate in a query, as this process has seen its lease."""

    lease: Lease
    #: Whether the query is behind this folder's gate; else only a lease of our own says so.
    sure: bool = True
    #: Not vouched for: its reports cannot be handled.
    silenced: bool = False
    #: Another process has the lease.
    lost: bool = False
    #: Turns since the lease was there; None if it never was.
    missed: int | None = None
    #: Turns in which it was not looked for, since it never was there and a look is a request.
    passed: int = 0


@dataclass(frozen=True)
class _Leave:
    """Leases to be given back: those of this run (None: of any), which may have failed."""

    leases: list[Lease]
    run: str | None
    failed: bool
    done: threading.Event


class Heart:
    """The leases of one loop in one control folder, by gate and query."""

    def __init__(self, going_round: Callable[[], bool]) -> None:
        self._going_round = going_round
        self._pairs: dict[Key, _Pair] = {}
        self._leaving: list[_Leave] = []
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()  # never held while a file is read or written
        self._woken = threading.Event()

    def steer(self, key: Key, folder: Place, sure: bool = True) -> None:
        """Beat for this gate in this query from now on; `folder` is where its plans are."""
        with self._lock:
            pair = self._pairs.setdefault(key, _Pair(Lease(folder), sure))
            pair.sure = pair.sure or sure
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="headgate-heartbeats", daemon=True
                )
                self._thread.start()

    def silence(self, key: Key, silent: bool) -> None:
        """Do not vouch for it, or do so again."""
        with self._lock:
            if key in self._pairs:
                self._pairs[key].silenced = silent

    def lost(self, key: Key) -> bool:
        """Whether another process steers it now."""
        with self._lock:
            return key in self._pairs and self._pairs[key].lost

    def leave(self, query: str | None, run: str | None, failed: bool = False) -> threading.Event:
        """Give the leases of a query (None: of all) back; set when that is done."""
        done = threading.Event()
        with self._lock:
            keys = [key for key in self._pairs if query in (None, key[1])]
            leases = [self._pairs.pop(key).lease for key in keys]
            if leases:
                self._leaving.append(_Leave(leases, run, failed, done))
                self._woken.set()
            else:
                done.set()
        return done

    def steers(self, query: str | None) -> bool:
        """Whether there is anything to beat for, in this query (None: in any)."""
        with self._lock:
            return any(query in (None, key[1]) for key in self._pairs)

    # The thread.

    def _run(self) -> None:
        while True:
            self._woken.wait(BEAT_S)
            with self._lock:
                self._woken.clear()
                leaving, self._leaving = self._leaving, []
            for one in leaving:
                for lease in one.leases:
                    self._give_back(lease, one)
                one.done.set()
            with self._lock:
                if not self._pairs and not self._leaving:
                    self._thread = None
                    return
                due = [(key, pair) for key, pair in self._pairs.items() if not pair.silenced]
            for key, pair in due if self._going_round() else []:
                if self._pairs.get(key) is pair:  # else its query has ended meanwhile
                    self._beat(key, pair)

    @staticmethod
    def _give_back(lease: Lease, leave: _Leave) -> None:
        try:
            lease.release(this_process(), leave.run, leave.failed)
        except OSError as error:
            log.debug("a lease could not be given back: %s", error)

    def _beat(self, key: Key, pair: _Pair) -> None:
        if pair.missed is None and isinstance(pair.lease.place, ObjectPath):
            # Every gate may be in every query: most of them never are. Still well within the silence
            # after which a driver is taken for gone.
            pair.passed += 1
            if pair.passed % _SELDOM != 1:
                return
        try:
            holder = pair.lease.holder()
            if holder is None:  # no batch of the query has come to the gate yet, or the folder is gone
                self._miss(key, pair)
                return
            if not pair.sure:
                pair.sure = holder.owner == this_process().owner and not holder.released
                if not pair.sure:
                    return
            pair.missed = 0
            if pair.lease.beat(this_process(), holder):
                pair.lost = False  # perhaps the other one has ended, and our workers took it up again
            elif not pair.lost:
                pair.lost = True
                log.error(
                    "gate %r of query %s is steered by another process now: this one's query ends with "
                    "its next batch",
                    *key,
                )
        except OSError as error:
            log.debug("no heartbeat for gate %r of query %s: %s", *key, error)

    def _miss(self, key: Key, pair: _Pair) -> None:
        """Forget a lease that was there and stays away; a report of its query brings it back."""
        if pair.missed is None:
            return
        pair.missed += 1
        if pair.missed > _PATIENCE:
            with self._lock:
                if self._pairs.get(key) is pair:
                    del self._pairs[key]
