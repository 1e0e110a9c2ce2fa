"""Compiled indexes of a block, built once and read by many probes.

Import this module late: it needs numba. Two indexes, for the two kinds of set blocks:

- *bit planes*, where all items are in 0..127: one bit a row for each item. "At least j shared so far" is
  one bit a row as well, and t_j |= t_(j-1) & plane adds a plane for 64 rows in one instruction, 256 with
  vectors of today. join-2007, section 6, compares tuple by tuple; this is the same nested loop, turned.
- *postings*, for other items: for each item the rows that hold it, in their order (the inverted index of
  join-2007, section 3.2; a hash table finds the item). Only rows that share an item are touched. Where a
  probe's items are so frequent that there are more postings than rows, its signature is compared.

Both are exact and give pairs in the order of the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from headgate.joins.arrays import Indices, Integers, Singles, Words
from headgate.joins.instructions import lowest_bit
from headgate.joins.kernels import (
    OVERLAP,
    Pairs,
    SetBlock,
    Window,
    _emit,
    _empty_flags,
    _flag_overlap,
    _in_reach,
    _inside,
    _room,
    _verify,
)
from headgate.joins.packing_kernels import mix64

__all__ = ["Postings", "bit_planes", "build_postings", "plane_pairs", "posting_pairs", "weighted_pairs"]

Planes = npt.NDArray[np.uint64]
_ONE, _NONE = np.uint64(1), np.uint64(0)
#: Words of a plane that are worked on at a time (32,768 rows): they stay in the nearest cache.
_TILE = 512


class Postings(NamedTuple):
    """A hash table of items, and the rows of each item; `order` is the index of each posting's entry."""

    keys: Integers
    ids: Indices
    starts: Indices
    rows: Indices
    order: Indices


@njit(cache=True)
def bit_planes(lo: Words, hi: Words) -> Planes:
    """Signatures turned: for each of 128 bits one bit a row."""
    planes = np.zeros((128, (len(lo) + 63) >> 6), np.uint64)
    for row in range(len(lo)):
        bit, at = _ONE << np.uint64(row & 63), row >> 6
        word = lo[row]
        while word != _NONE:
            planes[lowest_bit(word), at] |= bit
            word &= word - _ONE
        word = hi[row]
        while word != _NONE:
            planes[64 + lowest_bit(word), at] |= bit
            word &= word - _ONE
    return planes


@njit(cache=True)
def _bits(lo: Any, hi: Any, bits: Integers) -> int:
    """Write the positions of a signature's bits; their number."""
    count = 0
    while lo != _NONE:
        bits[count] = lowest_bit(lo)
        count += 1
        lo &= lo - _ONE
    while hi != _NONE:
        bits[count] = 64 + lowest_bit(hi)
        count += 1
        hi &= hi - _ONE
    return count


@njit(cache=True)
def _share_two(planes: Planes, bits: Integers, begin: int, stop: int, one: Words, two: Words) -> None:
    """Rows that share at least one and at least two of the bits."""
    for at in range(stop - begin):
        one[at] = _NONE
    for at in range(stop - begin):
        two[at] = _NONE
    for bit in bits:
        for at in range(stop - begin):
            plane = planes[bit, begin + at]
            two[at] |= one[at] & plane
            one[at] |= plane


@njit(cache=True)
def _share_three(
    planes: Planes, bits: Integers, begin: int, stop: int, one: Words, two: Words, three: Words
) -> None:
    """Rows that share at least one, two and three of the bits."""
    for at in range(stop - begin):
        one[at] = _NONE
    for at in range(stop - begin):
        two[at] = _NONE
    for at in range(stop - begin):
        three[at] = _NONE
    for bit in bits:
        for at in range(stop - begin):
            plane = planes[bit, begin + at]
            three[at] |= two[at] & plane
            two[at] |= one[at] & plane
            one[at] |= plane


@njit(cache=True)
def _share_many(planes: Planes, bits: Integers, begin: int, stop: int, levels: Planes) -> None:
    """Rows that share more than j of the bits, for each level j."""
    levels[:] = _NONE
    for bit in bits:
        for level in range(len(levels) - 1, 0, -1):
            for at in range(stop - begin):
                levels[level, at] |= levels[level - 1, at] & planes[bit, begin + at]
        for at in range(stop - begin):
            levels[0, at] |= planes[bit, begin + at]


