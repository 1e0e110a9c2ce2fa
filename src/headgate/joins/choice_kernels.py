"""Compiled scores of (probe row, block) pairs, and the passes over them that make a choice.

Import this module late: it needs numba. `headgate.joins.item_counts` says what the scores mean and
`headgate.joins.choice` what the passes are for. There are millions of such pairs a batch, so a pass
reads every pair once, in a few nanoseconds, and writes little.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from headgate.joins.arrays import Floats, Indices, Integers, Singles
from headgate.joins.instructions import bits_of
from headgate.joins.packing_kernels import mix64

__all__ = [
    "BINS",
    "containment_scores",
    "draw",
    "excess",
    "overlap_scores",
    "spread",
    "take",
    "tally",
    "weighted_scores",
]


@njit(cache=True)
def overlap_scores(
    need: int, offsets: Indices, buckets: npt.NDArray[np.uint16], shares: Floats
) -> Floats:
    """e_need of the shares of each probe's items, at most 1."""
    count = len(offsets) - 1
    scores, sums = np.zeros(count), np.zeros(need + 1)
    for probe in range(count):
        start, stop = offsets[probe], offsets[probe + 1]
        if stop - start < need:
            continue
        if need <= 4:  # in registers: the common cases, and some five times faster
            one, two, three, four = 0.0, 0.0, 0.0, 0.0
            for entry in range(start, stop):
                share = shares[buckets[entry]]
                four += three * share
                three += two * share
                two += one * share
                one += share
            found = (one if need == 1 else two) if need <= 2 else (three if need == 3 else four)
            scores[probe] = min(1.0, found)
            continue
        sums[:] = 0.0
        sums[0] = 1.0
        for entry in range(start, stop):
            share = shares[buckets[entry]]
            for size in range(min(need, entry - start + 1), 0, -1):
                sums[size] += sums[size - 1] * share
        scores[probe] = min(1.0, sums[need])
    return scores


@njit(cache=True)
def containment_scores(offsets: Indices, buckets: npt.NDArray[np.uint16], shares: Floats) -> Floats:
    """The product of the shares of each probe's items; 1 for an empty set."""
    count = len(offsets) - 1
    scores = np.ones(count)
    for probe in range(count):
        for entry in range(offsets[probe], offsets[probe + 1]):
            scores[probe] *= min(1.0, shares[buckets[entry]])
    return scores


@njit(cache=True)
def weighted_scores(
    offsets: Indices, buckets: npt.NDArray[np.uint16], weights: Singles, means: Floats
) -> Floats:
    """The mean inner product of each probe with the block's rows."""
    count = len(offsets) - 1
    scores = np.zeros(count)
    for probe in range(count):
        for entry in range(offsets[probe], offsets[probe + 1]):
            scores[probe] += np.float64(weights[entry]) * means[buckets[entry]]
    return scores


#: Leading bits of a score that sort it into bins: exponent and 5 bits, so a bin is 3 % wide.
_SHIFT = np.uint64(47)
BINS = 1 << 16
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True)
def _score(density: float, utility: Floats, pair: int, result_cost: float) -> float:
    score = abs(density) / (1.0 + result_cost * density)  # abs: a zero must not have a sign
    return score * utility[pair] if len(utility) else score


@njit(cache=True)
def tally(
    density: Floats, utility: Floats, starts: Integers, rows: Floats, result_cost: float
) -> tuple[float, Floats, bool]:
    """What all pairs cost, what those of each bin of scores cost, and whether all numbers are legal."""
    bins, whole = np.zeros(BINS), 0.0
    for block in range(len(rows)):
        for pair in range(starts[block], starts[block + 1]):
            share = density[pair]
            cost = rows[block] * (1.0 + result_cost * share)
            score = _score(share, utility, pair, result_cost)
            if not (share >= 0.0 and 0.0 <= score < np.inf):
                return whole, bins, False
            whole += cost
            bins[np.int64(bits_of(score) >> _SHIFT)] += cost
    return whole, bins, True


@njit(cache=True)
def spread(
    density: Floats, utility: Floats, starts: Integers, rows: Floats, result_cost: float, edge: int
) -> tuple[Integers, Floats, Floats]:
    """The pairs in the bin where the budget ends: indices, scores, costs."""
    filled = 0
    size = len(density)  # room for all: memory that is not written to costs nothing
    indices, scores, costs = np.empty(size, np.int64), np.empty(size), np.empty(size)
    for block in range(len(rows)):
        for pair in range(starts[block], starts[block + 1]):
            score = _score(density[pair], utility, pair, result_cost)
            if np.int64(bits_of(score) >> _SHIFT) == edge:
                indices[filled], scores[filled] = pair, score
                costs[filled] = rows[block] * (1.0 + result_cost * density[pair])
                filled += 1
    return indices[:filled].copy(), scores[:filled].copy(), costs[:filled].copy()


@njit(cache=True)
def take(
    density: Floats, utility: Floats, starts: Integers, rows: Floats, result_cost: float, edge: int,
    among: Integers,
) -> tuple[npt.NDArray[np.bool_], Floats]:  # fmt: skip
    """Which pairs are above the bin or named; of the others the sums of cost and of cost * matches."""
    picked, sums = np.zeros(len(density), np.bool_), np.zeros(2)
    for pair in among:
        picked[pair] = True
    for block in range(len(rows)):
        for pair in range(starts[block], starts[block + 1]):
            share = density[pair]
            if (
                picked[pair]
                or np.int64(bits_of(_score(share, utility, pair, result_cost)) >> _SHIFT) > edge
            ):
                picked[pair] = True
            else:
                cost = rows[block] * (1.0 + result_cost * share)
                sums[0] += cost
                sums[1] += cost * share * rows[block]
    return picked, sums


@njit(cache=True)
def excess(
    density: Floats, starts: Integers, rows: Floats, result_cost: float, picked: npt.NDArray[np.bool_],
    even: float, by_matches: float,
) -> tuple[float, float]:  # fmt: skip
    """The cost of pairs left whose chance reaches 1, and the expected cost of the other pairs left."""
    sure, drawn = 0.0, 0.0
    for block in range(len(rows)):
        for pair in range(starts[block], starts[block + 1]):
            if not picked[pair]:
                chance = even + by_matches * density[pair] * rows[block]
                cost = rows[block] * (1.0 + result_cost * density[pair])
                if chance >= 1.0:
                    sure += cost
                else:
                    drawn += chance * cost
    return sure, drawn


@njit(cache=True)
def draw(
    density: Floats, starts: Integers, rows: Floats, picked: npt.NDArray[np.bool_], even: float,
    by_matches: float, seed: int,
) -> tuple[Integers, Floats]:  # fmt: skip
    """Indices of the pairs left on which the lot falls, and their chances; lot i: `uniform(seed, i)`."""
    filled, first = 0, mix64(seed)
    indices, chances = np.empty(len(density), np.int64), np.empty(len(density))
    for block in range(len(rows)):
        for pair in range(starts[block], starts[block + 1]):
            if picked[pair]:
                continue
            chance = min(1.0, even + by_matches * density[pair] * rows[block])
            lot = np.float64(mix64(first + _GOLDEN * np.uint64(pair + 1)) >> np.uint64(11)) * 2.0**-53
            if lot < chance:
                indices[filled], chances[filled] = pair, chance
                filled += 1
    return indices[:filled].copy(), chances[:filled].copy()
