"""Who is at a site, and what came: the state that its decisions are made from.

Queries, the gates that their rows come through, the streams that these are in, and what coordinators
say. The SIC of a row (themis-2016, Eq. 1) and of a query (Eq. 4) follow from them.
Departures: counts are rates over the time that batches collect (`WindowedRate`); a source that sends
more than was agreed does not earn more for it (`Agreed`); and a query without a coordinator's word is
judged by what this site accepted of it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping
from typing import Any

from headgate.core.load import LoadSample
from headgate.core.row_sic import RowSic
from headgate.errors import BadArgument
from headgate.sites.accounts import (
    CoordinatorUpdate,
    GateAccount,
    OneStream,
    QueryAccount,
    QueryView,
    cleaned,
)
from headgate.sites.agreed import Agreed
from headgate.sites.settings import SiteSettings
from headgate.sites.streams import StreamCost
from headgate.sites.windowed_rate import WindowedRate
from headgate.sites.wire.protocol import QueryReport

__all__ = ["SiteState"]

log = logging.getLogger("headgate")

#: Of so many gates and streams what was learned is kept for a restart; those that run come first.
_REMEMBERED = 1000


class SiteState:
    """The site's account of its queries, gates and streams, by name.

    It decides nothing and has no lock: `SiteAllocator` decides, `SharedSite` has the lock.
    """

    def __init__(self, settings: SiteSettings) -> None:
        self.settings = settings
        self.gates: dict[str, GateAccount] = {}
        self.streams: dict[str, StreamCost] = {}
        self.accounts: dict[str, QueryAccount] = {}
        #: What coordinators last said, by query.
        self.updates: dict[str, CoordinatorUpdate] = {}
        #: What gates usually had before a restart.
        self._usual: dict[str, float] = {}
        #: What the rows of streams cost before a restart.
        self._prices: dict[str, Mapping[str, Any]] = {}
        #: The streams that gates were in before a restart.
        self._streams_of: dict[str, str] = {}

    # Who is here.

    def declare(
        self,
        query: str,
        *,
        weight: float | None = None,
        priority: int | None = None,
        of: tuple[str, ...] | None = None,
    ) -> None:
        """Register a query, or change what a later call names of it: weight, priority, its sources."""
        known = self.accounts.get(query) or QueryAccount()
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
        self.accounts[query] = known
        known.weight = known.weight if weight is None else float(weight)
        known.priority = known.priority if priority is None else priority
        known.of = known.of if of is None else tuple(dict.fromkeys(of))

    def _require_source(self, query: str, source: str) -> None:
        of = self.accounts[query].of
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
    ) -> GateAccount:
        """Register a gate; one of the same name, query and source goes on with what it has learned."""
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
        tuning = self.settings.tuning
        known = Agreed(limit, tuning.agreement.patience * stw, tuning.agreement)
        before = self.gates.get(gate)
        if before is not None and (before.query, before.source) == (query, source):
            known.restore(before.agreed.usual)
            before.hold_s, before.agreed, before.start = hold, known, start
            return before
        known.restore(self._usual.get(gate))
        if before is not None and before.query != query:
            self.leave(gate)
        else:
            self.withdraw(gate)
        self.declare(query)
        offered, accepted, brought = (WindowedRate(stw, tuning.rate) for _ in range(3))
        self.gates[gate] = GateAccount(
            query, source, hold, known, offered=offered, accepted=accepted, brought=brought, start=start
        )
        return self.gates[gate]

    def leave(self, gate: str) -> None:
        """Remove a gate whose stream ended; its query ends with its last gate."""
        gone = self.withdraw(gate)
        if gone is not None and not any(other.query == gone.query for other in self.gates.values()):
            self._forget(gone.query)

    def withdraw(self, gate: str) -> GateAccount | None:
        """Remove a gate and return its account; what was declared of its query stays."""
        gone = self.gates.pop(gate, None)
        if gone is None:
            return None
        if not any(other.stream == gone.stream for other in self.gates.values()):
            self.streams.pop(gone.stream, None)
        elif gone.stream in self.streams:
            self.streams[gone.stream].leave(gate)
        return gone

    def end(self, query: str) -> None:
        """Remove a query, with its gates and the measurement of its results."""
        for name in [name for name, gate in self.gates.items() if gate.query == query]:
            self.leave(name)
        self._forget(query)

    def _forget(self, query: str) -> None:
        self.accounts.pop(query, None)
        self.updates.pop(query, None)

    # What comes in.

    def note(self, gate: str, sample: LoadSample, now_s: float) -> StreamCost:
        """Add a batch of this gate to its account; returns the stream that it was of."""
        account = self.gates[gate]
        stream = self.streams.get(sample.stream)
        if stream is None:
            stream = self.streams[sample.stream] = StreamCost(account.hold_s, self.settings.tuning)
            self._restore_prices(sample.stream)
        stream.enter(gate, account.hold_s)
        stream.derived = stream.derived or account.derived
        # One that does not count takes its time of the cores all the same, and brings nothing new.
        if self._counts(account.runs_in, sample, f"gate {gate!r}"):
            self._add(account, sample, stream.duration_s, now_s)
        self.set_sic(account, self._count(account.query), now_s)
        return stream

    def _add(self, account: GateAccount, sample: LoadSample, before_s: float, now_s: float) -> None:
        usual = sample.interval_s or account.hold_s
        elapsed = now_s - account.heard_s if account.batches else usual
        account.arrivals.add(sample)
        for rate, amount in (
            (account.offered, sample.arrived),
            (account.accepted, sample.sic.kept),
            (account.brought, sample.sic.arrived),
        ):
            rate.add(sample.started_at, amount, usual, now_s, before_s)
        account.batches += 1
        account.heard_s = now_s
        known = self.accounts[account.query]
        known.since_s = now_s if known.since_s is None else known.since_s
        count = account.offered.per_window(now_s)
        account.agreed.learn(count, elapsed)

    def _restore_prices(self, stream: str) -> None:
        prices = self._prices.pop(stream, None)
        if prices is not None:
            self.streams[stream].restore(prices)

    @staticmethod
    def _counts(account: OneStream, sample: LoadSample, what: str) -> bool:
        known = account.two
        found = account.counts(sample.stream, sample.batch_id)
        if account.two and not known:
            log.warning(
                "%s is in two streams at once, and only the rows of one count: give each stream a gate "
                "and a query of its own, or write to both sinks in one foreachBatch",
                what,
            )
        return found

    def at_work(self, streams: Collection[str], now_s: float) -> None:
        """Note that these streams are processing a batch just now: a long batch is no silence."""
        busy = {name for name in streams if name in self.streams}
        for name in busy:
            self.streams[name].at_work_s = now_s
        for gate in self.gates.values():
            if gate.stream in busy:
                for rate in (gate.offered, gate.accepted, gate.brought):
                    rate.at_work(now_s)
        for known in self.accounts.values():
            if known.results is not None and known.results_of.name in streams:
                known.results.at_work(now_s)

    def results(self, query: str, sample: LoadSample, now_s: float) -> None:
        """Add a batch of results of a query whose root is here; their SIC is `sample.sic.arrived`."""
        known = self.accounts.get(query)
        if known is None or known.results is None:
            return  # it has ended here
        sample = cleaned(sample)
        if not self._counts(known.results_of, sample, f"the result of query {query!r}"):
            return
        known.came = known.came or sample.arrived > 0
        stream = self.streams.get(sample.stream)
        before = 0.0 if stream is None else stream.duration_s
        usual = sample.interval_s or self.settings.hold_s
        known.results.add(sample.started_at, sample.sic.arrived, usual, now_s, before)

    def measures_results(self, query: str) -> bool:
        """Whether this site is the query's root: results are measured here."""
        known = self.accounts.get(query)
        return known is not None and known.results is not None

    def will_measure(self, query: str) -> None:
        """Make this site the query's root: its results are measured here."""
        self.declare(query)
        known = self.accounts[query]
        if known.results is None:
            known.results = WindowedRate(self.settings.stw_s, self.settings.tuning.rate)

    def apply_updates(self, updates: Mapping[str, CoordinatorUpdate]) -> None:
        """Keep what coordinators said just now of queries that are here, if it can be true."""
        for query, update in updates.items():
            if query in self.accounts and (update.sic is None or 0.0 <= update.sic < math.inf):
                self.updates[query] = update

    # What goes out.

    def sources_of(self, query: str) -> tuple[str, ...]:
        """The query's sources at this site."""
        return tuple(g.source for g in self.gates.values() if g.query == query and g.source is not None)

    def weight(self, query: str) -> float:
        """The query's weight: one of weight 2 is entitled to twice the SIC."""
        return self.accounts[query].weight

    def priority(self, query: str) -> int:
        """The query's priority: a higher one is served whole before a lower one gets anything."""
        return self.accounts[query].priority

    def declared(self, query: str) -> tuple[str, ...] | None:
        """All sources of the query, where that was declared here."""
        return self.accounts[query].of

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries of this site."""
        return tuple(self.accounts)

    def _count(self, query: str, here: int | None = None) -> int:
        """|S|: how many sources the whole query has; `here` are those of this site, where counted."""
        here = len(self.sources_of(query)) if here is None else here
        of = self.accounts[query].of
        update = self.updates.get(query)
        said = 0 if update is None else update.sources
        return max(1, here, len(of) if of is not None else 0, said)

    def accepted(self, query: str, now_s: float) -> float:
        """Source SIC of the query that was accepted here in the last window."""
        mine = (g for g in self.gates.values() if g.query == query and g.source is not None)
        return sum(g.accepted.per_window(now_s) for g in mine)

    def result_sic(self, query: str, now_s: float) -> float | None:
        """The query's SIC as measured at its root, if that is here and a result has come."""
        known = self.accounts[query]
        # While all windows are still open nobody knows what comes out of them.
        return known.results.per_window(now_s) if known.results is not None and known.came else None

    def view(self, query: str, now_s: float) -> QueryView:
        """The query as this site sees it."""
        known, here = self.accounts[query], len(self.sources_of(query))
        total = self._count(query, here)
        share = min(1.0, here / total)
        accepted = self.accepted(query, now_s)
        update = self.updates.get(query)
        measured = self.result_sic(query, now_s)
        fresh = update is not None and now_s - update.at_s <= self.settings.stale_s
        if update is not None and update.sic is not None and fresh:
            sic, told_by = update.sic, "coordinator"
        elif measured is not None:
            sic, told_by = measured, "result"
        else:
            sic, told_by = (accepted / share if share > 0 else math.nan), "site"
        return QueryView(sic, told_by, accepted, share, known.weight, total)

    def views(self, now_s: float) -> dict[str, QueryView]:
        """Every query of this site that has had rows lately, as the site sees it."""
        return {query: self.view(query, now_s) for query in self.accounts if self.lives(query, now_s)}

    def running(self, now_s: float) -> list[StreamCost]:
        """The streams that have something to do."""
        return [stream for stream in self.streams.values() if not stream.silent(now_s)]

    def lives(self, query: str, now_s: float) -> bool:
        """Whether the query has gates here that are new, or have had rows lately."""
        mine = [gate for gate in self.gates.values() if gate.query == query]
        tuning = self.settings.tuning
        longest = max(tuning.gone_s, tuning.gone_windows * self.settings.stw_s)
        return not mine or any(not gate.batches or now_s - self.seen_s(gate) <= longest for gate in mine)

    def seen_s(self, gate: GateAccount) -> float:
        """When the gate's last batch was reported, or its stream was last seen at work."""
        stream = self.streams.get(gate.stream)
        return gate.heard_s if stream is None else max(gate.heard_s, stream.at_work_s)

    def set_sic(self, gate: GateAccount, sources: int, now_s: float) -> None:
        """The SIC of a source's row (Eq. 1), with what was agreed as the most that counts."""
        if gate.source is None:
            return
        count = min(gate.offered.per_window(now_s), gate.agreed.limit)
        gate.sic = 1.0 / (count * sources) if count > 0 else 0.0

    def row_sic(self, gate: GateAccount) -> RowSic | None:
        """What a row of the gate's next batch is worth, by that batch's size; None while nobody knows.

        The first batch of all brings a number that says nothing of a whole window.
        """
        usual = gate.agreed.usual
        per_s = gate.offered.while_collecting or (usual or 0.0) / self.settings.stw_s
        if gate.source is None or per_s <= 0.0:
            return None
        stream = self.streams.get(gate.stream)
        batch_s = gate.hold_s if stream is None else max(stream.interval_s, stream.duration_s)
        usual_s = max(batch_s, gate.offered.usual_s)
        pause_s = gate.offered.pause_s(usual_s)
        sources = self._count(gate.query)
        return RowSic(per_s, self.settings.stw_s, sources, usual_s, pause_s, gate.agreed.limit)

    def usual(self, name: str, now_s: float) -> dict[str, float]:
        """Rows a second that are usual for this gate and for those beside it, as far as they are known.

        Gates that were here before a restart and are not back yet count: they come with a backlog, too.
        """
        found = {one: usual for one, usual in self._usual.items() if one not in self.gates}
        for one, gate in self.gates.items():
            if gate.agreed.usual and (one == name or self.lives(gate.query, now_s)):
                found[one] = gate.agreed.usual
        return {one: usual / self.settings.stw_s for one, usual in found.items()}

    def price(self, name: str) -> StreamCost | None:
        """What the rows of a gate's stream cost, before a restart if not since; None: nobody knows."""
        gate, before = self.gates.get(name), self._streams_of.get(name, "")
        stream = self.streams.get(before if gate is None else gate.stream or before)
        if stream is None:
            prices = self._prices.get(before)
            if prices is None:
                return None
            hold_s = self.settings.hold_s if gate is None else gate.hold_s
            stream = StreamCost(hold_s, self.settings.tuning)
            stream.restore(prices)
        return stream if stream.known else None

    def forget_streams(self, now_s: float) -> None:
        """Drop streams that have stopped and whose gates are in another one now."""
        used = {gate.stream for gate in self.gates.values()}
        for name in [n for n, s in self.streams.items() if n not in used and s.silent(now_s)]:
            del self.streams[name]

    # What outlasts a restart.

    def snapshot(self) -> dict[str, Any]:
        """What gates usually bring and what streams' rows cost, as JSON."""
        usual: dict[str, float | None] = dict(self._usual)
        usual |= {name: gate.agreed.usual for name, gate in self.gates.items()}
        prices: dict[str, Mapping[str, Any]] = dict(self._prices)
        prices |= {name: stream.snapshot() for name, stream in self.streams.items() if stream.known}
        streams = self._streams_of | {name: g.stream for name, g in self.gates.items() if g.stream}
        return {
            "usual": dict(list(usual.items())[-_REMEMBERED:]),
            "prices": dict(list(prices.items())[-_REMEMBERED:]),
            "streams": dict(list(streams.items())[-_REMEMBERED:]),
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`; what belongs to a gate or a stream waits until that comes."""
        usual = {str(name): float(v) for name, v in dict(value["usual"]).items() if v is not None}
        prices: dict[str, Mapping[str, Any]] = {
            str(name): dict(of) for name, of in dict(value["prices"]).items()
        }
        for of in prices.values():
            StreamCost(self.settings.hold_s).restore(of)  # refuses what is no price
        streams = {str(gate): str(of) for gate, of in dict(value.get("streams", {})).items()}
        self._prices, self._usual, self._streams_of = prices, usual, streams
