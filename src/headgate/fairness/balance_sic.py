"""BALANCE-SIC: lift the query with the least SIC to the next, again and again (themis-2016).

A node knows the result SIC of its queries as their coordinators reported it (updateSIC), the
batches in its input buffer and how many tuples fit (Algorithm 1). It assumes that all the batches
are discarded (section 6: their SIC is subtracted from what was reported), and then gives capacity
to the lowest query until it reaches the second lowest, highest SIC first, until nothing fits any
more.

Where Algorithm 1 as printed cannot be meant, this is what is done:

- line 14: the second lowest is the lowest *other value* (q'' != q'; printed is q' twice). If all
  are equal, one batch is taken.
- line 17: the distance is |q'' - (q' + x)|.
- line 18: |x| <= c; with "<" the last tuple of Figure 3 could not be taken.
- line 11: the loop also ends when no tuples remain.
- "foreach STW" (line 5): each shedding interval, as section 6 says.

What the text leaves open is a `Reading`. Two of its choices matter. Without the projection every
node sees the same low query and feeds it again. And a batch that does not fit is *skipped*, not the
end: the last gap lets the small derived batches in, which stand for whole seconds of work upstream;
with "stop", two to three times as much accepted SIC never reaches a result.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate.fairness.batches import Batch

__all__ = ["BalanceSic", "Reading", "Selection"]

#: SIC values that differ by less than this are equal: 3 * 1/30 is 1/10.
_GRID = 1e12

_CHOICES = {
    "projection": ("subtract", "clamp", "none", "zero"),
    "reach": ("reach", "nearest", "one"),
    "ties": ("random", "first"),
    "order": ("tuple", "batch", "arrival", "random"),
    "misfit": ("skip", "stop"),
}


@dataclass(frozen=True)
class Reading:
    """How the open points of Algorithm 1 are read; the defaults are the published system's."""

    #: Where queries start: at what was reported less the SIC of the buffer (section 6), the same but not
    #: below 0, at what was reported, or at 0.
    projection: str = "subtract"
    #: How far a turn goes: until the second lowest is reached, or as near to it as can be, or one batch.
    reach: str = "reach"
    #: Who begins among equals: any, or the one that came first.
    ties: str = "random"
    #: Which batch of a query is first: highest SIC of a tuple, highest SIC of the batch, oldest, or any.
    order: str = "tuple"
    #: A batch that does not fit is skipped; or the selection ends as soon as some query's next batch
    #: would not fit, whoever's turn it is.
    misfit: str = "skip"

    def __post_init__(self) -> None:
        for name, legal in _CHOICES.items():
            value = getattr(self, name)
            if value not in legal:
                raise BadArgument(f"{name}={value!r} is not one of {', '.join(map(repr, legal))}")


