"""`Observer`: looks at a control store again and again, at a cost that does not grow with its age.

A look lists the gates and their queries, reads the small files of those that run (settings, lease, plan)
and of each ledger what was appended since the last look. Queries that have ended are looked at seldom.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from headgate.errors import ControlFolderError, HeadgateError
from headgate.store.folder import is_used
from headgate.store.guards import guard_in
from headgate.store.lease import GONE_S
from headgate.store.ledger.follow import LedgerFollower
from headgate.store.ledger.records import Ledger, gates_in, queries_of
from headgate.store.places.place import Place
from headgate.store.plans import PlanStore
from headgate.store.repaid.marks import Marks
from headgate.store.settings_file import SettingsFile
from headgate.view.facts import Asked, GuardInsides, JobFacts
from headgate.view.fair_shares import Sites, sites_in
from headgate.view.guard_memory import GuardMemoryReader
from headgate.view.job import Job, describe
from headgate.view.verdict import Verdict, judge_all

__all__ = ["Observer", "View"]

#: Batches whose records are kept for the charts.
SHOWN_BATCHES = 240
#: A query that is over, or whose driver is gone, is looked at so seldom.
_SELDOM_S = 20.0
#: Queries that are shown at most: those that were alive last.
_MOST_JOBS = 24


@dataclass(frozen=True)
class View:
    """All that the page says, as of one look."""

    control: str
    at: float
    verdict: Verdict
    jobs: tuple[Job, ...]
    sites: Sites | None = None
    #: Queries that ended and are not shown.
    older: int = 0
    #: Why nothing newer is known; empty where the look succeeded.
    stale: str = ""

    def job(self, key: str) -> Job | None:
        """The job of this key."""
        return next((job for job in self.jobs if job.key == key), None)


class _Watched:
    """What is remembered of one gate in one query between looks."""

    def __init__(self, control: Place, gate: str, query: str, clock: Callable[[], float]) -> None:
        self.gate, self.query = gate, query
        self._store = PlanStore(control, gate, query, clock)
        self._follower = LedgerFollower(Ledger(control, gate, query), SHOWN_BATCHES)
        self._guard = GuardMemoryReader(control, gate, query)
        self._marks = Marks(self._store.folder / "repaid")
        self._marks_at = float("-inf")
        self._facts: JobFacts | None = None
        self._looked_at = float("-inf")
        self.alive_at = 0.0

    def look(self, asked: Asked, now: float) -> JobFacts:
        """The facts of now; of one that is over, those of a while ago."""
        if self._facts is not None and self._over(self._facts) and now - self._looked_at < _SELDOM_S:
            return self._facts
        holder = self._store.lease.holder()
        written_at = self._store.lease.written_at
        self._follower.look()
        records = self._follower.records
        ended = holder is not None and holder.released
        running = None if ended or not records else self._store.begun_at(records[-1].batch + 1)
        guard: GuardInsides | None = self._guard.look() if asked.kind == "guard" else None
        self._facts = JobFacts(
            gate=self.gate,
            query=self.query,
            asked=asked,
            holder=holder,
            heartbeat_age_s=None if written_at is None else max(0.0, now - written_at),
            published=self._store.published(),
            records=records,
            totals=self._follower.totals,
            running_since=running,
            guard=guard,
            repaid=self._repaid(now),
        )
        self._looked_at = now
        last = records[-1].started_at if records else 0.0
        self.alive_at = max(written_at or 0.0, last)
        return self._facts

    def _repaid(self, now: float) -> int:
        """Looked up seldom: a backfill runs for minutes, and days apart."""
        if not 0.0 <= now - self._marks_at < _SELDOM_S:
            self._marks.look()
            self._marks_at = now
        return sum(self._marks.rows().values())

    @staticmethod
    def _over(facts: JobFacts) -> bool:
        return facts.ended or (facts.heartbeat_age_s or 0.0) >= GONE_S


class Observer:
    """Looks at one control store."""

    def __init__(self, control: Place, clock: Callable[[], float] = time.time) -> None:
        self.control, self._clock = control, clock
        self._watched: dict[tuple[str, str], _Watched] = {}

    def look(self) -> View:
        """The view of now; raises OSError or `ControlFolderError` where the store cannot be read."""
        now = self._clock()
        names = [(gate, query) for gate in gates_in(self.control) for query in self._queries(gate)]
        if not names and self._watched and not is_used(self.control):
            raise ControlFolderError("it is not there any more")
        self._watched = {key: self._watched.get(key) or self._new(*key) for key in names}
        asked = {gate: self._asked(gate) for gate in {gate for gate, _ in names}}
        found = [(w.look(asked[w.gate], now), w.alive_at) for w in self._watched.values()]
        over = [facts.ended for facts, _ in found]
        order = sorted(range(len(found)), key=lambda i: (over[i], -found[i][1]))
        shown = sorted(order[:_MOST_JOBS], key=lambda i: (over[i], found[i][0].gate, -found[i][1]))
        jobs = tuple(describe(found[i][0], now) for i in shown)
        # The first line names the one that keeps least; the cards stay where they are.
        ranked = sorted(jobs, key=lambda job: 1.0 if job.kept_share is None else job.kept_share)
        return View(
            control=str(self.control),
            at=now,
            verdict=judge_all([(job.name, job.verdict) for job in ranked]),
            jobs=jobs,
            sites=sites_in(self.control, now),
            older=len(found) - len(shown),
        )

    def _queries(self, gate: str) -> list[str]:
        return queries_of(self.control, gate)

    def _new(self, gate: str, query: str) -> _Watched:
        return _Watched(self.control, gate, query, self._clock)

    def _asked(self, gate: str) -> Asked:
        try:
            guard = guard_in(self.control, gate)
            if guard is not None:
                return Asked.of_guard(guard)
            file = SettingsFile(self.control, gate)
            return Asked.of_gate(file.effective(), file.overrides())
        except (HeadgateError, ValueError) as error:  # cut off by a crash, or of another version
            return Asked(fault=str(error))
