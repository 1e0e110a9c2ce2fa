"""The improved shedder: mirror feedback, derived tuples first, a water level over counts.

BALANCE-SIC (themis-2016, section 6) subtracts the buffer from the reported SIC and lifts the lowest
query. Three things keep it from the fair optimum, and this departs from the paper in three ways:

- *Derived tuples compete with source tuples.* A node whose level is below a query's SIC drops the
  derived batch of that query: one tuple that stands for a second of work upstream. Here derived
  tuples are kept before any source tuple; there are few of them.
- *What was accepted shows late*, after windows, hops and the update; until then a low query is fed
  at full rate. And *each of its nodes closes the whole gap*, so a query in F fragments is corrected
  F times over. Here a query starts at

      start = reported + (L_now - L_then) / share,    and each source tuple adds sic / share,

  with L_now the source SIC that this node accepted in the current STW, L_then the same as of
  `delay_s` ago (what `reported` knows of already), and share this node's share of the query's
  sources. Dividing by the share supposes that the other nodes do as this one does: they see the
  same report. At rest L_now = L_then, so the fixed point, equal reported SIC, is that of the paper;
  there are no further messages.
- *Batches are coarse.* Quotas in tuples come from `water_level`.

L_now ends with the interval to be decided, so before the decision it is an interval short: a query
keeps its level by accepting what falls out of the window.

The difference reported - L_then / share, what the other nodes do otherwise, is smoothed over
`smooth_s`. Where the delay is known exactly it is constant and smoothing changes nothing. Where it is
not, the raw difference is an echo of the node's own doing, comes back with gain 1, and oscillates
for good (three nodes, told 4 s instead of 2: index 0.973 at each time, 1.000 with smoothing).

Also ours: weights (a query with weight 2 is entitled to twice the SIC), priorities (a higher one is
served whole before a lower one gets anything), queries that join and leave, and a query without a
report (its coordinator is gone, or it is new), which is judged by what this node accepted of it and
the last difference known. One that joins is taken to have been served at the level of the others so
far: it neither floods the node nor waits.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument, SnapshotError
from headgate.fairness.accepted import Accepted
from headgate.fairness.batches import Batch
from headgate.fairness.water_level import water_level

__all__ = ["Mirror", "MirrorSettings"]

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MirrorSettings:
    """The settings of a node's shedder."""

    #: The source time window, and how often the node decides.
    stw_s: float = 10.0
    interval_s: float = 0.25
    #: How long accepted tuples take to show in a report: windows, hops and the update. Half or twice
    #: the truth does little harm.
    delay_s: float = 2.0
    #: The longest delay that a query may have.
    longest_delay_s: float = 10.0
    #: How slowly the difference between reports and the node's own view is followed; 0 is at once.
    #: At least as long as the delay may be wrong.
    smooth_s: float = 2.0
    derived_first: bool = True

    def __post_init__(self) -> None:
        if not (0 < self.interval_s <= self.stw_s < math.inf):
            raise BadArgument(
                f"interval_s={self.interval_s!r}, stw_s={self.stw_s!r}: the shedding interval is above "
                "0 and at most the source time window; 0.25 and 10 are the published ones"
            )
        if not 0 <= self.delay_s <= self.longest_delay_s < math.inf:
            raise BadArgument(
                f"delay_s={self.delay_s!r}: the delay of reports is from 0 to "
                f"longest_delay_s={self.longest_delay_s!r}"
            )

        if not 0 <= self.smooth_s < math.inf:
            raise BadArgument(f"smooth_s={self.smooth_s!r}: smooth over 0 seconds or more; 2 is usual")

    def intervals(self, seconds: float) -> int:
        """How many intervals so many seconds are."""
        return round(seconds / self.interval_s)

    def build(self) -> Mirror:
        """A shedder with no queries yet."""
        return Mirror(self)


@dataclass(frozen=True)
class _Query:
    share: float
    weight: float
    priority: int
    delay: int