class Selection:
    """selectTuplesToKeep of one node, a turn at a time.

    Batches are given as columns: the query's number, the tuples, the SIC of the whole batch. `sic` holds
    what each query has reached, by number.

    >>> one = Selection([0, 0, 1], [1, 1, 1], [0.1, 0.1, 0.3], [0.0, 0.0], 2, Reading(ties="first"))
    >>> one.turn(), one.turn(), one.turn()
    ([0], [2], [])
    """

    def __init__(
        self,
        query: Sequence[int],
        sizes: Sequence[int],
        totals: Sequence[float],
        start: Sequence[float],
        capacity: float,
        reading: Reading,
        random: np.random.Generator | None = None,
    ) -> None:
        self.sic = list(start)
        self.left = capacity
        self._sizes, self._totals, self._reading = sizes, totals, reading
        self._random = random
        if random is None and (reading.ties == "random" or reading.order == "random"):
            raise BadArgument(
                "random ties or order need a generator: give numpy.random.default_rng(seed)"
            )
        self._waiting: list[list[int]] = [[] for _ in self.sic]
        for batch in self._last_first():
            self._waiting[query[batch]].append(batch)
        self._draws = self._numbers()
        self._heap: list[tuple[int, float, int]] = []
        self._rank()

    def _last_first(self) -> list[int]:
        """Batches in the order in which they are taken, reversed, so that `pop` gives the next."""
        order = self._reading.order
        count = len(self._sizes)
        if order == "random" and self._random is not None:
            return [int(batch) for batch in self._random.permutation(count)]
        if order == "arrival":
            return list(range(count - 1, -1, -1))
        sic = np.asarray(self._totals, np.float64)
        if order == "tuple":
            sic = sic / np.maximum(np.asarray(self._sizes, np.float64), 1.0)
        sic = np.round(sic * _GRID)
        return [int(batch) for batch in np.argsort(-sic, kind="stable")[::-1]]

    def _numbers(self) -> Iterator[float]:
        """A new number whenever a query is ranked: equals come in any order."""
        while True:
            if self._reading.ties == "first" or self._random is None:
                yield 0.0
            else:
                yield from self._random.random(256).tolist()

    def _rank(self) -> None:
        self._heap = [
            (round(self.sic[query] * _GRID), next(self._draws), query)
            for query, waiting in enumerate(self._waiting)
            if waiting
        ]
        heapify(self._heap)

    def update(self, sic: Mapping[int, float]) -> None:
        """updateSIC: what other nodes accepted shows before the next turn (Assumption 3, no delay)."""
        for query, value in sic.items():
            self.sic[query] = value
        self._rank()

    def turn(self) -> list[int]:
        """The batches that the lowest query gets now; empty when the selection is over."""
        while self._heap and self.left > 0:
            level, _, lowest = heappop(self._heap)
            taken = self._lift(lowest, self._second(level))
            if self._waiting[lowest]:
                heappush(self._heap, (round(self.sic[lowest] * _GRID), next(self._draws), lowest))
            if taken:
                return taken
        return []

    def _second(self, level: int) -> int | None:
        """The lowest value that is not the lowest query's own; None if there is no other."""
        heap = self._heap
        if not heap:
            return None
        if heap[0][0] != level:
            return heap[0][0]
        return min((entry[0] for entry in heap if entry[0] != level), default=None)

    def _blocked(self) -> bool:
        return any(waiting and self._sizes[waiting[-1]] > self.left for waiting in self._waiting)

    def _lift(self, query: int, target: int | None) -> list[int]:
        waiting, reach = self._waiting[query], self._reading.reach
        taken: list[int] = []
        sic = self.sic[query]
        while waiting:
            batch = waiting[-1]
            size = self._sizes[batch]
            if self._reading.misfit == "stop" and self._blocked():
                self.left = 0
                break
            if size > self.left:
                waiting.pop()
                continue
            if taken:
                if reach == "one" or target is None:
                    break
                ahead = sic if reach == "reach" else sic + 0.5 * self._totals[batch]
                if round(ahead * _GRID) >= target:
                    break
            waiting.pop()
            taken.append(batch)
            self.left -= size
            sic += self._totals[batch]
            if self.left <= 0:
                break
        self.sic[query] = sic
        return taken


class BalanceSic:
    """The published shedder.

    >>> batches = [Batch("a", "s", 50, 0.001), Batch("b", "s", 50, 0.001)]
    >>> kept = BalanceSic().select(batches, 50, {"a": 0.3, "b": 0.2}, np.random.default_rng(1))
    >>> [batch.query for batch in kept]
    ['b']
    """

    name = "BALANCE-SIC"

    def __init__(self, reading: Reading | None = None) -> None:
        self.reading = reading or Reading()

    def select(
        self,
        batches: Sequence[Batch],
        capacity: float,
        reported: Mapping[Hashable, float],
        random: np.random.Generator,
    ) -> list[Batch]:
        """The batches to keep, in the order in which they came. A query without a report has SIC 0."""
        queries = {batch.query: None for batch in batches}
        numbers = {query: number for number, query in enumerate(queries)}
        kept = self.keep(
            np.array([numbers[batch.query] for batch in batches], np.int64),
            np.array([batch.tuples for batch in batches], np.int64),
            np.array([batch.total for batch in batches], np.float64),
            capacity,
            np.array([reported.get(query, 0.0) for query in queries], np.float64),
            random,
        )
        return [batch for batch, keep in zip(batches, kept.tolist(), strict=True) if keep]

    def keep(
        self,
        query: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        totals: npt.NDArray[np.float64],
        capacity: float,
        reported: npt.NDArray[np.float64],
        random: np.random.Generator,
    ) -> npt.NDArray[np.bool_]:
        """The same for columns: which batches to keep, given each query's reported SIC by number."""
        kept = np.zeros(len(sizes), np.bool_)
        if sizes.sum() <= capacity:
            kept[:] = True
            return kept
        start = self.project(query, totals, reported)
        columns = (query.tolist(), sizes.tolist(), totals.tolist(), start.tolist())
        selection = Selection(*columns, capacity, self.reading, random)
        while taken := selection.turn():
            kept[taken] = True
        return kept

    def project(
        self,
        query: npt.NDArray[np.int64],
        totals: npt.NDArray[np.float64],
        reported: npt.NDArray[np.float64],
    ) -> npt.NDArray[np.float64]:
        """Where each query starts: its result SIC if the whole buffer were discarded (section 6)."""
        if self.reading.projection == "none":
            return reported
        if self.reading.projection == "zero":
            return np.zeros_like(reported)
        start = reported - np.bincount(query, totals, minlength=len(reported))
        return np.maximum(start, 0.0) if self.reading.projection == "clamp" else start
