"""One query as its coordinator knows it: who hosts it, its sources, its root, its SIC; and the rules.

themis-2016 (section 6) has a coordinator for each query, made when the query is deployed, which knows
its fragments. Here nobody deploys: sites come, say what they hold, and go, so the coordinator must know
what to believe.

- A source is held by one site, and the first that says so has it while its lease lives.
- The result's SIC is believed from one site only, the root: the first that says so, while its lease
  lives.
- \\|S| counts the sources that are held, or those that a site has declared (`of`) where one has. A site
  that falls silent still counts: its information is missing from the result, which is what SIC should
  say. One that takes its leave, or is silent for so long that it is forgotten, does not.

Records are never changed: a rule that holds returns a new one, and a rule that does not, the reason. So
a report that is refused has no effect, and a journal can have its word before anything changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from headgate.sites.wire.protocol import MAX_SIC, MAX_SOURCES, QueryReport, QueryUpdate, listed

__all__ = ["Member", "QueryState", "apply_report"]


@dataclass(frozen=True, slots=True)
class Member:
    """What one site said of its part in a query, and when (by the coordinator's clock)."""

    sources: frozenset[str]
    of: frozenset[str] | None
    accepted_sic: float | None
    heard: float

    @property
    def names(self) -> int:
        """How many names of sources this site has said."""
        return len(self.sources) + len(self.of or ())


@dataclass(frozen=True, slots=True)
class QueryState:
    """A query that at least one site hosts."""

    members: Mapping[str, Member] = field(default_factory=dict)
    #: Declared sources that are no longer anybody's: their site took its leave, or was forgotten.
    left: frozenset[str] = frozenset()
    root: str | None = None
    sic: float | None = None
    sic_at: float = 0.0
    weight: float = 1.0
    priority: int = 0

    @property
    def declared(self) -> frozenset[str] | None:
        """All sources of the query, if a site has declared them."""
        return next((m.of for m in self.members.values() if m.of is not None), None)

    @property
    def sources(self) -> int:
        """\\|S| of Eq. 1, the whole query's."""
        declared = self.declared
        if declared is None:
            return sum(len(member.sources) for member in self.members.values())
        return len(declared) - len(self.left)

    def update(self, now: float, lease_s: float, forget_s: float) -> QueryUpdate:
        """What every site that hosts the query is told.

        What a site accepted counts for `lease_s` after its report, a SIC for `forget_s`.
        """
        age = None if self.sic is None else max(0.0, now - self.sic_at)
        sic = self.sic
        if age is None or age > forget_s:
            sic, age = None, None
        accepted = self._accepted(now, lease_s)
        return QueryUpdate(sic, age, self.sources, self.weight, self.priority, accepted)

    def _accepted(self, now: float, lease_s: float) -> float | None:
        """What all sites accepted together: a silent one adds nothing; None while one has never said."""
        holders = [member for member in self.members.values() if member.sources]
        parts = [m.accepted_sic if now - m.heard <= lease_s else 0.0 for m in holders]
        if not holders or any(part is None for part in parts):
            return None
        return min(MAX_SIC, sum(part for part in parts if part is not None))

    def without(self, *sites: str) -> QueryState:
        """The query after these sites are gone, and what they held with them."""
        members = {name: m for name, m in self.members.items() if name not in sites}
        gone = frozenset[str]().union(*(self.members[s].sources for s in sites if s in self.members))
        root = None if self.root in sites else self.root
        return replace(self, members=members, left=self.left | gone, root=root)._tidy()

    def _tidy(self) -> QueryState:
        """Keep in `left` only sources that were declared and that no site holds."""
        declared = self.declared
        if declared is None:
            return self if not self.left else replace(self, left=frozenset())
        held = frozenset[str]().union(*(m.sources for m in self.members.values()))
        left = (self.left & declared) - held
        return self if left == self.left else replace(self, left=left)


def apply_report(
    query: QueryState | None, site: str, report: QueryReport, now: float, lives: Callable[[str], bool]
) -> QueryState | str:
    """The query after a site's report of it, or why the report is refused.

    `lives` says whether a site's lease does: whoever is silent for longer may be replaced.
    """
    if query is None:
        query = QueryState()
    sources = frozenset(report.sources)
    of = None if report.of is None else frozenset(report.of)
    reason = _root_is_another(query, site, report, lives)
    if reason:
        return reason
    before, members, left = query.members.get(site), query.members, query.left
    same = before is not None and before.sources == sources and before.of == of
    if not same:  # otherwise it was looked at when it was said first, and holds since
        others = _others(query, site, sources, lives)
        if isinstance(others, str):
            return others
        reason = _of_does_not_fit(others, sources, of)
        if reason:
            return reason
        members, left = others, left if before is None else left | (before.sources - sources)
    root = site if report.root else None if query.root == site else query.root
    speaks = report.root or root is None
    after = QueryState(
        {**members, site: Member(sources, of, report.accepted_sic, now)},
        left,
        root,
        query.sic if report.result_sic is None else report.result_sic,
        query.sic_at if report.result_sic is None else now,
        report.weight if speaks else query.weight,
        report.priority if speaks else query.priority,
    )
    return after if same else after._tidy()


def _others(
    query: QueryState, site: str, sources: frozenset[str], lives: Callable[[str], bool]
) -> dict[str, Member] | str:
    """The other sites, without what this one takes from those that are silent; or why it may not."""
    others = {name: member for name, member in query.members.items() if name != site}
    count = len(sources)
    for name, member in others.items():
        shared = sources & member.sources
        if shared and lives(name):
            return (
                f"source {min(shared)!r} is held by site {name!r}: a source counts once; give this "
                f"one a name of its own, or take it from {name!r} first"
            )
        if shared:
            others[name] = replace(member, sources=member.sources - shared)
        count += len(others[name].sources)
    if count > MAX_SOURCES:
        return f"the query would have more than {MAX_SOURCES:,} sources: join some before they count"
    return others


def _of_does_not_fit(
    others: Mapping[str, Member], sources: frozenset[str], of: frozenset[str] | None
) -> str | None:
    for name, member in others.items():
        if member.of is None:
            continue
        if of is not None and of != member.of:
            return (
                f"site {name!r} declared {len(member.of)} sources ({listed(member.of)}) and this one "
                f"{len(of)} ({listed(of)}): declare the same everywhere; to change it, let {name!r} "
                "take its leave first"
            )
        if not sources <= member.of:
            return (
                f"source {min(sources - member.of)!r} is unknown: the query's sources are "
                f"{listed(member.of)}, as site {name!r} declared; correct the name, or declare it there"
            )
    if of is not None:
        for name, member in others.items():
            if not member.sources <= of:
                return (
                    f"of= lacks {min(member.sources - of)!r}, which site {name!r} holds: declare all "
                    "sources of the query, wherever they are"
                )
    return None


def _root_is_another(
    query: QueryState, site: str, report: QueryReport, lives: Callable[[str], bool]
) -> str | None:
    if report.root and query.root not in (None, site) and lives(query.root or ""):
        return (
            f"site {query.root!r} is the query's root: a result comes out at one site; leave "
            f"site.result out here (in a report: root and result_sic), or stop it at {query.root!r}"
        )
    return None
