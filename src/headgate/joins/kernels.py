"""Compiled comparisons of a batch of probes with a block (join-2007, section 3.2, block at a time).

Import this module late: it needs numba. `tests/joins/test_kernels.py` holds the kernels to naive twins.

Every kernel works alike. For a probe it writes one byte a stored row, 1 where the row may match: a loop
so plain that the compiler makes vectors of it. Then it reads the bytes eight at a time as one word,
skips the words that are 0 and takes the set bytes of the others by counting trailing zeros (so the
machine must be little-endian, as x86 and ARM are). Few pairs match, so the second loop costs little. The
times are looked at only where a block is not wholly inside the probe's window.

Numbers are written as np.uint64 where words are meant: numba turns uint64 with int64 into floats.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from headgate.joins.arrays import Bytes, Indices, Integers, Singles, Words
from headgate.joins.instructions import lowest_bit, popcount

__all__ = [
    "SetBlock",
    "Window",
    "count_overlaps",
    "key_pairs",
    "key_runs",
    "plain_pairs",
    "set_pairs",
    "vector_pairs",
]

Pairs = tuple[Indices, Indices]

OVERLAP, PROBE_INSIDE, ROW_INSIDE = 0, 1, 2
_ONE, _NONE = np.uint64(1), np.uint64(0)


class SetBlock(NamedTuple):
    """The arrays of `SetRows`."""

    lo: Words
    hi: Words
    lost: Bytes
    offsets: Indices
    items: Integers


class Window(NamedTuple):
    """Times of both sides, the reach, and the block's earliest and latest time."""

    probe_time: Integers
    row_time: Integers
    before: int
    after: int
    first: int
    last: int


@njit(cache=True)
def _room(pairs: Pairs, filled: int, more: int) -> Pairs:
    """The pairs with space for so many more."""
    if filled + more <= len(pairs[0]):
        return pairs
    size = max(2 * len(pairs[0]), filled + more)
    ours, theirs = np.empty(size, np.int32), np.empty(size, np.int32)
    ours[:filled] = pairs[0][:filled]
    theirs[:filled] = pairs[1][:filled]
    return ours, theirs


@njit(cache=True)
def _inside(window: Window, probe: int, flags: Bytes) -> None:
    """Clear the flags of rows outside the probe's window."""
    now, times = window.probe_time[probe], window.row_time
    earliest, latest = now - window.before, now + window.after
    if earliest <= window.first and window.last <= latest:
        return
    for row in range(len(times)):
        flags[row] &= np.uint8((times[row] >= earliest) & (times[row] <= latest))


@njit(cache=True)
def _in_reach(window: Window, probe: int) -> bool:
    """Whether any of the block can be in the probe's window."""
    now = window.probe_time[probe]
    return bool(now - window.before <= window.last and window.first <= now + window.after)


@njit(cache=True)
def _emit(flags: Bytes, probe: int, pairs: Pairs, filled: int) -> int:
    """Write a pair for every flag; the new number of pairs."""
    words = flags.view(np.uint64)
    ours, theirs = pairs
    for at in range(len(words)):
        word = words[at]
        while word != _NONE:
            ours[filled] = probe
            theirs[filled] = 8 * at + (lowest_bit(word) >> 3)
            filled += 1
            word &= word - _ONE
    return filled


