"""The coordinators of many queries: which sites there are, who may say what, and what they are told.

themis-2016 (section 6) says what a coordinator disseminates and leaves open whom it believes. Here:

- A site is one *incarnation* of its name at a time. It holds the name for `lease_s` after each report;
  another incarnation is refused until then, and one that was replaced does not come back.
- The number of a report must rise within an incarnation: what was sent before, and is sent again by
  anybody, is refused. Only the very last message, byte for byte, is answered again, for a site that did
  not get the answer; it renews nothing.
- A message that is refused has no effect at all; one query of it that is refused, none on the others.
- What is kept is bounded: sites, queries, queries of one site, sources of a query, replaced
  incarnations.
- Time is the coordinator's own monotonic clock. No message bears a time.

Decisions are pure (`apply_report`); this keeps their results, after the journal has them. After a
restart every lease begins anew: nobody could report while the service was down.
"""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from headgate.coordinator.journal import Change, Journal, SiteRecord
from headgate.coordinator.query_state import QueryState, apply_report
from headgate.errors import BadArgument, CoordinatorRefused
from headgate.fairness.jain import jain
from headgate.sites.wire.protocol import VERSION, Leave, QueryReport, QueryUpdate, Reply, Report

__all__ = ["Registry", "RegistrySettings"]


@dataclass(frozen=True)
class RegistrySettings:
    """How long and how much a coordinator remembers."""

    #: Seconds. A site that is silent for longer may be replaced, in its name, its sources and as a
    #: root, and what it accepted no longer counts. Sites report once a second, and pause for 10 s at
    #: most when nobody answered: a shorter lease would take them for dead, a longer one makes a site
    #: that was started again without its folder wait.
    lease_s: float = 15.0
    #: Seconds. A site that is silent for longer is forgotten: its sources no longer count in |S|. Long
    #: enough for a restart of a cluster, in which its information is missing and should be seen to be.
    forget_s: float = 600.0
    #: Sites, and queries in all and of one site.
    max_sites: int = 256
    max_queries: int = 16_384
    max_queries_of_a_site: int = 4096
    #: Names of sources in all that a site says: 2,000 queries with 20 sources each are 40,000.
    max_sources_of_a_site: int = 200_000
    #: Replaced incarnations that are remembered of each site: one that was replaced does not come back
    #: before so many restarts.
    max_retired: int = 256

    def __post_init__(self) -> None:
        if not 0 < self.lease_s <= self.forget_s < float("inf"):
            raise BadArgument(
                f"lease={self.lease_s:g} s, forget={self.forget_s:g} s: both above 0, and a site is not "
                "forgotten before its lease is over"
            )
        for name in (n for n in self.__dataclass_fields__ if n.startswith("max_")):
            if getattr(self, name) < 1:
                raise BadArgument(f"{name}={getattr(self, name)!r}: give a whole number of 1 or more")


