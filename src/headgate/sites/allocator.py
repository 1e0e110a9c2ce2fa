"""One site's decision: the gates of an application share its cores, and every query degrades alike.

themis-2016, section 6: each node decides for itself, each shedding interval, from the capacity it has,
the tuples it is offered and the result SIC that coordinators disseminate. On Spark the node is an
application; its sources and its derived inputs come through gates; its capacity is cores and time.

Where this departs from the paper:

- *Capacity* is task time on the site's cores, not tuples: streams cost differently, each has a price
  that has nothing to do with rows (`StreamCost`), and plans are trimmed to what happens
  (`SiteCapacity`).
- *The improved shedder hears what all sites accepted*, and not the result's SIC, which comes late.
- *A grant is an amount that grows with time*, rows a second, the mean of the decisions that a batch
  collects over. Whoever pins a batch's plan knows its size and the time that it covers, so a batch that
  is larger because of a burst keeps no more than was granted (`SiteShare`).

No Spark and no thread here; clocks come in as arguments. `SharedSite` lets one thread in at a time.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

from headgate.core.load import LoadSample
from headgate.sites.accounts import GateAccount, QueryView, cleaned
from headgate.sites.capacity import SiteCapacity
from headgate.sites.settings import SiteSettings
from headgate.sites.shedders import Entitled, Offer, shedder
from headgate.sites.state import SiteState

__all__ = ["SiteAllocator"]

#: The least SIC of a derived row: at 0 it would be shed before any source's.
_LEAST_SIC = 1e-9


class SiteAllocator:
    """Decides how much of every gate to keep, from the site's `state`."""

    def __init__(self, settings: SiteSettings) -> None:
        self.settings = settings
        self.state = SiteState(settings)
        self._capacity = SiteCapacity(settings)
        self._shedder = shedder(settings.shedding, settings.mirror(), settings.seed)
        self._decided_s: float | None = None
        self.overloaded = False
        #: The share of the offered work that fitted, as of the last decision.
        self._fits = 1.0
        #: Capacity for rows beside what is offered, as of the last decision.
        self._room = 1.0

    def on_batch(self, gate: str, sample: LoadSample, now_s: float) -> None:
        """Learn from a batch of this gate: what came, what it cost, and whether it was late."""
        if gate not in self.state.gates:
            return
        sample = cleaned(sample)
        stream = self.state.note(gate, sample, now_s)
        running = self.state.running
        if stream.add(gate, sample, self._capacity.each(running(now_s)), now_s):
            self._capacity.ended(stream, running(now_s), self.overloaded)

    def capacity(self, now_s: float) -> float:
        """Task seconds a second for rows; or rows a second, where the capacity is given in rows."""
        return self._capacity.for_rows(self.state.running(now_s))

    def room(self, rows_per_s: Mapping[str, float], now_s: float) -> float:
        """How many times these rows a second, by gate, surely fit; infinite where they cost nothing.

        A row counts with the most that it can cost. Where batches are too much alike to tell, what is
        believed of its price falls and falls; who comes back with a minute's rows must not believe it.
        """
        prices = {name: price for name in rows_per_s if (price := self.state.price(name)) is not None}
        in_rows = self.settings.rows_per_s is not None
        work = math.fsum(
            rows_per_s[name] * (1.0 if in_rows else price.most_per_row_s)
            for name, price in prices.items()
        )
        running = {*self.state.running(now_s), *prices.values()}
        return self._capacity.surely_for_rows(running) / work if work > 0.0 else math.inf

    @property
    def trim(self) -> float:
        """How far the capacity that was planned is trimmed to what really happens."""
        return self._capacity.trim

    def decide(self, now_s: float) -> None:
        """One shedding interval: how much of every gate to keep, and the SIC of its rows."""
        interval = self.settings.interval_s
        begun = now_s - interval if self._decided_s is None else self._decided_s
        elapsed = round((now_s - begun) / interval)
        if elapsed < 1:
            return
        # Whole intervals: what the clock is ahead of them, or behind, counts the next time.
        self._decided_s = begun + elapsed * interval
        self.state.forget_streams(now_s)
        views = self.state.views(now_s)
        self._shedder.queries(
            {
                query: Entitled(view.share, view.weight, self.state.priority(query))
                for query, view in views.items()
            }
        )
        offers = self._offers(views, now_s)
        reported: dict[Hashable, float] = {
            query: self._reported(query, view, now_s) for query, view in views.items()
        }
        capacity = self.capacity(now_s) * interval
        offered = sum(offer.tuples * offer.cost for offer in offers.values())
        self.overloaded = offered > capacity
        self._fits = capacity / offered if self.overloaded else 1.0
        self._room = self.room({name: offer.tuples / interval for name, offer in offers.items()}, now_s)
        if self.settings.shedding == "balance-sic":
            # The published one knows no ledger: without a word it starts from what was accepted.
            reported = {query: _number(view.sic) for query, view in views.items()}
        # A tick that came late stands for those that it missed: acceptance went on in between.
        for _ in range(min(elapsed, self.settings.tuning.caught_up)):
            kept = self._shedder.keep(list(offers.values()), capacity, reported)
        for (name, offer), share in zip(offers.items(), kept, strict=True):
            gate = self.state.gates[name]
            if gate.derived and share >= 1.0:
                # All of them, however many come: they are few, and come in lumps.
                gate.grants.clear()
                gate.rate, gate.quota, gate.per_s = 1.0, None, None
            else:
                self._grant(gate, share * offer.tuples / interval, elapsed, now_s)

    def _offers(self, views: Mapping[str, QueryView], now_s: float) -> dict[str, Offer]:
        """What each gate brings in an interval, by gate; those without a batch so far are left out."""
        found = {}
        for name, gate in self.state.gates.items():
            stream = self.state.streams.get(gate.stream)
            if gate.query not in views or stream is None or not stream.known:
                # Nothing is known of its rows yet, or no longer.
                gate.rate = gate.quota = gate.per_s = None
                continue
            self.state.set_sic(gate, views[gate.query].sources, now_s)
            tuples = self.expected(gate, now_s)
            if self.settings.shedding != "random":
                # Others get what this one cannot process in time. At random all lose the same share.
                tuples = min(tuples, self.possible(gate, now_s, stream.batch_s))
            sic = gate.sic
            if gate.derived:
                arrived = gate.offered.per_second(now_s)
                sic = gate.brought.per_second(now_s) / arrived if arrived > 0 else 0.0
                sic = max(sic, _LEAST_SIC)
            cost = stream.per_row_s if self.settings.rows_per_s is None else 1.0
            found[name] = Offer(gate.query, gate.derived, tuples * self.settings.interval_s, sic, cost)
        return found

    def _reported(self, query: str, view: QueryView, now_s: float) -> float:
        """The query's SIC as the shedder hears it: what all sites accept, times what reaches the result.

        The result's own SIC (section 6) comes windows and hops late, minutes where batches are long, and
        all that time a query is taken for poorer or richer than it is. What sites accept they know at
        once. Derived rows are not shed, so what reaches the result of it changes slowly, if at all.
        """
        known, update = self.state.accounts[query], self.state.updates.get(query)
        stw, tuning = self.settings.stw_s, self.settings.tuning
        measured = view.sic if view.told_by != "site" else math.nan
        accepted = None
        if update is not None and now_s - update.heard_s <= self.settings.stale_s:
            accepted = update.accepted
        if accepted is None and view.share >= 1.0:
            accepted = view.accepted
        if accepted is None:
            return measured
        settled = known.since_s is not None and now_s - known.since_s > tuning.settled * stw
        if settled and accepted > 0.0 and not math.isnan(measured):
            step = self.settings.interval_s / (tuning.patience * stw)
            known.passes += step * (min(1.0, measured / accepted) - known.passes)
        return accepted * known.passes

    def _grant(self, gate: GateAccount, granted: float, elapsed: int, now_s: float) -> None:
        """So many rows a second from this decision; a batch gets the mean of those it collects over.

        Decisions that follow each other differ a lot: what falls out of the window is made up for. A
        stream with a long trigger would otherwise always meet the same few of them.
        """
        if not self.overloaded:
            gate.grants.clear()
        gate.grants.extend([granted] * min(elapsed, self.settings.tuning.caught_up))
        most = max(1, round(self.settings.stw_s / self.settings.interval_s))
        stream = self.state.streams[gate.stream]
        collects = round(stream.collects_s(now_s) / self.settings.interval_s)
        while len(gate.grants) > most:
            gate.grants.popleft()
        latest = list(gate.grants)[-max(1, collects) :]
        granted, expected = sum(latest) / len(latest), self.expected(gate, now_s)
        gate.rate = min(1.0, granted / expected) if expected > 0 else 1.0
        gate.quota = granted if gate.rate < 1.0 else None
        coming = self.coming(gate, now_s)
        if coming <= 0.0:  # it has had no row so far: an amount for it would be none
            gate.per_s = None
            return
        gate.per_s = gate.rate * coming
        if gate.rate >= 1.0:
            gate.per_s *= max(self._room, self.settings.tuning.lumps)

    def rate(self, gate: str, now_s: float) -> float:
        """The share of a gate's next batch to keep: what was granted, over what is expected now."""
        account = self.state.gates[gate]
        stream = self.state.streams.get(account.stream)
        kept = self.opening(account) if account.rate is None else account.rate
        if stream is None or not stream.known:
            return kept
        expected = self.expected(account, now_s)
        if expected <= 0.0:
            return kept
        # Batches follow each other faster than decisions do: the stream's own limit holds at once.
        most = self.possible(account, now_s, stream.collects_s(now_s))
        if account.quota is not None:
            most = min(most, account.quota)
        return min(kept, most / expected)

    def opening(self, gate: GateAccount) -> float:
        """The share to keep of a stream of which nothing is known yet: as much as of the others."""
        if gate.start is not None:
            return gate.start
        if not self.overloaded or gate.derived:
            return 1.0
        alike = len({known.priority for known in self.state.accounts.values()}) == 1
        if alike and math.isfinite(self.level):
            return min(1.0, max(0.0, self.level) * self.state.weight(gate.query))
        return self._fits

    def expected(self, gate: GateAccount, now_s: float) -> float:
        """Rows a second that the next batch brings: a rise counts at once, a fall by and by."""
        if gate.batches < 2 or self._is_quiet(gate, now_s):
            return gate.offered.per_second(now_s)
        window = self._window(gate)
        return gate.arrivals.rows(window, None) / window

    def _window(self, gate: GateAccount) -> float:
        """How long a batch of the gate collects at most."""
        return gate.arrivals.window(max(self.state.streams[gate.stream].interval_s, 1e-3))

    def coming(self, gate: GateAccount, now_s: float) -> float:
        """Rows a second of its next batch that has any.

        A source that is quiet just now comes back with its usual rows, and not with what is left of
        their mean by then.
        """
        expected = self.expected(gate, now_s)
        return max(expected, gate.offered.while_collecting) if self._is_quiet(gate, now_s) else expected

    def _is_quiet(self, gate: GateAccount, now_s: float) -> bool:
        """Whether its rows stay away."""
        stream = self.state.streams[gate.stream]
        silent = now_s - self.state.seen_s(gate)
        return silent > self.settings.tuning.rate.quiet * max(self._window(gate), stream.duration_s)

    def possible(
        self, gate: GateAccount, now_s: float, over_s: float, *, returning: bool = False
    ) -> float:
        """Rows a second of this gate that its stream can process in time, if it had all the cores.

        A batch covers `over_s`. Where a stream has derived rows and a source's, the source gets what the
        derived rows leave. `returning`: of a batch in which rows come that stay away just now.
        """
        if self.settings.rows_per_s is not None:
            return math.inf
        stream = self.state.streams[gate.stream]
        most = stream.most_rows(self.settings.cores) / over_s
        rows = {True: 0.0, False: 0.0}
        count = self.coming if returning else self.expected
        for other in self.state.gates.values():
            if other.stream == gate.stream:
                rows[other.derived] += count(other, now_s)
        if not gate.derived:
            most = max(0.0, most - rows[True])
        own, together = count(gate, now_s), rows[gate.derived]
        # Of one that has had no row so far nobody knows its part; and what has no bound has no parts.
        return most * own / together if own > 0.0 and math.isfinite(most) else most

    @property
    def level(self) -> float:
        """The SIC to which the last decision lifted queries; infinite if nothing was shed."""
        return self._shedder.level

    def snapshot(self) -> dict[str, Any]:
        """What was learned and outlasts a restart, as JSON."""
        return {"trim": self.trim, **self.state.snapshot()}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`; nothing changes where that cannot be read."""
        trim = self._capacity.checked(float(value["trim"]))
        self.state.restore(value)
        self._capacity.trim = trim


def _number(value: float) -> float:
    return 0.0 if math.isnan(value) else value