@njit(cache=True)
def _hold_all(planes: Planes, bits: Integers, begin: int, stop: int, count: int, hits: Words) -> None:
    """Rows that have all of the bits."""
    for at in range(stop - begin):
        hits[at] = ~_NONE
    for bit in bits:
        for at in range(stop - begin):
            hits[at] &= planes[bit, begin + at]
    if 64 * stop > count:  # an empty set is in every row, but not in the rest of the last word
        hits[stop - begin - 1] &= (_ONE << np.uint64(count & 63)) - _ONE


@njit(cache=True)
def plane_pairs(
    how: int, need: int, picked: Indices, lo: Words, hi: Words, planes: Planes, window: Window
) -> Pairs:
    """Pairs of sets that share `need` items, or of which the row holds all of the probe's."""
    count, words, filled = len(window.row_time), planes.shape[1], 0
    pairs, bits_set = (np.empty(1024, np.int32), np.empty(1024, np.int32)), np.empty(128, np.int64)
    tile = min(words, _TILE)
    one, two, three = np.empty(tile, np.uint64), np.empty(tile, np.uint64), np.empty(tile, np.uint64)
    levels = np.empty((need if how == OVERLAP and 3 < need <= 128 else 1, tile), np.uint64)
    for index in range(len(picked)):
        probe = picked[index]
        size = _bits(lo[probe], hi[probe], bits_set)
        if not _in_reach(window, probe) or (how == OVERLAP and size < need):
            continue
        bits, now = bits_set[:size], window.probe_time[probe]
        earliest, latest = now - window.before, now + window.after
        whole = earliest <= window.first and window.last <= latest
        for begin in range(0, words, _TILE):
            stop = min(words, begin + _TILE)
            if how != OVERLAP:
                _hold_all(planes, bits, begin, stop, count, one)
                hits = one
            elif need <= 2:
                _share_two(planes, bits, begin, stop, one, two)
                hits = one if need == 1 else two
            elif need == 3:
                _share_three(planes, bits, begin, stop, one, two, three)
                hits = three
            else:
                _share_many(planes, bits, begin, stop, levels)
                hits = levels[need - 1]
            pairs = _room(pairs, filled, 64 * (stop - begin))
            ours, theirs = pairs
            for at in range(stop - begin):
                word = hits[at]
                while word != _NONE:
                    row = 64 * (begin + at) + lowest_bit(word)
                    word &= word - _ONE
                    if whole or earliest <= window.row_time[row] <= latest:
                        ours[filled] = probe
                        theirs[filled] = row
                        filled += 1
    return pairs[0][:filled].copy(), pairs[1][:filled].copy()


@njit(cache=True)
def build_postings(offsets: Indices, items: Integers) -> Postings:
    """The rows of each item."""
    size = 16
    while size < 2 * len(items):
        size *= 2
    keys, ids = np.empty(size, np.int64), np.full(size, -1, np.int32)
    where, starts, distinct = np.empty(len(items), np.int32), np.zeros(len(items) + 1, np.int32), 0
    for entry in range(len(items)):
        slot = _slot(keys, ids, items[entry])
        if ids[slot] < 0:
            keys[slot], ids[slot] = items[entry], distinct
            distinct += 1
        where[entry] = ids[slot]
        starts[ids[slot] + 1] += 1
    for run in range(distinct):
        starts[run + 1] += starts[run]
    cursor, rows = starts.copy(), np.empty(len(items), np.int32)
    order = np.empty(len(items), np.int32)
    for row in range(len(offsets) - 1):
        for entry in range(offsets[row], offsets[row + 1]):
            at = cursor[where[entry]]
            cursor[where[entry]] += 1
            rows[at], order[at] = row, entry
    return Postings(keys, ids, starts[: distinct + 1].copy(), rows, order)


@njit(cache=True)
def _slot(keys: Integers, ids: Indices, item: int) -> Any:
    """The slot of an item in the hash table, or the free one where it would be."""
    mask = len(keys) - 1
    slot = np.int64(mix64(item) & np.uint64(mask))
    while ids[slot] >= 0 and keys[slot] != item:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True)
