"""Says, for each gate of each running query, that this process steers it.

By a thread for each control folder (`headgate.spark.loop.heart`), which does not wait for the loop's
lock, a ledger, Spark or another folder. It speaks only while the loop really goes round, and not for a
gate whose batches the loop fails at again and again: then the gate's workers must fail open or closed,
as they were told. The loop itself is one thread for all folders: a mount that hangs for so long that the
loop counts as stuck still silences all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from headgate.spark.loop.heart import Heart
from headgate.store.plans import PlanStore

__all__ = ["Heartbeats"]

#: How long a query's end waits until its leases are given back, where a folder hangs.
_WAIT_S = 5.0


class Heartbeats:
    """The leases of one loop."""

    def __init__(self, going_round: Callable[[], bool]) -> None:
        self._going_round = going_round
        self._hearts: dict[Path, Heart] = {}
        self._lock = threading.Lock()

    def steer(self, control: Path, gate: str, query: str) -> None:
        """Beat for this gate in this query from now on, if it is there: its workers begin the lease."""
        with self._lock:
            if control not in self._hearts:
                self._hearts[control] = Heart(self._going_round)
            self._hearts[control].steer((gate, query), PlanStore(control, gate, query).folder)

    def silence(self, gate: str, query: str, silent: bool = True) -> None:
        """Do not vouch for a gate whose reports cannot be handled; or do so again."""
        for heart in self._all():
            heart.silence((gate, query), silent)

    def lost(self, gate: str, query: str) -> bool:
        """Whether another process steers this gate in this query now."""
        return any(heart.lost((gate, query)) for heart in self._all())

    def end(self, query: str | None, run: str | None = None) -> None:
        """The query is over: whoever runs it next need not wait. Of another run the lease is kept."""
        given_back = [heart.leave(query, run) for heart in self._all()]
        until = time.monotonic() + _WAIT_S
        for done in given_back:
            done.wait(max(0.0, until - time.monotonic()))
        with self._lock:
            self._hearts = {control: heart for control, heart in self._hearts.items() if heart.beats}

    def stop(self) -> None:
        """The process is about to end."""
        self.end(None)

    def _all(self) -> list[Heart]:
        with self._lock:
            return list(self._hearts.values())
