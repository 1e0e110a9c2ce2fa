"""One site: the gates of an application share its cores, and every query degrades alike.

themis-2016, section 6: each node decides for itself, each shedding interval, from the capacity it has,
the tuples it is offered and the result SIC that coordinators disseminate. On Spark the node is an
application; its sources and its derived inputs come through gates; its capacity is cores and time.

Where this departs from the paper:

- *Capacity* is task time on the site's cores, not tuples: streams cost differently, each has a price
  that has nothing to do with rows (`StreamCost`), and plans are trimmed to what happens
  (`SiteCapacity`).
- *The improved shedder hears what all sites accepted*, and not the result's SIC, which comes late.
- *A grant is a rate*, the mean of the decisions that a batch collects over.

No Spark and no thread here; clocks come in as arguments. Callers guard it with a lock of their own.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

from headgate.core.load import LoadSample
from headgate.sites.accounts import CoordinatorUpdate, GateAccount, QueryView, cleaned
from headgate.sites.capacity import SiteCapacity
from headgate.sites.settings import SiteSettings
from headgate.sites.shedders import Entitled, Offer, shedder
from headgate.sites.state import SiteState
from headgate.sites.streams import StreamCost

__all__ = ["GateAccount", "QueryView", "SiteSettings", "SiteAllocator", "CoordinatorUpdate"]

#: A decision that comes late stands for at most so many.
_CAUGHT_UP = 20
#: Of so many gates and streams what was learned is kept for a restart; those that run come first.
_REMEMBERED = 1000
#: Derived rows are worth this at least.
_NEXT_TO_NOTHING = 1e-9
#: After so many windows results are compared with what was accepted, and over so many more.
_SETTLED, _PATIENCE = 3.0, 5.0


class SiteAllocator(SiteState):
    """The site's books, and its decision over them."""

    def __init__(self, settings: SiteSettings) -> None:
        super().__init__(settings)
        self._capacity = SiteCapacity(settings)
        self._shedder = shedder(settings.shedding, settings.mirror(), settings.seed)
        self._decided_s: float | None = None
        self.overloaded = False
        #: The share of the offered work that fitted, as of the last decision.
        self._fits = 1.0

    def on_batch(self, gate: str, sample: LoadSample, now_s: float) -> None:
        """A batch of this gate is over."""
        if gate not in self.gates:
            return
        sample = cleaned(sample)
        stream = self.note(gate, sample, now_s)
        if stream.add(gate, sample, self._capacity.each(self._running(now_s)), now_s):
            self._capacity.ended(stream, self._running(now_s), self.overloaded)

    def capacity(self, now_s: float) -> float:
        """Task seconds a second that are there for rows; or rows, where capacity is given so."""
        return self._capacity.for_rows(self._running(now_s))

    @property
    def trim(self) -> float:
        """How far the capacity that was planned is trimmed to what really happens."""
        return self._capacity.trim

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

    def _grant(self, gate: GateAccount, granted: float, elapsed: int, now_s: float) -> None:
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

    def _opening(self, gate: GateAccount) -> float:
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

    def _expected(self, gate: GateAccount, now_s: float) -> float:
        """Rows a second that the next batch brings: a rise counts at once, a fall by and by."""
        stream = self.streams[gate.stream]
        window = gate.arrivals.window(max(stream.interval_s, 1e-3))
        latest = gate.arrivals.rows(window, None) / window
        trailing = gate.offered.per_second(now_s)
        if gate.batches < 2:
            return trailing
        quiet = now_s - self._seen_s(gate)
        return latest if quiet <= 2.5 * max(window, stream.duration_s) else trailing

    def _possible(self, gate: GateAccount, now_s: float) -> float:
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

    @property
    def level(self) -> float:
        """The SIC to which the last decision lifted queries; infinite if nothing was shed."""
        return self._shedder.level

    def snapshot(self) -> dict[str, Any]:
        """What was learned and outlasts a restart, as JSON."""
        usual: dict[str, float | None] = dict(self._usual)
        usual |= {name: gate.agreed.usual for name, gate in self.gates.items()}
        prices: dict[str, Mapping[str, Any]] = dict(self._prices)
        prices |= {name: stream.snapshot() for name, stream in self.streams.items() if stream.known}
        return {
            "trim": self.trim,
            "usual": dict(list(usual.items())[-_REMEMBERED:]),
            "prices": dict(list(prices.items())[-_REMEMBERED:]),
        }

    def remember(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`; what belongs to a gate or a stream waits until that comes."""
        usual = {str(name): float(v) for name, v in dict(value["usual"]).items() if v is not None}
        prices: dict[str, Mapping[str, Any]] = {
            str(name): dict(of) for name, of in dict(value["prices"]).items()
        }
        for of in prices.values():
            StreamCost(self.settings.hold_s).restore(of)  # refuses what is no price
        self._capacity.remember(float(value["trim"]))
        self._prices = prices
        self._usual = usual


def _number(value: float) -> float:
    return 0.0 if math.isnan(value) else value
