"""`Observer`: looks at a control store again and again, at a cost that does not grow with its age.

A look lists the gates and their queries, reads the small files of those that run (settings, lease, plan)
and of each ledger what was appended since the last look. Queries that have ended are looked at seldom.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headgate.errors import ControlFolderError, DamagedFile
from headgate.store.folder import is_used
from headgate.store.guards import guard_in
from headgate.store.ledger.records import gates_in, queries_of
from headgate.store.places.place import Place, asks_server
from headgate.store.settings_file import SettingsFile
from headgate.view.facts import Asked, JobFacts
from headgate.view.fair_shares import Sites, sites_in
from headgate.view.job import Job, describe
from headgate.view.verdict import LEVELS, Verdict, judge_all
from headgate.view.watched import Watched

__all__ = ["Observer", "View"]

#: Queries that are shown at most: those that run, the worst first, and then those that were alive last.
_MOST_JOBS = 24
#: One whose driver has been silent for longer gives way to all that were heard of since.
_LOST_S = 3600.0
#: Gates that are looked at together in an object store, where each look is some requests.
_AT_ONCE = 16


@dataclass(frozen=True)
class View:
    """All that the page says, as of one look."""

    control: str
    at: float
    verdict: Verdict
    #: Those that are shown.
    jobs: tuple[Job, ...]
    sites: Sites | None = None
    #: Those that run and are not shown; the verdict and the metrics are of them, too.
    more: tuple[Job, ...] = ()
    #: Queries that ended and are not shown.
    older: int = 0
    #: Why nothing newer is known; empty where the look succeeded.
    stale: str = ""

    def job(self, key: str) -> Job | None:
        """The job of this key."""
        return next((job for job in (*self.jobs, *self.more) if job.key == key), None)


class Observer:
    """Looks at one control store."""

    def __init__(self, control: Place, clock: Callable[[], float] = time.time) -> None:
        self.control, self._clock = control, clock
        self._steady = time.monotonic if clock is time.time else clock
        self._watched: dict[tuple[str, str], Watched] = {}

    def look(self) -> View:
        """The view of now; raises OSError or `ControlFolderError` where the store cannot be read."""
        now = self._clock()
        names = [(gate, query) for gate in gates_in(self.control) for query in self._queries(gate)]
        if not names and self._watched and not is_used(self.control):
            raise ControlFolderError("it is not there any more")
        self._watched = {key: self._watched.get(key) or self._new(*key) for key in names}
        asked = {gate: self._asked(gate) for gate in {gate for gate, _ in names}}
        found = list(zip(self._watched.values(), self._facts(asked, now), strict=True))
        running = [(w, _described(facts, now)) for w, facts in found if not facts.ended]
        running.sort(key=_worst_first)
        ended = sorted((pair for pair in found if pair[1].ended), key=lambda pair: -pair[0].alive_at)
        places = max(0, _MOST_JOBS - len(running))
        shown = running[:_MOST_JOBS] + [(w, _described(f, now)) for w, f in ended[:places]]
        for watched, _ in shown:
            watched.wake()
        for watched, _ in ended[places:]:
            watched.rest()
        # The cards stay where they are, whoever is the worst just now.
        shown.sort(key=lambda pair: (pair[1].facts.ended, pair[1].name, -pair[0].alive_at))
        jobs, more = ([job for _, job in some] for some in (shown, running[_MOST_JOBS:]))
        # The first line names the one that keeps least.
        ranked = sorted(jobs + more, key=lambda job: 1.0 if job.kept_share is None else job.kept_share)
        return View(
            control=str(self.control),
            at=now,
            verdict=judge_all([(job.name, job.verdict) for job in ranked]),
            jobs=tuple(jobs),
            sites=sites_in(self.control, now),
            more=tuple(more),
            older=len(ended[places:]),
        )

    def _facts(self, asked: Mapping[str, Asked], now: float) -> list[JobFacts]:
        """What is so of each; many at once where each look is some requests."""

        def look(watched: Watched) -> JobFacts:
            return watched.look(asked[watched.gate], now)

        if not asks_server(self.control):
            return [look(watched) for watched in self._watched.values()]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(look, self._watched.values()))

    def _queries(self, gate: str) -> list[str]:
        return queries_of(self.control, gate)

    def _new(self, gate: str, query: str) -> Watched:
        return Watched(self.control, gate, query, self._clock, self._steady)

    def _asked(self, gate: str) -> Asked:
        try:
            guard = guard_in(self.control, gate)
            if guard is not None:
                return Asked.of_guard(guard)
            file = SettingsFile(self.control, gate)
            return Asked.of_gate(file.effective(), file.overrides())
        except PermissionError as error:
            return Asked(fault=error.strerror or str(error))
        except DamagedFile as error:
            return Asked(fault=str(error))
        except OSError:
            raise
        except Exception as error:  # cut off by a crash, of another version, or changed by somebody else
            return Asked(fault=str(error))


def _described(facts: JobFacts, now: float) -> Job:
    """In words; of one whose files make no sense, that they do not."""
    try:
        return describe(facts, now)
    except Exception as error:  # values that nobody here has written
        fault = f"{type(error).__name__}: {error}".splitlines()[0]
        bare = JobFacts(facts.gate, facts.query, facts.asked, facts.holder, fault=fault)
        return describe(bare, now)


def _worst_first(pair: tuple[Watched, Job]) -> tuple[bool, int, float]:
    """Those that were heard of lately, by their verdict; then those that nobody steers any more."""
    watched, job = pair
    lost = (job.facts.heartbeat_age_s or 0.0) > _LOST_S
    return lost, LEVELS.index(job.verdict.level), -watched.alive_at
