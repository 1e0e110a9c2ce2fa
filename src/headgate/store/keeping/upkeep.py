"""What keeps a control folder small for years: compress, expire, prune; never in the loop's way.

One `Upkeep` for a gate in a query, which its run tells of every batch that is in the books. Its work is
cut into steps that touch one segment or some hundred pins, and a thread for each folder does them
(`headgate.store.keeping.crew`), so that heartbeats and plans wait for none of it. Nothing here reads all
of a ledger.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any

from headgate.store.attempts import Attempts
from headgate.store.file_age import time_by_the_store
from headgate.store.folder import is_used
from headgate.store.gate_files.begun import forget_begun
from headgate.store.keeping.crew import Crew
from headgate.store.keeping.tidying import last_life, mark_alive, remove_left_behind
from headgate.store.ledger.records import Ledger, queries_of
from headgate.store.places.place import Place, asks_server
from headgate.store.places.stores import store_of
from headgate.store.places.turns import Turns, turns_in
from headgate.store.plans import KEPT_PINS, PlanStore

__all__ = ["MOST_UNSETTLED", "Upkeep", "ended_queries", "now_at_most", "remove_query"]

log = logging.getLogger("headgate")

#: Pins of batches without a record that are kept at most; the oldest go first. All go when the records
#: around them expire.
MOST_UNSETTLED = 1000
#: The run asks for upkeep every so many batches.
_EVERY_BATCHES = 50
#: Pins dropped in one step; settled batches remembered between two passes.
_PINS_A_STEP, _MOST_REMEMBERED = 500, 5000
#: Ended queries and files that a killed process left unfinished are looked for so seldom; these are
#: removed when they are so old.
_SELDOM_S, _LEFT_BEHIND_S = 3600.0, 86_400.0


class Upkeep:
    """The upkeep of one gate in one query."""

    def __init__(
        self, control: Place, gate: str, query: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._control, self._gate, self._query, self._clock = control, gate, query, clock
        self._store = PlanStore(control, gate, query, clock)
        self._ledger = Ledger(control, gate, query)
        self._folder = self._store.folder
        self._guard = threading.Lock()
        self._turns: Turns = turns_in(self._folder)
        #: How long records are kept. What nobody has said it of is kept for good.
        self.retention_s = math.inf
        #: Batches that this run has recorded, and whose pins may be there.
        self._settled: set[int] = set()
        #: Old pins that have no record.
        self._unsettled: set[int] = set()
        self._looked = self._passed = float("-inf")
        #: Batches that were recorded since the last pass; and whether any was since the last mark.
        self._since, self._wrote = 0, False
        self._said = False

    # The run.

    @classmethod
    def of_run(
        cls,
        control: Place,
        gate: str,
        query: str,
        retention_s: float,
        clock: Callable[[], float] = time.time,
    ) -> Upkeep:
        """Of a query that runs in this process: the crew cares for it as long as its run keeps it."""
        upkeep = cls(control, gate, query, clock)
        upkeep.retention_s = retention_s  # before the crew looks: a run may be idle for days
        upkeep._passed = clock() if asks_server(control) else upkeep._passed
        Crew.of_process().take_on(upkeep)
        return upkeep

    def after(self, batch: int, retention_s: float) -> None:
        """A batch is in the ledger; costs the caller nothing but this."""
        self.retention_s = retention_s
        self._since, self._wrote = self._since + 1, True
        if len(self._settled) < _MOST_REMEMBERED:  # the others are looked up
            self._settled.add(batch)
        if self._since >= _EVERY_BATCHES:
            Crew.of_process().ask(self._control)

    @property
    def owner(self) -> tuple[Place, str, str]:
        """Whose upkeep it is."""
        return self._control, self._gate, self._query

    # The crew, or whoever has time.

    def begin_pass(self, *, asked: bool) -> bool:
        """Whether a look is worth it: `asked` for by a gate of the folder, or because it is time.

        A look in an object store is some twenty requests: there only a gate with many batches since the
        last one is looked at, or one that nobody has looked at for long.
        """
        now = self._clock()
        seldom = not 0.0 <= now - self._passed < _SELDOM_S
        timely = not asked and (seldom or not asks_server(self._control))
        if self._since < _EVERY_BATCHES and not timely:
            return False
        self._since, self._passed = 0, now
        return True

    def pass_failed(self) -> None:
        """What could not be done is tried again with the next look."""
        self._since = _EVERY_BATCHES

    def run(self, *, ended: bool = True) -> int:
        """All steps there are; how many. `ended`: also remove the folders of queries that ended."""
        count = 0
        if not ended:
            self._looked = self._clock()
        while self.step():
            count += 1
        return count

    def step(self) -> bool:
        """One small piece of work; whether there was one."""
        if not is_used(self._folder):
            return False
        # No other process works at this query's files.
        with self._guard, self._turns.taken() as taken:
            if not taken:
                return False
            now = self._clock()
            worked = (
                self._ledger.close_one(now)
                or self._ledger.expire_one(now - self.retention_s)
                or self._prune()
                or self._tidy(now)
            )
            if not worked:
                self._turns.end()
            return worked

    def mark_alive(self) -> None:
        """Leave word that the query lives: an idle one writes nothing, and has not ended."""
        if self._wrote and asks_server(self._control):  # its records and plans say so
            self._wrote = False
            return
        with contextlib.suppress(OSError):
            mark_alive(self._folder, self._clock())

    def due(self) -> dict[str, Any]:
        """What steps would do now, without doing it."""
        compress, expire = self._ledger.due(self._clock() - self.retention_s)
        old = set(self._store.pinned_batches()[:-KEPT_PINS])
        return {
            "segments_to_compress": compress,
            "segments_to_expire": expire,
            "pins_to_drop": len(self._ledger.settled(old)),
        }

    def _prune(self) -> bool:
        """Drop old pins of batches that are in the ledger; those without a record stay for a recount."""
        pins = self._store.pinned_batches()
        old = [b for b in pins[:-KEPT_PINS] if b not in self._unsettled][:_PINS_A_STEP]
        known = self._settled.intersection(old)
        asked = set(old) - known
        found = self._ledger.settled(asked) if asked else set()
        self._store.unpin(*sorted(known | found))
        self._settled -= {b for b in set(self._settled) if pins and b < pins[-KEPT_PINS:][0]}
        self._unsettled |= asked - found
        self._forget_unsettled()
        return bool(known or found)

    def _forget_unsettled(self) -> None:
        begins = self._ledger.begins()
        gone = {b for b in self._unsettled if b < begins}
        gone |= set(sorted(self._unsettled - gone)[:-MOST_UNSETTLED])
        self._store.unpin(*sorted(gone))
        forget_begun(self._folder, gone)
        self._unsettled -= gone
        if gone and not self._said:
            self._said = True
            log.warning(
                "gate %r of query %s: %d batches from %d on have no record and are too old or too many "
                "(more than %d) to be settled: their pins were dropped",
                self._gate, self._query, len(gone), min(gone), MOST_UNSETTLED,
            )  # fmt: skip

    def _tidy(self, now: float) -> bool:
        """Seldom: remove an ended query's folder, and what killed processes left unfinished."""
        if 0.0 <= now - self._looked < _SELDOM_S:
            return False
        silent = ended_queries(
            self._control, self._gate, now_at_most(self._folder, now) - self.retention_s, {self._query}
        )
        # Asked after the folders' age: one that was silent for long may have begun again meanwhile.
        living = Crew.of_process().living(self._control, self._gate)
        ended = [query for query in silent if query not in living]
        if ended:
            remove_query(self._control, self._gate, ended[0])
            return True
        self._looked = now
        Attempts(self._store).sweep()
        gate = self._control / "gates" / self._gate
        for folder in (
            self._folder,
            self._folder / "pins",
            self._folder / "attempts",
            self._folder / "begun",
            self._folder / "ledger",
            self._folder / "turns",
            gate,
            gate / "queries",
        ):
            remove_left_behind(folder, _LEFT_BEHIND_S)
        return False


def now_at_most(folder: Place, now: float) -> float:
    """The time, by this process's clock or by that of whoever keeps the files: whichever is earlier.

    What was written lately by the store's clock is old by a clock that runs ahead, and may be a query
    that lives elsewhere.
    """
    return min(now, time_by_the_store(folder))


def ended_queries(control: Place, gate: str, before: float, living: set[str]) -> list[str]:
    """Queries of a gate that nobody has written anything of since this time."""
    folder = control / "gates" / gate / "queries"
    return [q for q in queries_of(control, gate) if q not in living and last_life(folder / q) < before]


def remove_query(control: Place, gate: str, query: str) -> None:
    """Remove all that a gate has of a query; its name is gone at once."""
    folder = control / "gates" / gate
    for path in (folder / "lessons" / query, folder / "queries" / query):
        store_of(path).delete_all(path)
    log.info("gate %r: the folder of query %s, which ended, was removed", gate, query)
