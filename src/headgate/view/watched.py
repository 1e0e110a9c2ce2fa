"""`Watched`: what is remembered of one gate in one query from look to look.

Whether its driver lives is told by what it writes, watched by this process's own clock
(`headgate.store.lease.Watch`): the machine that serves a page may be minutes ahead of the store. Only at
the first look, with nothing to compare, the file's age has to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headgate.store.lease import GONE_S, Holder, Watch
from headgate.store.ledger.follow import LedgerFollower
from headgate.store.ledger.records import Ledger
from headgate.store.places.place import Place
from headgate.store.plans import PlanStore
from headgate.store.repaid.marks import Marks
from headgate.view.facts import Asked, GuardInsides, JobFacts
from headgate.view.first_batch import first_batch_in
from headgate.view.guard_memory import GuardMemoryReader

__all__ = ["Watched"]

#: Batches whose records are kept for the charts.
SHOWN_BATCHES = 240
#: A query that is over, or whose driver is gone, is looked at so seldom.
_SELDOM_S = 20.0


class Watched:
    """One gate, guard or join in one query; `clock` tells the time, `steady` how much of it passes."""

    def __init__(
        self,
        control: Place,
        gate: str,
        query: str,
        clock: Callable[[], float],
        steady: Callable[[], float],
    ) -> None:
        self.gate, self.query = gate, query
        self._ledger = Ledger(control, gate, query)
        self._store = PlanStore(control, gate, query, clock)
        self._follower = LedgerFollower(self._ledger, SHOWN_BATCHES)
        self._guard = GuardMemoryReader(control, gate, query)
        self._marks = Marks(self._store.folder / "repaid")
        self._marks_at = float("-inf")
        self._watch = Watch(steady)
        self._facts: JobFacts | None = None
        self._looked_at = float("-inf")
        #: Whether it is over and nobody is shown it: then only its lease is looked at.
        self._rests = False
        self.alive_at = 0.0

    def look(self, asked: Asked, now: float) -> JobFacts:
        """The facts of now; of one that is over, those of a while ago.

        What is wrong with its own files is among them. Raises OSError where the store cannot be read.
        """
        facts = self._facts
        if facts is not None and self._over(facts) and now - self._looked_at < _SELDOM_S:
            return facts
        try:
            self._facts = self._read(asked, now)
        except PermissionError as error:  # of these files: others' can be read
            self._facts = self._unread(asked, error.strerror or str(error))
        except OSError:
            raise
        except Exception as error:  # a file that somebody else has changed
            self._facts = self._unread(asked, f"{type(error).__name__}: {error}".splitlines()[0])
        self._looked_at = now
        return self._facts

    def rest(self) -> None:
        """It is over and not shown: its records need not be remembered."""
        if self._facts is not None and not self._rests:
            self._rests = True
            self._follower = LedgerFollower(self._ledger, SHOWN_BATCHES)
            self._facts = replace(self._facts, records=(), published=None, guard=None)

    def wake(self) -> None:
        """It is shown: what was forgotten of it is read with the next look."""
        if self._rests:
            self._rests, self._looked_at = False, float("-inf")

    def _read(self, asked: Asked, now: float) -> JobFacts:
        holder = self._store.lease.holder()
        ended = holder is not None and holder.released
        facts = self._facts
        if self._rests and ended and facts is not None and facts.holder == holder:
            return facts
        self._rests = False
        written_at = self._store.lease.written_at
        self._follower.look()
        records = self._follower.records
        running = None if ended or not records else self._store.begun_at(records[-1].batch + 1)
        first = None if ended or records else first_batch_in(self._store)
        guard: GuardInsides | None = self._guard.look() if asked.kind == "guard" else None
        last = records[-1].started_at if records else 0.0
        self.alive_at = max(written_at or 0.0, last)
        return JobFacts(
            gate=self.gate,
            query=self.query,
            asked=asked,
            holder=holder,
            heartbeat_age_s=self._silent_s(holder, written_at, now),
            published=self._store.published(),
            records=records,
            totals=self._follower.totals,
            running_since=running,
            first_batch=first,
            guard=guard,
            repaid=self._repaid(now),
            fault=self._ledger.no_records,
        )

    def _repaid(self, now: float) -> int:
        """Looked up seldom: a backfill runs for minutes, and days apart."""
        if not 0.0 <= now - self._marks_at < _SELDOM_S:
            self._marks.look()
            self._marks_at = now
        return sum(self._marks.rows().values())

    def _silent_s(self, holder: Holder | None, written_at: float | None, now: float) -> float | None:
        if holder is None or written_at is None:
            return None
        return self._watch.silent_s("", holder, lambda: max(0.0, now - written_at))

    def _unread(self, asked: Asked, fault: str) -> JobFacts:
        """What was known of it before, and why it is no newer."""
        return replace(self._facts or JobFacts(self.gate, self.query, asked), fault=fault)

    @staticmethod
    def _over(facts: JobFacts) -> bool:
        return facts.ended or (facts.heartbeat_age_s or 0.0) >= GONE_S
