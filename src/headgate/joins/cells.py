"""What every part of the join yields, learnt from all that is processed (ours; note section 5.1).

A cell is (window searched, basic window, type of the probe). Algorithms 2 and 3 learn from a sample that
is processed fully, and that starves exactly when shedding is heavy. Here every comparison counts, with a
half life, and what is not known is explored by Thompson sampling: yields are drawn from their Gamma
posterior, cells are sorted by what was drawn, and the budget is filled from the top.

One draw for everybody would make an exploration cost a whole cell for a second. So several plans are
drawn, and a tuple's number picks one.

Types are pooled softly: a cell's prior is its basic window's yield over all types, so that many types
do not starve each other, while types that truly match differently still part. And when far fewer matches
come than the counts promise, nearly all of the past is forgotten at once: the lag that pays has moved.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument

__all__ = ["CellCounts", "fill"]

Floats = npt.NDArray[np.float64]

#: The prior of a basic window nobody has searched: as many matches seen, at the mean yield.
PRIOR_MATCHES = 1.0
#: When so many matches were expected, and less than this share of them came, the world has changed:
#: what is left of all counts.
SURPRISE_FROM, SURPRISE, FORGET = 50.0, 0.6, 0.1
#: How many matches a cell's own counts must show to weigh as much as those of all types.
POOLED_MATCHES = 10.0


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
        self._blocks, self._worth, self._half_life = blocks, utility, half_life_s
        shape = (2, max(blocks), len(utility))
        self._tuples, self._costs, self._matches = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._by_type = np.zeros((2, len(utility)))

    def add(
        self, tuples: Floats, costs: Floats, matches: Floats, fetched: Floats, seconds: float
    ) -> None:
        """Age the counts by `seconds`, and add what was done in them.

        By window, basic window and type of the probe; `fetched` by stream and type.
        """
        left = 0.5 ** (seconds / self._half_life)
        expected = float((costs * self._matches / np.maximum(self._costs, 1.0)).sum())
        if expected > SURPRISE_FROM and float(matches.sum()) < SURPRISE * expected:
            left *= FORGET
        for counts, new in (
            (self._tuples, tuples), (self._costs, costs),
            (self._matches, matches), (self._by_type, fetched),
        ):  # fmt: skip
            counts *= left
            counts += new

    @property
    def frequencies(self) -> Floats:
        """The share of each type, by stream."""
        totals = self._by_type.sum(axis=1, keepdims=True)
        many = self._by_type.shape[1]
        return np.where(totals > 0, self._by_type / np.maximum(totals, 1e-300), 1 / many)

    def draw(self, draws: int, random: np.random.Generator) -> Floats:
        """Utility per unit of cost, drawn from the posterior: (draws, 2, basic windows, types)."""
        total_cost, total_matches = float(self._costs.sum()), float(self._matches.sum())
        mean = max(total_matches, 1e-3) / max(total_cost, 1.0)
        pooled_matches, pooled_cost = self._matches.sum(axis=2), self._costs.sum(axis=2)
        shape = np.broadcast_to(PRIOR_MATCHES + pooled_matches, (draws, *pooled_matches.shape))
        pooled = random.standard_gamma(shape) / (PRIOR_MATCHES / mean + pooled_cost)
        yields = np.repeat(pooled[..., None], self._matches.shape[2], axis=3)
        if self._matches.shape[2] > 1:
            own = random.standard_gamma(np.broadcast_to(POOLED_MATCHES + self._matches, yields.shape))
            yields = own / (POOLED_MATCHES / np.maximum(yields, 1e-300) + self._costs)
        worth = self.frequencies @ self._worth.T  # E[max V], by window and type of the probe
        return np.asarray(yields * worth[None, :, None, :], np.float64)

    def plan(
        self, sizes: Floats, probes: Floats, budget: float, draws: int, random: np.random.Generator
    ) -> Floats:
        """Shares of the basic windows to search: (draws, window, type, basic window).

        `sizes` are the tuples by window and basic window, `probes` the share of the tuples to come that
        search each window, `budget` the cost that an average tuple may cause.
        """
        tuples, costs = self._tuples.sum(axis=2), self._costs.sum(axis=2)
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
