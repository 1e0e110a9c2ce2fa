"""Compiled packing: lists of items as sorted distinct items, signatures and counts.

Import this module late: it needs numba. `headgate.joins.rows` and `headgate.joins.item_counts` say what
the results mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from headgate.joins.arrays import Buckets, Bytes, Indices, Integers, Singles, Words
from headgate.joins.instructions import popcount

__all__ = ["bucket_items", "mix64", "pack_sets", "pack_weights"]


_ONE = np.uint64(1)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@njit(cache=True)
def mix64(value: int) -> Any:
    """splitmix64's finaliser, as `headgate.sketches.mix64`."""
    mixed = np.uint64(value)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))


@njit(cache=True)
def _sort(items: Integers, weights: Singles, start: int, stop: int) -> None:
    """Sort a run of items, and the weights with them if there are any, where they are (Shell's sort).

    Rows are short; and numba's own sort takes seconds to compile.
    """
    gap = 1
    while 3 * gap < stop - start:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(start + gap, stop):
            item, hole = items[at], at
            weight = weights[at] if len(weights) else np.float32(0.0)
            while hole >= start + gap and items[hole - gap] > item:
                items[hole] = items[hole - gap]
                if len(weights):
                    weights[hole] = weights[hole - gap]
                hole -= gap
            items[hole] = item
            if len(weights):
                weights[hole] = weight
        gap //= 3


@njit(cache=True)
def pack_sets(offsets: Indices, items: Integers) -> tuple[Indices, Integers, Words, Words, Bytes, bool]:
    """Rows of items as sorted distinct items and signatures."""
    count, base = len(offsets) - 1, offsets[0]
    starts, flat = np.zeros(count + 1, np.int32), items[base : offsets[count]].copy()
    lo, hi = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    lost, filled, exact = np.zeros(count, np.uint8), 0, True
    none = np.empty(0, np.float32)
    for row in range(count):
        first, low, high = filled, offsets[row] - base, offsets[row + 1] - base
        _sort(flat, none, low, high)
        for at in range(low, high):
            item = flat[at]
            if filled > first and flat[filled - 1] == item:
                continue
            flat[filled] = item
            filled += 1
            if 0 <= item < 128:
                bit = np.uint64(item)
            else:
                bit, exact = mix64(item) & np.uint64(127), False
            if bit < np.uint64(64):
                lo[row] |= _ONE << bit
            else:
                hi[row] |= _ONE << (bit - np.uint64(64))
        hidden = filled - first - np.int64(popcount(lo[row]) + popcount(hi[row]))
        lost[row] = hidden if hidden < 255 else 255
        starts[row + 1] = filled
    return starts, flat[:filled].copy(), lo, hi, lost, exact


@njit(cache=True)
def pack_weights(
    offsets: Indices, items: Integers, weights: Singles
) -> tuple[Indices, Integers, Singles]:
    """Rows of weighted items, sorted by item; the weights of equal items are added."""
    count, base = len(offsets) - 1, offsets[0]
    starts, flat = np.zeros(count + 1, np.int32), items[base : offsets[count]].copy()
    heavy, filled = weights[base : offsets[count]].copy(), 0
    for row in range(count):
        first, low, high = filled, offsets[row] - base, offsets[row + 1] - base
        _sort(flat, heavy, low, high)
        for at in range(low, high):
            if filled > first and flat[filled - 1] == flat[at]:
                heavy[filled - 1] += heavy[at]
                continue
            flat[filled], heavy[filled] = flat[at], heavy[at]
            filled += 1
        starts[row + 1] = filled
    return starts, flat[:filled].copy(), heavy[:filled].copy()


@njit(cache=True)
def bucket_items(items: Integers, size: int) -> Buckets:
    """The bucket of each item: mix64 modulo the size; the item itself below 128 if the size is 128.

    Items that a table of 128 has no room for get bucket 128, which is one past its end.
    """
    buckets = np.empty(len(items), np.uint16)
    for at in range(len(items)):
        item = items[at]
        if size == 128:
            buckets[at] = item if 0 <= item < 128 else 128
        else:
            buckets[at] = mix64(item) % np.uint64(size)
    return buckets
