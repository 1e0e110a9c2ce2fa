"""One site: the gates of an application share its cores, and every query degrades alike.

themis-2016, section 6: each node decides for itself, each shedding interval, from the capacity it has,
the tuples it is offered and the result SIC that coordinators disseminate. On Spark the node is an
application; its sources and its derived inputs come through gates; its capacity is cores and time.

Where this departs from the paper:

- *Capacity* is task time on the site's cores, not tuples: streams cost differently, each has a price
  that has nothing to do with rows (`StreamCost`), and plans are trimmed to what happens
  (`SiteCapacity`).
- *Counts* are rates over the time that batches collect (`Trailing`), and a source that sends more than
  was agreed does not earn more for it (`Agreed`).
- *A query without a coordinator's word* is judged by what this site accepted of it.

No Spark and no thread here; clocks come in as arguments. Callers guard it with a lock of their own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from typing import Any

from headgate.errors import BadArgument
from headgate.load import LoadSample
from headgate.sites.accounts import GateShare, QueryShare, QueryView, Told, cleaned
from headgate.sites.agreed import Agreed
from headgate.sites.capacity import SiteCapacity
from headgate.sites.protocol import QueryReport
from headgate.sites.settings import SiteSettings
from headgate.sites.shedders import Entitled, Offer, shedder
from headgate.sites.streams import StreamCost
from headgate.sites.trailing import Trailing

__all__ = ["GateShare", "QueryView", "SiteSettings", "SiteShares", "Told"]

#: A decision that comes late stands for at most so many.
_CAUGHT_UP = 20
#: Derived rows are worth this at least.
_NEXT_TO_NOTHING = 1e-9
#: After so many windows results are compared with what was accepted, and over so many more.
_SETTLED, _PATIENCE = 3.0, 5.0


class SiteShares:
    """The site's account of its queries, gates and streams; and its decision."""

    def __init__(self, settings: SiteSettings) -> None:
        self.settings = settings
        self.gates: dict[str, GateShare] = {}
        self.streams: dict[str, StreamCost] = {}
        self._capacity = SiteCapacity(settings)
        self._queries: dict[str, QueryShare] = {}
        self._told: dict[str, Told] = {}
        self._shedder = shedder(settings.shedding, settings.mirror(), settings.seed)
        self._decided_s: float | None = None
        #: What gates usually had before a restart.
        self._usual: dict[str, float] = {}
        self.overloaded = False
        #: The share of the offered work that fitted, as of the last decision.
        self._fits = 1.0

    # Who is here.

    def declare(
        self,
        query: str,
        *,
        weight: float | None = None,
        priority: int | None = None,
        of: tuple[str, ...] | None = None,
    ) -> None:
        """A query of this site; the first call begins it, later ones change what they name."""
        known = self._queries.get(query) or QueryShare()
        # A coordinator's rules, here at the call: what it would refuse is never reported.
        QueryReport(
            self.sources_of(query),
            of=None if of is None else tuple(dict.fromkeys(of)),
            weight=known.weight if weight is None else weight,
            priority=known.priority if priority is None else priority,
        )
        if of is not None and known.of is not None and set(known.of) != set(of):
            raise BadArgument(
                f"query {query!r} has the sources {', '.join(known.of)}, and now {', '.join(of)}: "
                "declare them once, all of them"
            )
        self._queries[query] = known
        known.weight = known.weight if weight is None else float(weight)
        known.priority = known.priority if priority is None else priority
        known.of = known.of if of is None else tuple(dict.fromkeys(of))

    def _require_source(self, query: str, source: str) -> None:
        of = self._queries[query].of
        if of is not None and source not in of:
            raise BadArgument(
                f"source {source!r} is not one of query {query!r}'s: {', '.join(of)}; correct the name, "
                "or declare the query with all of its sources"
            )

    def enter(
        self,
        gate: str,
        *,
        query: str,
        source: str | None,
        hold_s: float | None = None,
        agreed: float | None = None,
        start: float | None = None,
    ) -> None:
        """A gate of the site; one that was there before goes on."""
        self.declare(query)
        if source is not None:
            self._require_source(query, source)
        for name, other in self.gates.items():
            if name != gate and source is not None and (other.query, other.source) == (query, source):
                raise BadArgument(
                    f"source {source!r} of query {query!r} already comes through gate {name!r}: give "
                    "each source its own name"
                )
        hold = self.settings.hold_s if hold_s is None else hold_s
        stw = self.settings.stw_s
        limit = None if agreed is None else agreed * stw
        known = Agreed(limit, 60.0 * stw)
        before = self.gates.get(gate)
        if before is not None and (before.query, before.source) == (query, source):
            known.remember(before.agreed.usual)
            before.hold_s, before.agreed, before.start = hold, known, start
            return
        known.remember(self._usual.get(gate))
        if before is not None and before.query != query:
            self.leave(gate)
        else:
            self.withdraw(gate)
        self.declare(query)
        self.gates[gate] = entered = GateShare(
            query, source, hold, known, start=start,
            offered=Trailing(stw), accepted=Trailing(stw), brought=Trailing(stw),
        )  # fmt: skip
        entered.rate = self._opening(entered)

    def leave(self, gate: str) -> None:
        """A gate's stream ended: it is no load any more, and its query ends with its last gate."""
        gone = self.withdraw(gate)
        if gone is not None and not any(other.query == gone.query for other in self.gates.values()):
            self._forget(gone.query)

    def withdraw(self, gate: str) -> GateShare | None:
        """The gate goes; what was declared of its query stays."""
        gone = self.gates.pop(gate, None)
        if gone is None:
            return None
        if not any(other.stream == gone.stream for other in self.gates.values()):
            self.streams.pop(gone.stream, None)
        elif gone.stream in self.streams:
            self.streams[gone.stream].leave(gate)
        return gone

    def end(self, query: str) -> None:
        """The query ended here: its gates go, and its results are measured no more."""
        for name in [name for name, gate in self.gates.items() if gate.query == query]:
            self.leave(name)
        self._forget(query)

    def _forget(self, query: str) -> None:
        self._queries.pop(query, None)
        self._told.pop(query, None)

    # What comes in.

    def hear(self, gate: str, sample: LoadSample, now_s: float) -> None:
        """A batch of this gate is over."""
        account = self.gates.get(gate)
        if account is None:
            return
        sample = cleaned(sample)
        stream = self.streams.get(sample.stream)
        if stream is None:
            stream = self.streams[sample.stream] = StreamCost(account.hold_s)
        account.stream = sample.stream
        stream.enter(gate, account.hold_s)
        stream.derived = stream.derived or account.derived
        usual = sample.interval_s or account.hold_s
        elapsed = now_s - account.heard_s if account.batches else usual
        account.arrivals.add(sample)
        account.offered.add(sample.started_at, sample.arrived, usual, now_s)
        account.accepted.add(sample.started_at, sample.sic_kept, usual, now_s)
        account.brought.add(sample.started_at, sample.sic_arrived, usual, now_s)
        account.batches += 1
        account.heard_s = now_s
        known = self._queries[account.query]
        known.since_s = now_s if known.since_s is None else known.since_s
        count = account.offered.per_window(now_s)
        account.agreed.learn(count, elapsed)
        self._value(account, self._count(account.query), now_s)
        running = self._running(now_s)
        if stream.add(gate, sample, self._capacity.each(running), now_s):
            self._capacity.ended(stream, self._running(now_s), self.overloaded)

    def at_work(self, streams: Collection[str], now_s: float) -> None:
        """These streams are processing a batch just now: a long one is no silence."""
        busy = {name for name in streams if name in self.streams}
        for name in busy:
            self.streams[name].at_work_s = now_s
        for gate in self.gates.values():
            if gate.stream in busy:
                for trailing in (gate.offered, gate.accepted, gate.brought):
                    trailing.at_work(now_s)
        for known in self._queries.values():
            if known.results is not None and known.results_of in streams:
                known.results.at_work(now_s)

    def results(self, query: str, sample: LoadSample, now_s: float) -> None:
        """Results of a query left this site, worth `sample.sic_arrived` together."""
        known = self._queries.get(query)
        if known is None or known.results is None:
            return  # it has ended here
        sample = cleaned(sample)
        usual = sample.interval_s or self.settings.hold_s
        known.results_of = sample.stream
        known.results.add(sample.started_at, sample.sic_arrived, usual, now_s)

    def measures_results(self, query: str) -> bool:
        """Whether this site is the query's root: results are measured here."""
        known = self._queries.get(query)
        return known is not None and known.results is not None

    def will_measure(self, query: str) -> None:
        """This site is the query's root."""
        self.declare(query)
        known = self._queries[query]
        if known.results is None:
            known.results = Trailing(self.settings.stw_s)

    def hear_coordinator(self, told: Mapping[str, Told]) -> None:
        """What coordinators said just now."""
        for query, word in told.items():
            if query in self._queries and (word.sic is None or 0.0 <= word.sic < math.inf):
                self._told[query] = word

    # What goes out.

    def sources_of(self, query: str) -> tuple[str, ...]:
        """The query's sources at this site."""
        return tuple(g.source for g in self.gates.values() if g.query == query and g.source is not None)

    def weight(self, query: str) -> float:
        """What the query may claim beside the others."""
        return self._queries[query].weight

    def priority(self, query: str) -> int:
        """Who is served first."""
        return self._queries[query].priority

    def declared(self, query: str) -> tuple[str, ...] | None:
        """All sources of the query, where that was declared here."""
        return self._queries[query].of

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries of this site."""
        return tuple(self._queries)

    def _count(self, query: str) -> int:
        """|S|: how many sources the whole query has."""
        here = len(self.sources_of(query))
        of = self._queries[query].of
        told = self._told.get(query)
        return max(1, here, len(of) if of is not None else 0, told.sources if told is not None else 0)

    def accepted(self, query: str, now_s: float) -> float:
        """Source SIC of the query that was accepted here in the last window."""
        mine = (g for g in self.gates.values() if g.query == query and g.source is not None)
        return sum(g.accepted.per_window(now_s) for g in mine)

    def result_sic(self, query: str, now_s: float) -> float | None:
        """The query's SIC as measured at its root, if that is here and a result has come."""
        results = self._queries[query].results
        return results.per_window(now_s) if results is not None and results.known else None

    def view(self, query: str, now_s: float) -> QueryView:
        """The query as this site sees it."""
        known, total = self._queries[query], self._count(query)
        share = min(1.0, len(self.sources_of(query)) / total)
        accepted = self.accepted(query, now_s)
        told = self._told.get(query)
        measured = self.result_sic(query, now_s)
        if told is not None and told.sic is not None and now_s - told.at_s <= self.settings.stale_s:
            sic, told_by = told.sic, "coordinator"
        elif measured is not None:
            sic, told_by = measured, "result"
        else:
            sic, told_by = (accepted / share if share > 0 else math.nan), "site"
        return QueryView(sic, told_by, accepted, share, known.weight, total)

    def views(self, now_s: float) -> dict[str, QueryView]:
        """All that live."""
        return {query: self.view(query, now_s) for query in self._queries if self.lives(query, now_s)}

    def _running(self, now_s: float) -> list[StreamCost]:
        return [stream for stream in self.streams.values() if not stream.silent(now_s)]

    def capacity(self, now_s: float) -> float:
        """Task seconds a second that are there for rows; or rows, where capacity is given so."""
        return self._capacity.for_rows(self._running(now_s))

    @property
    def trim(self) -> float:
        """How far the capacity that was planned is trimmed to what really happens."""
        return self._capacity.trim

    def lives(self, query: str, now_s: float) -> bool:
        """Whether the query has gates here that are new, or have had rows lately."""
        mine = [gate for gate in self.gates.values() if gate.query == query]
        return not mine or any(
            not gate.batches or now_s - self._seen_s(gate) <= max(30.0, 3.0 * self.settings.stw_s)
            for gate in mine
        )

    def _seen_s(self, gate: GateShare) -> float:
        """When the gate was heard of, or its stream seen at work."""
        stream = self.streams.get(gate.stream)
        return gate.heard_s if stream is None else max(gate.heard_s, stream.at_work_s)

    def decide(self, now_s: float) -> None:
        """One shedding interval: how much of every gate to keep, and what its rows are worth."""
        interval = self.settings.interval_s
        begun = now_s - interval if self._decided_s is None else self._decided_s
        elapsed = round((now_s - begun) / interval)
        if elapsed < 1:
            return
        # Whole intervals: what the clock is ahead of them, or behind, counts the next time.
        self._decided_s = begun + elapsed * interval
        self._clear(now_s)
        views = self.views(now_s)
        self._shedder.queries(
            {
                query: Entitled(view.share, view.weight, self._queries[query].priority)
                for query, view in views.items()
            }
        )
        names, offers = [], []
        for name, gate in self.gates.items():
            stream = self.streams.get(gate.stream)
            if gate.query not in views or stream is None or not stream.known:
                # Nothing is known of its rows yet, or no longer.
                gate.rate, gate.quota = self._opening(gate), None
                continue
            self._value(gate, views[gate.query].sources, now_s)
            tuples = min(self._expected(gate, now_s), self._possible(gate, now_s)) * interval
            sic = gate.sic
            if gate.derived:
                arrived = gate.offered.per_second(now_s)
                sic = gate.brought.per_second(now_s) / arrived if arrived > 0 else 0.0
                sic = max(sic, _NEXT_TO_NOTHING)  # worth 0 would be shed before any source
            names.append(name)
            cost = stream.per_row_s if self.settings.rows_per_s is None else 1.0
            offers.append(Offer(gate.query, gate.derived, tuples, sic, cost))
        reported: dict[Hashable, float] = {
            query: self._reported(query, view, now_s) for query, view in views.items()
        }
        capacity = self.capacity(now_s) * interval
        offered = sum(o.tuples * o.cost for o in offers)
        self.overloaded = offered > capacity
        self._fits = capacity / offered if self.overloaded else 1.0
        if self.settings.shedding == "balance-sic":
            # The published one knows no ledger: without a word it starts from what was accepted.
            reported = {query: _number(view.sic) for query, view in views.items()}
        # A tick that came late stands for those that it missed: acceptance went on in between.
        for _ in range(min(elapsed, _CAUGHT_UP)):
            kept = self._shedder.keep(offers, capacity, reported)
        for name, offer, share in zip(names, offers, kept, strict=True):
            gate = self.gates[name]
            if gate.derived and share >= 1.0:
                # All of them, however many come: they are few, and come in lumps.
                gate.grants.clear()
                gate.rate, gate.quota = 1.0, None
            else:
                self._grant(gate, share * offer.tuples / interval, elapsed, now_s)

    def _reported(self, query: str, view: QueryView, now_s: float) -> float:
        """The query's SIC as the shedder hears it: what all sites accept, times what reaches the result.

        The result's own SIC (section 6) comes windows and hops late, minutes where batches are long, and
        all that time a query is taken for poorer or richer than it is. What sites accept they know at
        once. Derived rows are not shed, so what reaches the result of it changes slowly, if at all.
        """
        known, told = self._queries[query], self._told.get(query)
        measured = view.sic if view.told_by != "site" else math.nan
        accepted = None
        if told is not None and now_s - told.heard_s <= self.settings.stale_s:
            accepted = told.accepted
        if accepted is None and view.share >= 1.0:
            accepted = view.accepted
        if accepted is None:
            return measured
        settled = known.since_s is not None and now_s - known.since_s > _SETTLED * self.settings.stw_s
        if settled and accepted > 0.0 and not math.isnan(measured):
            step = self.settings.interval_s / (_PATIENCE * self.settings.stw_s)
            known.passes += step * (min(1.0, measured / accepted) - known.passes)
        return accepted * known.passes

    def _grant(self, gate: GateShare, granted: float, elapsed: int, now_s: float) -> None:
        """So many rows a second from this decision; a batch gets the mean of those it collects over.

        Decisions that follow each other differ a lot: what falls out of the window is made up for. A
        stream with a long trigger would otherwise always meet the same few of them.
        """
        if not self.overloaded:
            gate.grants.clear()
        gate.grants.extend([granted] * min(elapsed, _CAUGHT_UP))
        most = max(1, round(self.settings.stw_s / self.settings.interval_s))
        collects = round(self.streams[gate.stream].collects_s(now_s) / self.settings.interval_s)
        while len(gate.grants) > most:
            gate.grants.popleft()
        latest = list(gate.grants)[-max(1, collects) :]
        granted, expected = sum(latest) / len(latest), self._expected(gate, now_s)
        gate.rate = min(1.0, granted / expected) if expected > 0 else 1.0
        gate.quota = granted if gate.rate < 1.0 else None

    def rate(self, gate: str, now_s: float) -> float:
        """The share of a gate's next batch to keep: what was granted, if more rows have come since."""
        account = self.gates[gate]
        stream = self.streams.get(account.stream)
        expected = 0.0 if stream is None or not stream.known else self._expected(account, now_s)
        if expected <= 0.0:
            return account.rate
        # Batches follow each other faster than decisions do: the stream's own limit holds at once.
        most = self._possible(account, now_s)
        if account.quota is not None:
            most = min(most, account.quota)
        return min(account.rate, most / expected)

    def _opening(self, gate: GateShare) -> float:
        """What to keep of a stream of which nothing is known: as much as of the others."""
        if gate.start is not None:
            return gate.start
        if not self.overloaded or gate.derived:
            return 1.0
        alike = len({known.priority for known in self._queries.values()}) == 1
        if alike and math.isfinite(self.level):
            return min(1.0, max(0.0, self.level) * self._queries[gate.query].weight)
        return self._fits

    def _clear(self, now_s: float) -> None:
        """A stream that ended, and whose gates are in another one now, is forgotten."""
        used = {gate.stream for gate in self.gates.values()}
        for name in [n for n, s in self.streams.items() if n not in used and s.silent(now_s)]:
            del self.streams[name]

    def _expected(self, gate: GateShare, now_s: float) -> float:
        """Rows a second that the next batch brings: a rise counts at once, a fall by and by."""
        stream = self.streams[gate.stream]
        window = gate.arrivals.window(max(stream.interval_s, 1e-3))
        latest = gate.arrivals.rows(window, None) / window
        trailing = gate.offered.per_second(now_s)
        if gate.batches < 2:
            return trailing
        quiet = now_s - self._seen_s(gate)
        return latest if quiet <= 2.5 * max(window, stream.duration_s) else trailing

    def _possible(self, gate: GateShare, now_s: float) -> float:
        """Rows a second of this gate that its stream can process in time, if it had all the cores.

        Where a stream has derived rows and a source's, the source gets what the derived rows leave.
        """
        if self.settings.rows_per_s is not None:
            return math.inf
        stream = self.streams[gate.stream]
        most = stream.most_rows(self.settings.cores) / stream.collects_s(now_s)
        rows = {True: 0.0, False: 0.0}
        for other in self.gates.values():
            if other.stream == gate.stream:
                rows[other.derived] += self._expected(other, now_s)
        if not gate.derived:
            most = max(0.0, most - rows[True])
        together = rows[gate.derived]
        return most * self._expected(gate, now_s) / together if together > 0 else most

    def _value(self, gate: GateShare, sources: int, now_s: float) -> None:
        """What a row is worth (Eq. 1), with what was agreed as the most that counts."""
        if gate.source is None:
            return
        count = min(gate.offered.per_window(now_s), gate.agreed.limit)
        gate.sic = 1.0 / (count * sources) if count > 0 else 0.0

    @property
    def level(self) -> float:
        """The SIC to which the last decision lifted queries; infinite if nothing was shed."""
        return self._shedder.level

    def snapshot(self) -> dict[str, Any]:
        """What was learned and outlasts a restart, as JSON."""
        return {
            "trim": self.trim,
            "usual": {name: gate.agreed.usual for name, gate in self.gates.items()},
        }

    def remember(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`; what belongs to a gate waits until the gate enters."""
        usual = {str(name): float(v) for name, v in dict(value["usual"]).items() if v is not None}
        self._capacity.remember(float(value["trim"]))
        self._usual = usual


def _number(value: float) -> float:
    return 0.0 if math.isnan(value) else value
