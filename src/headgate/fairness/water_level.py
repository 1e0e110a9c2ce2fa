"""BALANCE-SIC over counts: one level to which every query is lifted, and quotas that follow from it.

Algorithm 1 (themis-2016, section 5.1), taken a tuple at a time, always serves the query with the
least SIC. So it takes exactly those tuples that a query would take *below* some level: the level is
a number, and the tuples of each (query, source) below it are a division. It is found by Newton's
method on the level, kept inside a bracket, over arrays: 40,000 pairs take milliseconds where
450,000 turns take half a second. The last few tuples, fewer than there are queries, are taken one
by one, so the result is that of Algorithm 1 but for ties.

Beyond the paper, where its case is the default:

- *Weights*: the level is of SIC / weight (weighted max-min).
- *Cost*: a tuple may cost more than 1 of the capacity; within a query the highest SIC for its cost
  is first.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument

__all__ = ["Quotas", "water_level"]

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: A tuple counts as below the level only if it is so by more than this part of its own SIC.
_FUZZ = 1e-9
#: Newton needs some ten steps; halving the bracket instead, as a safeguard, at most this many.
_STEPS = 100
#: The last tuples are taken one by one, but no more than so many: some may cost next to nothing.
_TURNS = 100_000
#: After so many, as many tuples as there are queries may be left over for the end.
_PATIENCE = 8


@dataclass(frozen=True)
class Quotas:
    """How many tuples to keep of each (query, source), and where that leaves the queries."""

    keep: Counts
    #: The SIC, divided by the weight, below which every tuple is kept; infinite if all are.
    level: float
    #: What each query reaches.
    sic: Floats
    #: Looks at the level that were needed.
    steps: int


def water_level(
    query: npt.ArrayLike,
    offered: npt.ArrayLike,
    tuple_sic: npt.ArrayLike,
    start: npt.ArrayLike,
    capacity: float,
    *,
    weights: npt.ArrayLike | None = None,
    cost: npt.ArrayLike | None = None,
) -> Quotas:
    """Lift the lowest queries from where they start as far as the capacity goes.

    A row is what one source offers to one query: the query's number, the tuples, and the SIC of each.
    `start` and `weights` are by query, `cost` (of a tuple) by row.

    >>> quotas = water_level([0, 0, 1], [40, 10, 30], [0.001, 0.005, 0.003], [0.01, 0.0], 30)
    >>> quotas.keep.tolist(), quotas.sic.round(4).tolist()
    ([0, 10, 20], [0.06, 0.06])
    """
    rows = _Rows(query, offered, tuple_sic, start, weights, cost)
    if rows.total <= capacity:
        return rows.quotas(rows.offered, np.inf, 0)
    if not capacity > 0:
        return rows.quotas(np.zeros_like(rows.offered), -np.inf, 0)
    taken, level, steps = rows.below(capacity)
    return rows.quotas(rows.one_by_one(taken, capacity), level, steps)


class _Rows:
    """The rows in the order in which a query takes them: highest SIC for its cost first.

    SIC is divided by the query's weight from here on, so that one level serves all.
    """

    def __init__(
        self,
        query: npt.ArrayLike,
        offered: npt.ArrayLike,
        tuple_sic: npt.ArrayLike,
        start: npt.ArrayLike,
        weights: npt.ArrayLike | None,
        cost: npt.ArrayLike | None,
    ) -> None:
        queries, counts = np.asarray(query, np.int64), np.asarray(offered, np.int64)
        sic, begin = np.asarray(tuple_sic, np.float64), np.asarray(start, np.float64)
        costs = None if cost is None else np.asarray(cost, np.float64)
        self.weights = None if weights is None else np.asarray(weights, np.float64)
        _check(queries, counts, sic, begin, self.weights, costs)
        if self.weights is not None:
            sic, begin = sic / self.weights[queries], begin / self.weights
        self.start = begin
        self.order = _best_first(queries, sic if costs is None else sic / costs)
        self.query, self.offered = queries[self.order], counts[self.order]
        self.sic, self.cost = sic[self.order], None if costs is None else costs[self.order]
        self.most = self.offered.astype(np.float64)
        whole = self.most * self.sic
        after = np.cumsum(whole)
        self.first = np.searchsorted(self.query, np.arange(len(begin) + 1))
        # What the query has with this row, and before it: its start, and its rows that are better.
        base = np.concatenate([[0.0], after])[self.first[:-1]]
        after -= (base - begin)[self.query]
        self.after, self.before = after, after - whole
        self.inverse = 1.0 / self.sic
        self.growth = self.inverse if self.cost is None else self.inverse * self.cost
        self.total = self.price(self.most)

    def price(self, taken: Counts | Floats) -> float:
        """What so many tuples of each row cost."""
        # Not a dot product: that would wake a thread for each core, for a tenth of a millisecond's work.
        return float((taken if self.cost is None else taken * self.cost).sum())

    def at(self, level: float) -> tuple[Floats, float, float]:
        """Tuples below the level, what they cost, and how fast that grows with the level."""
        taken = level - self.before
        open_ = taken > 0
        open_ &= level < self.after
        taken *= self.inverse
        taken -= _FUZZ
        np.ceil(taken, out=taken)
        np.maximum(taken, 0.0, out=taken)
        np.minimum(taken, self.most, out=taken)
        return taken, self.price(taken), float(np.sum(self.growth, where=open_))

    def below(self, capacity: float) -> tuple[Counts, float, int]:
        """The highest level found whose tuples fit, with fewer left over than there are queries."""
        some = self.offered > 0
        low = float(np.min(self.before, where=some, initial=np.inf))
        high = float(np.max(self.after, where=some, initial=-np.inf))
        least = 1.0 if self.cost is None else float(np.min(self.cost, where=some, initial=np.inf))
        near = max(1.0, len(self.start) / 16) * least
        best, level = np.zeros(len(self.offered)), low
        # As if each query took its tuples evenly: a better guess than either end.
        trial = low + (high - low) * capacity / self.total
        steps = 0
        while steps < _STEPS:
            steps += 1
            taken, used, slope = self.at(trial)
            if used <= capacity:
                best, level, low = taken, trial, trial
                # Where queries are alike, all of them take their next tuple at one level.
                if capacity - used <= (near if steps < _PATIENCE else least * len(self.start)):
                    break
            else:
                high = trial
            # Aim a little below, so that what is left over is positive and small.
            step = (capacity - 0.5 * near - used) / slope if slope > 0 else np.inf
            trial = trial + step if low < trial + step < high else 0.5 * (low + high)
            if not low < trial < high:
                break
        return best.astype(np.int64), level, steps

    def one_by_one(self, taken: Counts, capacity: float) -> Counts:
        """Algorithm 1 from here on: the lowest query's next tuple, while it fits."""
        left = capacity - self.price(taken)
        open_ = np.flatnonzero(taken < self.offered)
        least = 1.0
        if self.cost is not None:
            least = float(self.cost[open_].min()) if len(open_) else np.inf
        owner = self.query[open_]
        row = open_[np.concatenate([[True], owner[1:] != owner[:-1]])[: len(open_)]]
        value = self.before[row] + taken[row] * self.sic[row]
        if self.cost is None and 1 <= left < len(row) + 1:
            lowest = np.argsort(value, kind="stable")[: int(left)]
            if value[lowest[-1]] <= (value + self.sic[row])[lowest].min():  # nobody's turn comes twice
                taken[row[lowest]] += 1
                return taken
        heap = list(zip(value.tolist(), self.query[row].tolist(), row.tolist(), strict=True))
        heapify(heap)
        for _ in range(_TURNS):
            if not heap or left < least:
                break
            reached, number, at = heappop(heap)
            cost = 1.0 if self.cost is None else float(self.cost[at])
            if cost <= left:
                left -= cost
                taken[at] += 1
                reached += float(self.sic[at])
            else:
                at += 1
            while at < self.first[number + 1] and taken[at] >= self.offered[at]:
                at += 1
            if at < self.first[number + 1]:
                heappush(heap, (reached, number, at))
        return taken

    def quotas(self, taken: Counts, level: float, steps: int) -> Quotas:
        """The answer, in the order of the rows as given."""
        keep = np.empty_like(taken)
        keep[self.order] = taken
        sic = self.start + np.bincount(self.query, taken * self.sic, minlength=len(self.start))
        return Quotas(keep, level, sic if self.weights is None else sic * self.weights, steps)


