"""Says, for each running query, that this process steers its gates.

By a thread for each control folder (`headgate.spark.loop.heart`), which does not wait for the loop's
lock, a ledger, Spark or another folder. It speaks only while the loop really goes round and what it
leaves for the folder is taken up (`headgate.spark.loop.folder_worker`), and not for a gate whose batches
the loop fails at again and again: then the gate's workers must fail open or closed, as they were told.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from functools import partial

from headgate.spark.loop.heart import Heart
from headgate.store.places.place import Place

__all__ = ["Heartbeats"]

#: How long a query's end waits until its leases are given back, where a folder hangs.
_WAIT_S = 5.0


class Heartbeats:
    """The leases of one loop."""

    def __init__(self, going_round: Callable[[Place], bool]) -> None:
        self._going_round = going_round
        self._hearts: dict[Place, Heart] = {}
        self._lock = threading.Lock()

    def steer(self, control: Place, query: str) -> None:
        """Speak for all gates that this query has in this folder: its workers begin their leases."""
        with self._lock:
            if control not in self._hearts:
                self._hearts[control] = Heart(control, partial(self._going_round, control))
            self._hearts[control].steer(query)

    def meet(self, control: Place, gate: str, query: str) -> None:
        """A batch of the query came through this gate of the folder."""
        with self._lock:
            heart = self._hearts.get(control)
        if heart is not None:
            heart.meet((gate, query))

    def steers(self, control: Place, query: str | None) -> bool:
        """Whether there is something to speak for in this query (None: in any), in this folder."""
        with self._lock:
            heart = self._hearts.get(control)
        return heart is not None and heart.steers(query)

    def queries(self, control: Place) -> set[str]:
        """The queries that are spoken for in this folder."""
        with self._lock:
            heart = self._hearts.get(control)
        return set() if heart is None else heart.queries()

    def silence(self, gate: str, query: str, silent: bool = True) -> None:
        """Do not vouch for a gate whose reports cannot be handled; or do so again."""
        for heart in self._all():
            heart.silence((gate, query), silent)

    def lost(self, gate: str, query: str) -> bool:
        """Whether another process steers this gate in this query now."""
        return any(heart.lost((gate, query)) for heart in self._all())

    def end(
        self, query: str | None, run: str | None = None, control: Place | None = None,
        failed: bool = False, gates: Collection[str] = (),
    ) -> None:  # fmt: skip
        """The query is over: whoever runs it next need not wait. Of another run the lease is kept.

        In this folder, or in all. `failed`: it did not just end. `gates` are those that may be in it,
        should none of them have reported anything.
        """
        given_back = [heart.leave(query, run, failed, gates) for heart in self._all(control)]
        until = time.monotonic() + _WAIT_S
        for done in given_back:
            done.wait(max(0.0, until - time.monotonic()))
        with self._lock:
            self._hearts = {of: heart for of, heart in self._hearts.items() if heart.steers(None)}

    def hush(self) -> None:
        """The process is about to end: what fails now is nobody's concern."""
        for heart in self._all():
            heart.faults.quiet = True

    def stop(self) -> None:
        """The process is about to end."""
        self.end(None)

    def _all(self, control: Place | None = None) -> list[Heart]:
        with self._lock:
            return [heart for of, heart in self._hearts.items() if control in (None, of)]