class Registry:
    """All sites and queries of one coordinator; safe to use from several threads.

    >>> from headgate.sites.wire.protocol import QueryReport
    >>> registry = Registry()
    >>> avg = QueryReport(sources=("rome-cpu",), root=True, result_sic=0.25)
    >>> registry.report(Report("rome", "0" * 32, 1, {"avg-all": avg})).queries["avg-all"].sic
    0.25
    """

    def __init__(
        self,
        settings: RegistrySettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        journal: Journal | None = None,
    ) -> None:
        self.settings = settings or RegistrySettings()
        self._clock, self._journal = clock, journal
        self._lock = threading.Lock()
        self._sites: dict[str, SiteRecord] = {}
        self._queries: dict[str, QueryState] = {}
        self._hosts: defaultdict[str, set[str]] = defaultdict(set)
        if journal is not None:
            self._sites, self._queries = journal.load()
            for name, query in self._queries.items():
                for site in query.members:
                    self._hosts[site].add(name)
        self._started = self._swept = clock()

    def report(self, report: Report, digest: str = "") -> Reply:
        """Take a site's report and say how its queries fare; `digest` is of the message's bytes."""
        with self._lock:
            now = self._clock()
            self._sweep(now)
            change, again = self._site_change(report, digest, now)
            refused = dict(report.refused)
            after: dict[str, QueryState] = {}
            lives = {name for name in self._sites if self._lives(name, now)}.__contains__
            hosted = self._hosts[report.site]
            named = sum(self._queries[name].members[report.site].names for name in hosted)
            room = _Room(self.settings, len(self._queries), len(hosted), named)
            for name, entry in report.queries.items():
                query = self._queries.get(name)
                if query is not None:
                    query = self._remembered(query, now)
                need = (name not in self._queries, name not in hosted, _names(entry, query, report.site))
                verdict = room.refuses(*need) or apply_report(query, report.site, entry, now, lives)
                if isinstance(verdict, str):
                    refused[name] = verdict
                else:
                    after[name] = verdict
                    room.take(*need)
            if again:  # as things are now, for what was taken the first time
                after = {name: self._queries[name] for name in after if name in self._queries}
            else:
                change.queries.update(after)
                self._keep(change)
            return Reply(
                {name: self._update(query, now) for name, query in after.items()},
                refused,
            )

    def leave(self, leave: Leave, digest: str = "") -> tuple[str, ...]:
        """Take a site out of some of its queries, or of all; returns which queries it left."""
        with self._lock:
            now = self._clock()
            self._sweep(now)
            if leave.site not in self._sites:
                return ()
            change, again = self._site_change(leave, digest, now)
            hosted = self._hosts[leave.site]
            names = sorted(hosted if leave.queries is None else hosted.intersection(leave.queries))
            if again:
                return tuple(names)
            for name in names:
                rest = self._queries[name].without(leave.site)
                change.queries[name] = rest if rest.members else None
            if leave.queries is None:
                record = change.sites[leave.site]
                change.sites[leave.site] = None if record is None else replace(record, present=False)
            self._keep(change)
            return tuple(names)

    def view(self) -> dict[str, Any]:
        """Everything that people may see, as JSON: queries, Jain's index over them, sites."""
        with self._lock:
            now = self._clock()
            self._sweep(now, at_once=True)
            sites, queries = dict(self._sites), dict(self._queries)
            hosts = {name: len(found) for name, found in self._hosts.items()}
            states = {name: self._state(name, now) for name in sites}
        shown = {
            name: _query_view(queries[name], self._update(queries[name], now), now)
            for name in sorted(queries)
        }
        known = [query for query in shown.values() if query["sic"] is not None]
        weights = [query["weight"] for query in known]
        return {
            "v": VERSION,
            "jain": jain([query["sic"] for query in known], weights) if known else None,
            "queries": shown,
            "sites": {
                name: {
                    "state": states[name],
                    "heard_s": max(0.0, now - sites[name].heard),
                    "since_s": max(0.0, now - sites[name].since),
                    "incarnation": sites[name].incarnation[:8],
                    "queries": hosts.get(name, 0),
                }
                for name in sorted(sites)
            },
        }

    def _update(self, query: QueryState, now: float) -> QueryUpdate:
        return query.update(now, self.settings.lease_s, self.settings.forget_s)

    def _site_change(self, said: Report | Leave, digest: str, now: float) -> tuple[Change, bool]:
        """The site's record after this message, and whether it repeats the last one."""
        site, record = said.site, self._sites.get(said.site)
        fresh = SiteRecord(said.incarnation, said.seq, digest, now, now)
        if record is None:
            change = Change({site: fresh})
            if len(self._sites) >= self.settings.max_sites:
                change.sites[self._longest_gone(now)] = None
            return change, False
        if said.incarnation == record.incarnation:
            if said.seq > record.seq:
                going_on = replace(record, seq=said.seq, digest=digest, heard=now, present=True)
                return Change({site: going_on}), False
            if said.seq == record.seq and digest and digest == record.digest:
                return Change(), True
            raise CoordinatorRefused(
                f"message {said.seq} of site {site!r} is not above {record.seq}, the last one heard: "
                "it was sent before, or two processes report as one incarnation; give each a folder "
                "of its own",
                status=409,
                code="replayed",
            )
        if said.incarnation in record.retired:
            raise CoordinatorRefused(
                f"incarnation {said.incarnation[:8]} of site {site!r} was replaced by "
                f"{record.incarnation[:8]} {now - record.since:.0f} s ago: two processes use the "
                "name; stop this one, or give it a name of its own",
                status=409,
                code="replaced",
            )
        if self._lives(site, now):
            wait = self.settings.lease_s - (now - max(record.heard, self._started))
            raise CoordinatorRefused(
                f"site {site!r} is in use since {now - record.since:.0f} s by incarnation "
                f"{record.incarnation[:8]}, heard {now - record.heard:.0f} s ago: give this site "
                f"another name; if it is the same one started anew, it can go on in {wait:.0f} s",
                status=409,
                code="site-taken",
                retry_after_s=math.ceil(wait),
            )
        retired = (*record.retired, record.incarnation)[-self.settings.max_retired :]
        return Change({site: replace(fresh, retired=retired)}), False

    def _lives(self, site: str, now: float) -> bool:
        """Whether the site is here and has reported within its lease."""
        record = self._sites.get(site)
        if record is None or not record.present:
            return False
        return now - max(record.heard, self._started) <= self.settings.lease_s

    def _state(self, site: str, now: float) -> str:
        if not self._sites[site].present:
            return "left"
        return "here" if self._lives(site, now) else "silent"

    def _longest_gone(self, now: float) -> str:
        """A site whose name can be dropped to make room for another: one that hosts nothing."""
        gone = [name for name in self._sites if not self._hosts[name] and not self._lives(name, now)]
        if not gone:
            raise CoordinatorRefused(
                f"this coordinator knows {self.settings.max_sites:,} sites, and that is all it can: "
                "let one take its leave, or start another coordinator",
                status=507,
                code="full",
            )
        return min(gone, key=lambda name: self._sites[name].heard)

    def _remembered(self, query: QueryState, now: float) -> QueryState | None:
        """The query without sites that have been silent for too long; None if nobody is left."""
        oldest = now - self.settings.forget_s
        forgotten = [name for name, member in query.members.items() if member.heard < oldest]
        if not forgotten:
            return query
        rest = query.without(*forgotten)
        return rest if rest.members else None

    def _sweep(self, now: float, *, at_once: bool = False) -> None:
        """Forget who has been silent for too long; now and then, because it looks at everything."""
        if not at_once and now - self._swept < self.settings.forget_s / 60:
            return
        self._swept = now
        change = Change()
        for name, query in self._queries.items():
            rest = self._remembered(query, now)
            if rest is not query:
                change.queries[name] = rest
        if change.queries:
            self._keep(change)

    def _keep(self, change: Change) -> None:
        """Apply a change, in the journal first: if that fails, nothing has changed."""
        if self._journal is not None:
            self._journal.write(change, self._queries)
        for site, record in change.sites.items():
            if record is None:
                del self._sites[site]
                self._hosts.pop(site, None)
            else:
                self._sites[site] = record
        for name, query in change.queries.items():
            before = self._queries.get(name)
            was: Iterable[str] = () if before is None else before.members
            for site in was:
                if query is None or site not in query.members:
                    self._hosts[site].discard(name)
            if query is None:
                self._queries.pop(name, None)
                continue
            self._queries[name] = query
            for site in query.members:
                if site not in was:
                    self._hosts[site].add(name)


