"""The compiled twin of BALANCE-SIC's selection (themis-2016, Algorithm 1): arrays for objects.

Import this module late: it needs numba. It has the published reading of `BalanceSic` (lift to the second
lowest, highest SIC of a tuple first, skip what does not fit) and is held to it, batch for batch, by
`tests/lab/sim/themis/test_federation.py`. It exists because five minutes on 18 nodes are 21,600
decisions over some 900 batches each.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["keep"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: SIC values that differ by less than this are equal, as in the class.
_GRID = 1e12


@njit(cache=True)
def keep(
    query: Integers, sizes: Integers, totals: Floats, capacity: int, start: Floats, ties: Integers
) -> Flags:
    """Which batches to keep; of queries with equal SIC that of the lowest number in `ties` is first."""
    kept = np.zeros(len(sizes), np.bool_)
    if sizes.sum() <= capacity:
        kept[:] = True
        return kept
    order, begins, ends = _by_query(query, sizes, totals, len(start))
    sic, level = start.copy(), np.rint(start * _GRID)
    left = capacity
    while left > 0:
        lowest, second = _lowest(level, ties, begins, ends)
        if lowest < 0:
            break
        taken = 0
        while begins[lowest] < ends[lowest] and left > 0:
            batch = order[begins[lowest]]
            if sizes[batch] <= left:
                if taken > 0 and np.rint(sic[lowest] * _GRID) >= second:
                    break
                kept[batch] = True
                taken += 1
                left -= sizes[batch]
                sic[lowest] += totals[batch]
            begins[lowest] += 1
        level[lowest] = np.rint(sic[lowest] * _GRID)
    return kept


@njit(cache=True)
def _lowest(level: Floats, ties: Integers, begins: Integers, ends: Integers) -> tuple[int, float]:
    """The lowest query that has batches, and the next value; minus infinity if there is none."""
    lowest = -1
    for q in range(len(level)):
        if begins[q] < ends[q] and (
            lowest < 0
            or level[q] < level[lowest]
            or (level[q] == level[lowest] and ties[q] < ties[lowest])
        ):
            lowest = q
    second = np.inf
    if lowest >= 0:
        for q in range(len(level)):
            if begins[q] < ends[q] and level[lowest] < level[q] < second:
                second = level[q]
    # With no other value to reach, a turn is one batch.
    return lowest, second if second < np.inf else -np.inf


@njit(cache=True)
def _by_query(
    query: Integers, sizes: Integers, totals: Floats, queries: int
) -> tuple[Integers, Integers, Integers]:
    """Batches query by query, highest SIC of a tuple first, and where each query's begin and end."""
    worth = np.empty(len(sizes))
    for batch in range(len(sizes)):
        worth[batch] = -np.rint(totals[batch] / max(sizes[batch], 1) * _GRID)
    begins, filled = np.zeros(queries + 1, np.int64), np.zeros(queries, np.int64)
    for q in query:
        begins[q + 1] += 1
    begins = np.cumsum(begins)
    order = np.empty(len(sizes), np.int64)
    for batch in np.argsort(worth, kind="mergesort"):
        q = query[batch]
        order[begins[q] + filled[q]] = batch
        filled[q] += 1
    return order, begins[:-1].copy(), begins[1:].copy()