def _runs(index: Postings, items: Integers, runs: Indices) -> tuple[int, int]:
    """Write the ids of those items that the block has; their number, and that of all their postings."""
    found, postings = 0, 0
    for entry in range(len(items)):
        run = index.ids[_slot(index.keys, index.ids, items[entry])]
        if run >= 0:
            runs[found] = run
            found += 1
            postings += index.starts[run + 1] - index.starts[run]
    return found, postings


@njit(cache=True)
def _longest(offsets: Indices) -> int:
    """Items of the largest set."""
    longest = 0
    for row in range(len(offsets) - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    return longest


@njit(cache=True)
def _sort(rows: Indices, size: int) -> None:
    """Shell's sort, where they are; there are few."""
    gap = 1
    while 3 * gap < size:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(gap, size):
            row, hole = rows[at], at
            while hole >= gap and rows[hole - gap] > row:
                rows[hole] = rows[hole - gap]
                hole -= gap
            rows[hole] = row
        gap //= 3


@njit(cache=True)
def posting_pairs(
    need: int, picked: Indices, probes: SetBlock, rows: SetBlock, index: Postings, window: Window
) -> Pairs:
    """Pairs of sets that share `need` items, by the block's postings."""
    count, filled = len(rows.lo), 0
    flags, shared, hits = _empty_flags(count), np.zeros(count, np.int32), np.empty(count, np.int32)
    pairs = (np.empty(max(1024, count), np.int32), np.empty(max(1024, count), np.int32))
    runs = np.empty(_longest(probes.offsets), np.int32)
    for at in range(len(picked)):
        probe = picked[at]
        if not _in_reach(window, probe):
            continue
        found, postings = _runs(
            index, probes.items[probes.offsets[probe] : probes.offsets[probe + 1]], runs
        )
        if found < need:
            continue
        pairs = _room(pairs, filled, count)
        if postings > count:
            lost, least = probes.lost[probe], np.uint64(min(need, 255))
            _flag_overlap(flags, rows, probes.lo[probe], probes.hi[probe], lost, least)
            _inside(window, probe, flags)
            before, filled = filled, _emit(flags, probe, pairs, filled)
            filled = _verify(OVERLAP, need, probes, rows, probe, pairs, before, filled)
            continue
        hit = 0
        for run in runs[:found]:
            for posting in range(index.starts[run], index.starts[run + 1]):
                row = index.rows[posting]
                shared[row] += 1
                if shared[row] == need:
                    hits[hit] = row
                    hit += 1
        for run in runs[:found]:
            for posting in range(index.starts[run], index.starts[run + 1]):
                shared[index.rows[posting]] = 0
        _sort(hits, hit)
        now = window.probe_time[probe]
        for row in hits[:hit]:
            if now - window.before <= window.row_time[row] <= now + window.after:
                pairs[0][filled] = probe
                pairs[1][filled] = row
                filled += 1
    return pairs[0][:filled].copy(), pairs[1][:filled].copy()


@njit(cache=True)
def weighted_pairs(
    least: float, picked: Indices, offsets: Indices, items: Integers, weights: Singles, index: Postings,
    heavy: Singles, window: Window,
) -> Pairs:  # fmt: skip
    """Pairs of weighted sets whose inner product reaches `least`, by the block's postings.

    Products are added in double precision in the order of the items, so the result does not depend on
    how rows fall into blocks.
    """
    count, filled = len(window.row_time), 0
    flags, totals = _empty_flags(count), np.zeros(count)
    pairs = (np.empty(max(1024, count), np.int32), np.empty(max(1024, count), np.int32))
    for at in range(len(picked)):
        probe = picked[at]
        if not _in_reach(window, probe):
            continue
        touched = False
        for entry in range(offsets[probe], offsets[probe + 1]):
            run = index.ids[_slot(index.keys, index.ids, items[entry])]
            if run < 0:
                continue
            touched, weight = True, np.float64(weights[entry])
            for posting in range(index.starts[run], index.starts[run + 1]):
                totals[index.rows[posting]] += weight * np.float64(heavy[posting])
        if not touched:
            continue
        for row in range(count):
            flags[row] = totals[row] >= least
            totals[row] = 0.0
        _inside(window, probe, flags)
        pairs = _room(pairs, filled, count)
        filled = _emit(flags, probe, pairs, filled)
    return pairs[0][:filled].copy(), pairs[1][:filled].copy()