def _best_first(query: Counts, value: Floats) -> npt.NDArray[np.intp]:
    """Rows by query, and by falling value (SIC for its cost) within one.

    One sort of one key: queries are whole numbers, values are scaled to less than one. What is alike to
    12 digits may come in any order, which changes nothing that counts.
    """
    if not len(query):
        return np.zeros(0, np.intp)
    return np.argsort(query - value * (0.5 / max(float(value.max()), 1e-300)), kind="stable")


def _check(
    query: Counts,
    offered: Counts,
    sic: Floats,
    start: Floats,
    weights: Floats | None,
    cost: Floats | None,
) -> None:
    shapes = {query.shape, offered.shape, sic.shape, sic.shape if cost is None else cost.shape}
    if len(shapes) > 1 or query.ndim != 1:
        raise BadArgument(f"rows of {shapes}: query, offered, tuple_sic and cost have one value a row")
    if len(query) and not 0 <= query.min() <= query.max() < len(start):
        raise BadArgument(
            f"queries {query.min()} to {query.max()}: a query is a number from 0 to {len(start) - 1}, "
            "its place in start"
        )
    if weights is not None and (weights.shape != start.shape or not _positive(weights)):
        raise BadArgument(
            f"weights={weights!r}: give one weight above 0 for each of {len(start)} queries"
        )
    if not np.isfinite(start).all():
        raise BadArgument("start has values that are not finite: a query starts at its projected SIC")
    if not _positive(sic) or (cost is not None and not _positive(cost)):
        raise BadArgument("tuple_sic and cost are finite numbers above 0, for every row")
    if len(offered) and offered.min() < 0:
        raise BadArgument("offered are counts of tuples: 0 or more")


def _positive(values: Floats) -> bool:
    return not len(values) or bool(values.min() > 0 and values.max() < np.inf)