class Mirror:
    """The shedder of one node.

    >>> node = MirrorSettings().build()
    >>> node.join("a"), node.join("b", weight=3.0)
    (None, None)
    >>> batches = [Batch("a", "s", 50, 0.001), Batch("b", "t", 50, 0.001)]
    >>> [(batch.query, batch.tuples) for batch in node.select(batches, 40, {"a": 0.0, "b": 0.0})]
    [('a', 10), ('b', 30)]
    """

    name = "mirror"

    def __init__(self, settings: MirrorSettings | None = None) -> None:
        self.settings = settings or MirrorSettings()
        window = max(1, self.settings.intervals(self.settings.stw_s))
        self._accepted = Accepted(window, self.settings.intervals(self.settings.longest_delay_s))
        self._queries: dict[Hashable, _Query] = {}
        self._numbers: dict[Hashable, int] = {}
        #: Reported SIC less this node's own view of it, smoothed, by query.
        self._others: Floats = np.zeros(0)
        #: What is taken to have been accepted, an interval, of those who joined since the last decision.
        self._joined: list[float] = []
        self._settle()
        #: The SIC, divided by the weight, that the last decision reached; nan before the first.
        self.level = math.nan

    @property
    def queries(self) -> tuple[Hashable, ...]:
        """The queries, in the order of their numbers."""
        return tuple(self._queries)

    def number(self, query: Hashable) -> int:
        """The number by which arrays know a query; it changes when an older one leaves."""
        try:
            return self._numbers[query]
        except KeyError:
            raise BadArgument(f"query {query!r} has not joined this node; call join first") from None

    def join(
        self,
        query: Hashable,
        share: float = 1.0,
        *,
        weight: float = 1.0,
        priority: int = 0,
        delay_s: float | None = None,
    ) -> None:
        """Add a query; `share` of its sources are at this node (0 if it only gets derived tuples)."""
        if query in self._queries:
            raise BadArgument(f"query {query!r} has joined before; change it, or let it leave first")
        self._queries[query] = self._checked(share, weight, priority, delay_s)
        reached = 0.0 if math.isnan(self.level) else min(max(self.level * weight, 0.0), 1.0)
        self._numbers[query] = len(self._numbers)
        self._joined.append(reached * share / self._accepted.window)

    def change(
        self,
        query: Hashable,
        *,
        share: float | None = None,
        weight: float | None = None,
        priority: int | None = None,
        delay_s: float | None = None,
    ) -> None:
        """Change the settings of a query that runs; what was accepted of it stays."""
        self.number(query)
        self._settle()
        old = self._queries[query]
        self._queries[query] = self._checked(
            old.share if share is None else share,
            old.weight if weight is None else weight,
            old.priority if priority is None else priority,
            old.delay * self.settings.interval_s if delay_s is None else delay_s,
        )
        self._columns()

    def leave(self, query: Hashable) -> None:
        """Remove a query; the numbers of those that joined after it go down by one."""
        self._settle()
        self._accepted.leave(self.number(query))
        self._others = np.delete(self._others, self.number(query))
        del self._queries[query]
        self._columns()

    def _checked(self, share: float, weight: float, priority: int, delay_s: float | None) -> _Query:
        delay = self.settings.delay_s if delay_s is None else delay_s
        if not 0 <= share <= 1:
            raise BadArgument(f"share={share!r}: a node has from 0 to 1 of a query's sources")
        if not 0 < weight < math.inf:
            raise BadArgument(f"weight={weight!r}: a weight is a finite number above 0; 1 is usual")
        if not 0 <= delay <= self.settings.longest_delay_s:
            raise BadArgument(
                f"delay_s={delay!r}: from 0 to longest_delay_s={self.settings.longest_delay_s!r}"
            )
        return _Query(share, weight, priority, self.settings.intervals(delay))

    def _columns(self) -> None:
        settings = self._queries.values()
        self._numbers = {query: number for number, query in enumerate(self._queries)}
        # A query without sources here never has source tuples; 1 only spares a division by 0.
        self._share = np.array([query.share or 1.0 for query in settings], np.float64)
        self._weight = np.array([query.weight for query in settings], np.float64)
        self._priority = np.array([query.priority for query in settings], np.int64)
        self._delay = np.array([query.delay for query in settings], np.int64)

    def _settle(self) -> None:
        """Give queries that joined since the last decision their columns, all at once."""
        self._accepted.join(np.array(self._joined, np.float64))
        self._others = np.concatenate([self._others, np.zeros(len(self._joined))])
        self._joined.clear()
        self._columns()

    def apply_reports(self, reported: Floats, elapsed: int = 1) -> None:
        """Take up what coordinators report (by number, nan without a report); an interval begins."""
        if self._joined:
            self._settle()
        self._accepted.idle(elapsed - 1)
        other = reported - self._accepted.ago(self._delay) / self._share - self._others
        pace = max(1.0, self.settings.smooth_s / self.settings.interval_s)
        self._others += np.where(np.isnan(reported), 0.0, other * (1.0 - (1.0 - 1.0 / pace) ** elapsed))

    def start(self) -> Floats:
        """Where each query starts in this interval, by number."""
        return np.asarray(self._accepted.running() / self._share + self._others)

    def select(
        self,
        batches: Sequence[Batch],
        capacity: float,
        reported: Mapping[Hashable, float],
        random: np.random.Generator | None = None,
    ) -> list[Batch]:
        """The batches to keep, in the order in which they came, cut where a quota ends; one interval."""
        keep = self.decide(
            np.array([self.number(batch.query) for batch in batches], np.int64),
            np.array([batch.tuples for batch in batches], np.int64),
            np.array([batch.sic for batch in batches], np.float64),
            np.array([batch.derived for batch in batches], np.bool_),
            capacity,
            np.array([reported.get(query, math.nan) for query in self._queries], np.float64),
        )
        return [
            batch if kept == batch.tuples else replace(batch, tuples=kept)
            for batch, kept in zip(batches, keep.tolist(), strict=True)
            if kept
        ]

    def decide(
        self,
        query: Counts,
        offered: Counts,
        sic: Floats,
        derived: npt.NDArray[np.bool_],
        capacity: float,
        reported: Floats,
        *,
        cost: Floats | None = None,
        elapsed: int = 1,
    ) -> Counts:
        """Tuples to keep of each row (a query's number, tuples, SIC of each); then the interval is over.

        `cost` is what a tuple of each row takes of the capacity (1). `elapsed` is how many intervals
        have passed since the last decision.
        """
        self.apply_reports(reported, elapsed)
        start = self.start()
        any_derived = bool(derived.any())  # asked once: most decisions have none, and rows are many
        keep = np.array(offered, np.int64)
        self.level = math.inf
        if float((offered if cost is None else offered * cost).sum()) > capacity:
            lift = sic / self._share[query]  # what a tuple adds to its query, if other nodes do the same
            if any_derived:
                lift = np.where(derived, sic, lift)
            keep = np.zeros(len(offered), np.int64)
            left = capacity
            weights = None if (self._weight == 1.0).all() else self._weight
            for rows in self._ranks(query, derived, any_derived, lift):
                price = None if cost is None else cost[rows]
                quotas = water_level(
                    query[rows],
                    offered[rows],
                    lift[rows],
                    start,
                    left,
                    weights=weights,
                    cost=price,
                )
                keep[rows] = quotas.keep
                left -= float((quotas.keep if price is None else quotas.keep * price).sum())
                self.level = quotas.level
        accepted = keep * sic if not any_derived else np.where(derived, 0.0, keep * sic)
        sums = np.bincount(query, accepted, minlength=len(self._queries))
        self._accepted.close(sums.astype(np.float64, copy=False))
        return keep

    def _ranks(
        self,
        query: Counts,
        derived: npt.NDArray[np.bool_],
        any_derived: bool,
        lift: Floats,
    ) -> Iterator[slice | npt.NDArray[np.bool_]]:
        """Rows that share a level, from the highest rank; tuples of SIC 0 are in none."""
        counts = lift > 0
        apart = any_derived and self.settings.derived_first
        if apart:
            yield derived & counts
            counts &= ~derived
        priorities = np.unique(self._priority)
        if len(priorities) == 1:
            yield slice(None) if not apart and counts.all() else counts
            return
        rank = self._priority[query]
        for priority in priorities[::-1]:
            yield counts & (rank == priority)

    def snapshot(self) -> dict[str, Any]:
        """The ledger and the level, as JSON; settings and queries are the caller's."""
        self._settle()
        level = self.level if math.isfinite(self.level) else str(self.level)
        return {
            "queries": len(self._queries),
            "level": level,
            "others": self._others.tolist(),
            "accepted": self._accepted.snapshot(),
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`, once the same queries have joined in the same order."""
        if value["queries"] != len(self._queries):
            raise SnapshotError(
                f"a snapshot of {value['queries']} queries: {len(self._queries)} have joined; join "
                "those that ran when it was taken, in the same order, then restore"
            )
        self._settle()
        self._accepted.restore(value["accepted"])
        self._others = np.asarray(value["others"], np.float64)
        self.level = float(value["level"])
