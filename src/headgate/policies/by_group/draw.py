"""A fixed number of rows from each stratum, by hash: the same ones in every process and in any order.

Section VI-B of cod-2018 keeps reservoirs and section VII tosses coins. A coin misses exp(-T) of the
strata that should keep T rows; a reservoir depends on the order of the rows. The bottom of the rows'
hashes is a reservoir that depends on nothing but the rows, and two tasks' bottoms merge.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headgate.policies.by_group.allocation import Counts, Floats
from headgate.policies.by_group.counted import counted
from headgate.sketches.hashing import mix64_array

__all__ = ["draw_fixed", "told_apart", "toss_coins"]

#: Row hashes have 62 bits (`headgate.core.plan.SCALE`).
_SCALE = float(1 << 62)
Codes = npt.NDArray[np.integer]


def draw_fixed(codes: Codes, hashes: npt.NDArray[np.int64], sizes: Counts, quotas: Counts) -> Floats:
    """The weight of every row: 0 if it is shed, else rows of its stratum / rows kept of it, as counted.

    `codes` number the strata from 0, `sizes` are their rows. A stratum keeps its `quotas` rows with the
    lowest hashes; rows of equal hash (see `told_apart`) share one fate, so ties may keep a few more.

    >>> codes, hashes = np.array([0, 0, 0, 1]), np.array([5, 3, 9, 7])
    >>> draw_fixed(codes, hashes, np.array([3, 1]), np.array([2, 1])) > 0
    array([ True,  True, False,  True])
    """
    limits = _limits(codes, hashes, sizes, quotas)
    kept = np.flatnonzero(hashes <= limits[codes])
    numbers = np.bincount(codes[kept], minlength=len(sizes))
    weights = np.zeros(len(codes))
    of_stratum = counted(np.maximum(sizes / np.maximum(numbers, 1), 1.0))
    weights[kept] = of_stratum[codes[kept]]
    return weights


def told_apart(hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The hashes, with those that equal rows share replaced by one of each row's own.

    The bottom of a stratum is a fair draw of its rows only if each has a hash of its own: ninety equal
    rows under one hash would be kept or shed together. Which of equal rows is kept makes no difference.
    """
    order = np.argsort(hashes, kind="stable")
    ranked = hashes[order]
    again = np.flatnonzero(ranked[1:] == ranked[:-1]) + 1
    if not len(again):
        return hashes
    begins = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    turns = np.arange(len(ranked)) - np.repeat(begins, np.diff(np.r_[begins, len(ranked)]))
    salted = ranked[again].view(np.uint64) ^ mix64_array(turns[again].astype(np.uint64))
    apart = hashes.copy()
    apart[order[again]] = (mix64_array(salted) >> np.uint64(2)).astype(np.int64)
    return apart


def toss_coins(codes: Codes, hashes: npt.NDArray[np.int64], sizes: Counts, quotas: Counts) -> Floats:
    """The same with a coin for each row: kept if its hash is below its stratum's rate, weight 1/rate."""
    rates = np.where(quotas >= sizes, 1.0, quotas / np.maximum(sizes, 1))
    limits = np.minimum(rates * _SCALE, _SCALE).astype(np.int64)
    weights = 1.0 / np.where(rates > 0, rates, 1.0)
    return np.where(hashes < limits[codes], weights[codes], 0.0)


def _limits(
    codes: Codes, hashes: npt.NDArray[np.int64], sizes: Counts, quotas: Counts
) -> npt.NDArray[np.int64]:
    """The highest hash that each stratum keeps; -1 if it keeps none.

    Most rows need no sorting: a bound a little above the expected quantile leaves few candidates, and
    is raised for the strata where too few remain.
    """
    limits = np.where(quotas >= sizes, np.int64(_SCALE), np.int64(-1))
    open_ = (quotas > 0) & (quotas < sizes)
    reach = np.zeros(len(sizes))
    reach[open_] = (quotas[open_] + 4.0 * np.sqrt(quotas[open_]) + 8.0) / sizes[open_]
    while open_.any():
        bound = np.where(open_, np.minimum(1.0, reach) * _SCALE, -1.0).astype(np.int64)
        rows = np.flatnonzero(hashes <= bound[codes])
        found = np.bincount(codes[rows], minlength=len(sizes))
        done = open_ & (found >= quotas)
        rows = rows[done[codes[rows]]]
        rows = rows[np.lexsort((hashes[rows], codes[rows]))]
        begins = np.cumsum(np.where(done, found, 0)) - found
        limits[done] = hashes[rows[(begins + quotas - 1)[done]]]
        open_ &= ~done
        reach *= 4.0
    return limits