@dataclass(slots=True)
class _Room:
    """How much more there may be: queries in all, queries at one site, and names that it says."""

    settings: RegistrySettings
    queries: int
    at_the_site: int
    names: int

    def refuses(self, new: bool, joins: bool, names: int) -> str | None:
        """Why there is no room for this query, if there is none."""
        most = self.settings.max_queries
        if new and self.queries >= most:
            return (
                f"this coordinator hosts {most:,} queries, and that is all it can: let sites leave "
                "some, or start another coordinator for this one"
            )
        most = self.settings.max_queries_of_a_site
        if joins and self.at_the_site >= most:
            return f"this site hosts {most:,} queries, and no site may host more: let it leave some"
        most = self.settings.max_sources_of_a_site
        if names > 0 and self.names + names > most:
            return f"this site would name more than {most:,} sources in all: join some before that"
        return None

    def take(self, new: bool, joins: bool, names: int) -> None:
        """Count what a report that was accepted brings."""
        self.queries += new
        self.at_the_site += joins
        self.names += names


def _names(entry: QueryReport, query: QueryState | None, site: str) -> int:
    """How many more names the site says of the query than before."""
    before = None if query is None else query.members.get(site)
    now = len(entry.sources) + len(entry.of or ())
    return now if before is None else now - before.names


def _query_view(query: QueryState, update: QueryUpdate, now: float) -> dict[str, Any]:
    declared = query.declared
    held = frozenset[str]().union(*(member.sources for member in query.members.values()))
    return {
        "sic": update.sic,
        "age_s": update.age_s,
        "sources": update.sources,
        "weight": update.weight,
        "priority": update.priority,
        "root": query.root,
        "declared": declared is not None,
        "missing": [] if declared is None else sorted(declared - held - query.left),
        "sites": {
            site: {
                "sources": sorted(member.sources),
                "accepted_sic": member.accepted_sic,
                "heard_s": max(0.0, now - member.heard),
            }
            for site, member in sorted(query.members.items())
        },
    }
