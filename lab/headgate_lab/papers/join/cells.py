"""What every part of the join yields, learnt from all that is processed (ours).

A cell is (window searched, basic window, type of the probe). Algorithms 2 and 3 learn from a sample that
is processed fully, and that starves exactly when shedding is heavy. Here every comparison counts, with a
half life, and what is not known is explored by Thompson sampling: yields are drawn from their Gamma
posterior, cells are sorted by what was drawn, and the budget is filled from the top.

One draw for everybody would make an exploration cost a whole cell for a second. So several plans are
drawn, and a tuple's number picks one.

The counts themselves are the ones that the Spark operator keeps (`headgate.joins.lag_stats`).
"""

from __future__ import annotations

import numpy as np

from headgate.errors import BadArgument
from headgate.joins.arrays import Floats
from headgate.joins.lag_stats import LagStats

__all__ = ["CellCounts", "fill"]


def fill(value: Floats, volume: Floats, budget: float) -> Floats:
    """Share of each item taken by a fractional knapsack; rows are independent.

    >>> fill(np.array([[1., 3., 2.]]), np.array([2., 2., 2.]), 3.0).tolist()
    [[0.0, 1.0, 0.5]]
    """
    order = np.argsort(-value, axis=1, kind="stable")
    sorted_volume = volume[order]
    before = np.cumsum(sorted_volume, axis=1) - sorted_volume
    left = budget - before
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(sorted_volume > 0, left / sorted_volume, np.where(left > 0, 1.0, 0.0))
    shares = np.empty_like(value)
    np.put_along_axis(shares, order, np.clip(part, 0.0, 1.0), axis=1)
    return shares


class CellCounts:
    """Decayed counts by cell, and plans drawn from them."""

    def __init__(self, blocks: tuple[int, int], utility: Floats, half_life_s: float = 10.0) -> None:
        if not half_life_s > 0:
            raise BadArgument(f"half_life_s={half_life_s!r}: give seconds above 0 (10 by default)")
        self._blocks, self._utility, self._half_life = blocks, utility, half_life_s
        self._stats = LagStats(max(blocks), len(utility))
        self._tuples = np.zeros(self._stats.matches.shape)
        self._by_type = np.zeros((2, len(utility)))

    def add(
        self, tuples: Floats, costs: Floats, matches: Floats, fetched: Floats, seconds: float
    ) -> None:
        """Age the counts by `seconds`, and add what was done in them.

        By window, basic window and type of the probe; `fetched` by stream and type.
        """
        new = LagStats(self._stats.lags, self._stats.kinds)
        new.comparisons, new.matches = costs, matches
        self._stats.learn(new, seconds, self._half_life)
        left = 0.5 ** (seconds / self._half_life)
        for counts, came in ((self._tuples, tuples), (self._by_type, fetched)):
            counts *= left
            counts += came

    @property
    def frequencies(self) -> Floats:
        """The share of each type, by stream."""
        totals = self._by_type.sum(axis=1, keepdims=True)
        many = self._by_type.shape[1]
        return np.where(totals > 0, self._by_type / np.maximum(totals, 1e-300), 1 / many)

    def draw(self, draws: int, random: np.random.Generator) -> Floats:
        """Utility per unit of cost, drawn from the posterior: (draws, 2, basic windows, types)."""
        yields = self._stats.draw(random, draws)
        utility = self.frequencies @ self._utility.T  # E[max V], by window and type of the probe
        return np.asarray(yields * utility[None, :, None, :], np.float64)

    def plan(
        self, sizes: Floats, probes: Floats, budget: float, draws: int, random: np.random.Generator
    ) -> Floats:
        """Shares of the basic windows to search: (draws, window, type, basic window).

        `sizes` are the tuples by window and basic window, `probes` the share of the tuples to come that
        search each window, `budget` the cost that an average tuple may cause.
        """
        tuples, costs = self._tuples.sum(axis=2), self._stats.comparisons.sum(axis=2)
        usual = float(costs.sum() / tuples.sum()) if tuples.sum() > 0 else 1.0
        price = np.where(tuples > 0, costs / np.maximum(tuples, 1e-300), usual)
        frequency = self.frequencies[::-1]  # the opposite stream probes
        volume = (probes[:, None] * sizes * price)[:, :, None] * frequency[:, None, :]
        value = self.draw(draws, random)
        for side, count in enumerate(self._blocks):
            value[:, side, count:] = 0.0
        flat = value.reshape(draws, -1)
        shares = fill(flat, volume.reshape(-1), budget).reshape(value.shape)
        return np.ascontiguousarray(shares.transpose(0, 1, 3, 2))
