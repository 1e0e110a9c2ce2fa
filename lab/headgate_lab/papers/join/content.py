"""Which pairs of a tuple and a block promise matches, from the block's item counts (ours).

Whoever knows only match densities by lag treats all tuples alike. But a set of items that were popular
when a block was filled matches there far more often than its neighbour in the stream. For a probe q and
a block in which a share p_x of the tuples has item x, the expected number of ways to share k items is
the elementary symmetric polynomial e_k of the p_x, x in q. The (probe, block) pairs with the best score
are compared, within the budget. Nothing is learnt, so nothing need be explored, and a shift that jumps
does not matter. The blocks of a Spark join have the same score compiled (`item_counts.densities`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headgate.errors import BadArgument
from headgate.joins.arrays import Floats, Integers
from headgate_lab.papers.join.cells import fill

__all__ = ["choose_pairs", "elementary", "item_table", "scores"]


def elementary(values: Floats, degree: int) -> Floats:
    """e_k over the last axis: the sum of the products of every k of the values.

    >>> elementary(np.array([1.0, 2.0, 3.0]), 2).item()
    11.0
    """
    if degree < 1:
        raise BadArgument(f"degree={degree!r}: give the number of common items wanted, 1 or more")
    sums = [np.ones(values.shape[:-1])] + [np.zeros(values.shape[:-1]) for _ in range(degree)]
    for index in range(values.shape[-1]):
        for order in range(degree, 0, -1):
            sums[order] = sums[order] + sums[order - 1] * values[..., index]
    return sums[degree]


def item_table(sets: Sequence[frozenset[int]], items: int) -> Integers:
    """Sets as rows of item numbers, filled up with `items`, a number that no item has."""
    width = max((len(one) for one in sets), default=0)
    table = np.full((len(sets), max(1, width)), items, np.int64)
    for row, one in enumerate(sets):
        table[row, : len(one)] = sorted(one)
    return table


def scores(table: Integers, shares: Floats, at_least: int) -> Floats:
    """e_k of every probe (a row of `table`) in every block (a row of `shares`, by item)."""
    padded = np.concatenate([shares, np.zeros((len(shares), 1))], axis=1)
    return elementary(padded[:, table].transpose(1, 0, 2), at_least)


def choose_pairs(score: Floats, volume: Floats, budget: float) -> Floats:
    """Which share of each pair's comparisons to make: the best scores first, until the budget is spent.

    >>> choose_pairs(np.array([[.1, .4], [.2, 0.]]), np.array([[10., 10.], [10., 10.]]), 15.).tolist()
    [[0.0, 1.0], [0.5, 0.0]]
    """
    shares = fill(score.reshape(1, -1), volume.reshape(-1), budget)
    return np.asarray(shares.reshape(score.shape), np.float64)