@njit(cache=True)
def _empty_flags(rows: int) -> Bytes:
    """A flag a row, padded to whole words of 0."""
    return np.zeros((rows + 7) // 8 * 8, np.uint8)


@njit(cache=True)
def _flag_overlap(flags: Bytes, rows: SetBlock, lo: int, hi: int, lost: int, need: Any) -> None:
    if lost == 0:
        for row in range(len(rows.lo)):
            flags[row] = popcount(rows.lo[row] & lo) + popcount(rows.hi[row] & hi) >= need
    else:
        for row in range(len(rows.lo)):
            hidden = np.uint64(min(lost, rows.lost[row]))
            flags[row] = popcount(rows.lo[row] & lo) + popcount(rows.hi[row] & hi) + hidden >= need


@njit(cache=True)
def _flag_inside(flags: Bytes, rows: SetBlock, lo: int, hi: int, probe_inside: bool) -> None:
    if probe_inside:
        for row in range(len(rows.lo)):
            flags[row] = (lo & ~rows.lo[row]) | (hi & ~rows.hi[row]) == _NONE
    else:
        for row in range(len(rows.lo)):
            flags[row] = (rows.lo[row] & ~lo) | (rows.hi[row] & ~hi) == _NONE


@njit(cache=True)
def _share(
    ours: Integers, start: int, stop: int, theirs: Integers, low: int, high: int, need: int
) -> bool:
    """Whether two sorted runs of items have so many in common."""
    common = 0
    while start < stop and low < high:
        x, y = ours[start], theirs[low]
        common += x == y
        if common >= need:
            return True
        start += x <= y
        low += y <= x
    return False


@njit(cache=True)
def _verify(
    how: int,
    need: int,
    probes: SetBlock,
    rows: SetBlock,
    probe: int,
    pairs: Pairs,
    done: int,
    filled: int,
) -> int:
    """Keep those of the pairs from `done` on whose items match; the new number of pairs."""
    start, stop = probes.offsets[probe], probes.offsets[probe + 1]
    for at in range(done, filled):
        row = pairs[1][at]
        low, high = rows.offsets[row], rows.offsets[row + 1]
        want = need if how == OVERLAP else (stop - start if how == PROBE_INSIDE else high - low)
        if want == 0 or _share(probes.items, start, stop, rows.items, low, high, want):
            pairs[0][done] = probe
            pairs[1][done] = row
            done += 1
    return done


@njit(cache=True)
def set_pairs(
    how: int, need: int, exact: bool, picked: Indices, probes: SetBlock, rows: SetBlock, window: Window
) -> Pairs:
    """Pairs of sets that overlap in `need` items, or of which one contains the other."""
    count = len(rows.lo)
    flags = _empty_flags(count)
    pairs = (np.empty(max(1024, count), np.int32), np.empty(max(1024, count), np.int32))
    # 255 stands for "255 or more" in `lost`, so the filter must not ask for more than that
    least, filled = np.uint64(min(need, 255)) if not exact else np.uint64(need), 0
    for at in range(len(picked)):
        probe = picked[at]
        if not _in_reach(window, probe):
            continue
        lo, hi = probes.lo[probe], probes.hi[probe]
        if how == OVERLAP:
            _flag_overlap(flags, rows, lo, hi, probes.lost[probe], least)
        else:
            _flag_inside(flags, rows, lo, hi, how == PROBE_INSIDE)
        _inside(window, probe, flags)
        pairs = _room(pairs, filled, count)
        before, filled = filled, _emit(flags, probe, pairs, filled)
        if not exact:
            filled = _verify(how, need, probes, rows, probe, pairs, before, filled)
    return pairs[0][:filled].copy(), pairs[1][:filled].copy()


@njit(cache=True)
def count_overlaps(need: int, lo: Words, hi: Words, row_lo: Words, row_hi: Words) -> int:
    """Pairs of signatures that share so many bits, counted and not written."""
    total, least = 0, np.uint64(need)
    for probe in range(len(lo)):
        for row in range(len(row_lo)):
            common = popcount(row_lo[row] & lo[probe]) + popcount(row_hi[row] & hi[probe])
            total += common >= least
    return total


@njit(cache=True)
def key_pairs(picked: Indices, probes: Integers, rows: Integers, window: Window) -> Pairs:
    """Pairs of equal keys, every row looked at."""
    count, filled = len(rows), 0
    flags = _empty_flags(count)
    pairs = (np.empty(max(1024, count), np.int32), np.empty(max(1024, count), np.int32))
    for at in range(len(picked)):
        probe = picked[at]
        if not _in_reach(window, probe):
            continue
        key = probes[probe]
        for row in range(count):
            flags[row] = rows[row] == key
        _inside(window, probe, flags)
        pairs = _room(pairs, filled, count)
        filled = _emit(flags, probe, pairs, filled)
    return pairs[0][:filled].copy(), pairs[1][:filled].copy()


@njit(cache=True)
def _first_index(keys: Integers, key: int) -> int:
    """Where the run of a key would begin; halving without branches."""
    low, size = 0, len(keys)
    while size > 0:
        half = size >> 1
        right = keys[low + half] < key
        low += (half + 1) * right
        size = (size - half - 1) if right else half
    return low


@njit(cache=True)
def key_runs(picked: Indices, probes: Integers, order: Indices, keys: Integers, window: Window) -> Pairs:
    """Pairs of equal keys, by binary search in a block sorted by key."""
    pairs, filled, count = (np.empty(1024, np.int32), np.empty(1024, np.int32)), 0, len(keys)
    for at in range(len(picked)):
        probe = picked[at]
        key, now = probes[probe], window.probe_time[probe]
        run = _first_index(keys, key)
        while run < count and keys[run] == key:
            time = window.row_time[order[run]]
            if now - window.before <= time <= now + window.after:
                pairs = _room(pairs, filled, 1)
                pairs[0][filled] = probe
                pairs[1][filled] = order[run]
                filled += 1
            run += 1
    return pairs[0][:filled].copy(), pairs[1][:filled].copy()


@njit(cache=True)
def vector_pairs(
    products: Singles, floor: Singles, least: float, picked: Indices, probes: Singles, rows: Singles,
    window: Window,
) -> Pairs:  # fmt: skip
    """Pairs whose product reaches `least`, from products in single precision.

    A product below its probe's floor cannot reach it; one above the floor is computed again in double
    precision, unless it is above `least` by as much.
    """
    count, filled = len(rows), 0
    flags = _empty_flags(count)
    pairs = (np.empty(max(1024, count), np.int32), np.empty(max(1024, count), np.int32))
    for at in range(len(picked)):
        probe, low = picked[at], floor[at]
        sure = np.float32(2.0 * least - low)
        for row in range(count):
            flags[row] = not products[at, row] < low
        _inside(window, probe, flags)
        pairs = _room(pairs, filled, count)
        before, stop = filled, _emit(flags, probe, pairs, filled)
        for found in range(before, stop):
            row = pairs[1][found]
            if products[at, row] <= sure or np.isnan(products[at, row]):
                total = 0.0
                for part in range(rows.shape[1]):
                    total += np.float64(probes[probe, part]) * np.float64(rows[row, part])
                if not total >= least:
                    continue
            pairs[0][filled] = probe
            pairs[1][filled] = row
            filled += 1
    return pairs[0][:filled].copy(), pairs[1][:filled].copy()


@njit(cache=True)
def plain_pairs(picked: Indices, count: int, window: Window) -> Pairs:
    """All pairs inside the window."""
    flags, filled = _empty_flags(count), 0
    pairs = (np.empty(max(1024, count), np.int32), np.empty(max(1024, count), np.int32))
    for at in range(len(picked)):
        probe = picked[at]
        if not _in_reach(window, probe):
            continue
        flags[:count] = 1
        _inside(window, probe, flags)
        pairs = _room(pairs, filled, count)
        filled = _emit(flags, probe, pairs, filled)
    return pairs[0][:filled].copy(), pairs[1][:filled].copy()
