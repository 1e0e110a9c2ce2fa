"""The tuple loop of the virtual-CPU join, compiled (join-2007, Figure 3 and Algorithm 3).

`advance` fetches, expires, inserts and compares until the next adaptation instant; what is to be
compared stands in a `PlanNumbers`, what was found is left in a `Tally`. A window is an append-only array
of stored tuples; its basic windows are ranges of it, so that "newest first" is a range too. Import this
module late: it needs numba. `tests/lab/sim/join/naive_join.py` is its slow, obvious twin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from headgate.joins.instructions import popcount

__all__ = [
    "Arrivals",
    "PlanNumbers",
    "SetupNumbers",
    "Store",
    "Tally",
    "advance",
    "compare_all",
    "count_matches",
    "draw_sets",
    "search_pairs",
    "set_items",
]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]
Bits = npt.NDArray[np.uint64]

#: SetupNumbers.lists
NESTED, TIME_SORTED, ID_SORTED = 0, 1, 2


class Arrivals(NamedTuple):
    """Both streams in order of arrival, and one random number a tuple."""

    time: Floats
    side: Integers
    lo: Bits
    hi: Bits
    type: Integers
    uniform: Floats
    #: Items of a set: the lists that an indexed join looks up.
    size: Integers


class SetupNumbers(NamedTuple):
    """The condition and the machine."""

    #: Common items needed; 0 is equality of the values that stand in `lo`.
    at_least: int
    basic_s: float
    #: n_1, n_2
    blocks: Integers
    capacity: float
    buffer_s: float
    result_cost: float
    lists: int
    #: Utility of a match, by the types of its two tuples.
    utility: Floats


class Store(NamedTuple):
    """Both windows: stored tuples by side, first tuple of each basic window, and the hash index.

    The index is a linked list of rows for every (basic window, value), newest first.
    """

    time: Floats
    lo: Bits
    hi: Bits
    type: Integers
    filled: Integers
    starts: Integers
    begun: Integers
    live: Integers
    heads: Small
    older: Small


class PlanNumbers(NamedTuple):
    """What to compare until the next instant."""

    windows: Floats
    order: Integers
    #: r_{i,z}
    fraction: Floats
    #: r * gamma: the chance of full processing.
    sampling: float
    #: By draw, window, type, basic window: which share of it; used instead of order and fraction.
    shares: Floats
    by_cell: bool


class Tally(NamedTuple):
    """Where the run stands, what came out by second, and what was learnt since the last instant."""

    position: Integers
    free: Floats
    busy: Floats
    output: Floats
    utility: Floats
    comparisons: Floats
    dropped: Floats
    fetched: Integers
    #: By window, basic window and type: tuples compared, what that cost, what it gave.
    seen_tuples: Floats
    seen_cost: Floats
    seen_matches: Floats
    seen_utility: Floats


@njit(cache=True)
def draw_sets(
    random: np.random.Generator, bounds: Floats, offsets: Integers, sizes: Integers, lo: Bits, hi: Bits
) -> None:
    """Distinct items by popularity, moved round the circle by each set's offset."""
    many = len(bounds)
    one = np.uint64(1)
    for index in range(len(sizes)):
        low, high = np.uint64(0), np.uint64(0)
        left = sizes[index]
        while left > 0:
            rank = int(np.searchsorted(bounds, random.random() * bounds[-1], side="right"))
            item = (min(rank, many - 1) + offsets[index]) % many
            if item < 64:
                bit = one << np.uint64(item)
                if low & bit:
                    continue
                low |= bit
            else:
                bit = one << np.uint64(item - 64)
                if high & bit:
                    continue
                high |= bit
            left -= 1
        lo[index], hi[index] = low, high


@njit(cache=True)
def set_items(lo: Bits, hi: Bits, first: Integers, items: Small) -> None:
    """Write the items of every set, in rising order, from its index in `first` on."""
    one = np.uint64(1)
    for index in range(len(lo)):
        at = first[index]
        for item in range(64):
            if (lo[index] >> np.uint64(item)) & one:
                items[at] = item
                at += 1
        for item in range(64):
            if (hi[index] >> np.uint64(item)) & one:
                items[at] = item + 64
                at += 1


@njit(cache=True)
def count_matches(
    lo: Bits, hi: Bits, begin: int, end: int, low: np.uint64, high: np.uint64, at_least: int
) -> int:
    """Matches of one tuple in a range of a window."""
    found = 0
    lows, highs = lo[begin:end], hi[begin:end]  # slices, for an index that may be negative is slow
    if at_least == 0:
        for row in range(len(lows)):
            found += lows[row] == low
    else:
        need = np.uint64(at_least)
        for row in range(len(lows)):
            found += (popcount(lows[row] & low) + popcount(highs[row] & high)) >= need
    return found


@njit(cache=True)
def _count_common(
    lo: Bits, hi: Bits, begin: int, end: int, low: np.uint64, high: np.uint64, at_least: int
) -> tuple[int, float]:
    """Matches in a range of a window, and items in common: the postings that the lists hold."""
    found, common = 0, np.uint64(0)
    need = np.uint64(at_least)
    lows, highs = lo[begin:end], hi[begin:end]
    for row in range(len(lows)):
        shared = popcount(lows[row] & low) + popcount(highs[row] & high)
        found += shared >= need
        common += shared
    return found, float(common)


@njit(cache=True)
def compare_all(lo: Bits, hi: Bits, other_lo: Bits, other_hi: Bits, at_least: int) -> int:
    """Matches over all pairs of two samples of sets."""
    found = 0
    for index in range(len(lo)):
        found += count_matches(other_lo, other_hi, 0, len(other_lo), lo[index], hi[index], at_least)
    return found


@njit(cache=True)
def _utility_of_matches(
    lo: Bits, hi: Bits, kinds: Integers, begin: int, end: int, low: np.uint64, high: np.uint64,
    at_least: int, worth: Floats,
) -> tuple[int, float]:  # fmt: skip
    found, value = 0, 0.0
    need = np.uint64(at_least)
    lows, highs, types_of = lo[begin:end], hi[begin:end], kinds[begin:end]
    for row in range(len(lows)):
        if at_least == 0:
            hit = lows[row] == low
        else:
            hit = popcount(lows[row] & low) + popcount(highs[row] & high) >= need
        if hit:
            found += 1
            value += worth[types_of[row]]
    return found, value


@njit(cache=True)
def search_pairs(
    lo: Bits, hi: Bits, kinds: Integers, probe_lo: Bits, probe_hi: Bits, probe_kinds: Integers,
    probes: Integers, begins: Integers, ends: Integers, at_least: int, utility: Floats,
) -> tuple[int, float]:  # fmt: skip
    """Matches of given probes with given ranges of a window, and their utility."""
    found, value = 0, 0.0
    for pair in range(len(probes)):
        probe = probes[pair]
        some, worth = _utility_of_matches(
            lo, hi, kinds, begins[pair], ends[pair], probe_lo[probe], probe_hi[probe], at_least,
            utility[probe_kinds[probe]],
        )  # fmt: skip
        found += some
        value += worth
    return found, value


@njit(cache=True)
def _search_list(
    store: Store, side: int, block: int, value: int, cut: int, stop: int, worth: Floats
) -> tuple[int, float, float]:
    """Walk the list of a value in a basic window down to the row `stop`; rows from `cut` on count."""
    found, gain, cost = 0, 0.0, 1.0
    row = store.heads[side, block, value]
    while row >= stop:
        cost += 1.0
        if row >= cut:
            found += 1
            gain += worth[store.type[side, row]]
        row = store.older[side, row]
    return found, gain, cost


@njit(cache=True)
def _search(
    arrivals: Arrivals, setup: SetupNumbers, store: Store, index: int, side: int, block: int,
    begin: int, cut: int, end: int,
) -> tuple[int, float, float]:  # fmt: skip
    """Compare a tuple with the rows [cut, end) of a basic window that begins at `begin`.

    Gives matches, utility and cost. Lists sorted by identifier cannot be cut by time: they are walked
    down to `begin`, though only matches from `cut` on count. For sets, the postings in the range are the
    items in common, so they are counted from the bits, which is ten times faster than walking lists.
    """
    worth = setup.utility[arrivals.type[index]]
    low, high = arrivals.lo[index], arrivals.hi[index]
    stop = begin if setup.lists == ID_SORTED else cut
    if setup.lists != NESTED and setup.at_least == 0:
        return _search_list(store, side, block, int(low), cut, stop, worth)
    lo, hi = store.lo[side], store.hi[side]
    cost = float(end - cut)
    if setup.lists != NESTED:
        found, common = _count_common(lo, hi, stop, end, low, high, setup.at_least)
        cost = arrivals.size[index] + common
        if len(worth) == 1 and stop == cut:
            return found, found * worth[0], cost
    if len(worth) == 1:
        found = count_matches(lo, hi, cut, end, low, high, setup.at_least)
        return found, found * worth[0], cost
    found, gain = _utility_of_matches(
        lo, hi, store.type[side], cut, end, low, high, setup.at_least, worth
    )
    return found, gain, cost


@njit(cache=True)
def _insert(arrivals: Arrivals, setup: SetupNumbers, store: Store, index: int, side: int) -> None:
    row = store.filled[side]
    store.time[side, row] = arrivals.time[index]
    store.lo[side, row] = arrivals.lo[index]
    store.hi[side, row] = arrivals.hi[index]
    store.type[side, row] = arrivals.type[index]
    last = store.begun[side] - 1
    if last < 0 or arrivals.time[index] - store.time[side, store.starts[side, last]] >= setup.basic_s:
        last += 1
        store.starts[side, last] = row
        store.begun[side] = last + 1
    store.filled[side] = row + 1
    if setup.lists != NESTED and setup.at_least == 0:
        value = int(arrivals.lo[index])
        store.older[side, row] = store.heads[side, last, value]
        store.heads[side, last, value] = row


@njit(cache=True)
def advance(
    until: float, arrivals: Arrivals, setup: SetupNumbers, store: Store, plan: PlanNumbers, tally: Tally
) -> None:
    """Run the virtual CPU until an instant; a tuple begun before it is finished."""
    last_second = len(tally.output) - 1
    while tally.position[0] < len(arrivals.time):
        index = tally.position[0]
        born = arrivals.time[index]
        now = max(tally.free[0], born)
        if now >= until:
            return
        tally.position[0] = index + 1
        if born < now - setup.buffer_s:
            tally.dropped[min(int(born), last_second)] += 1.0
            continue
        kind, other = arrivals.type[index], 1 - arrivals.side[index]
        tally.fetched[1 - other, kind] += 1
        if plan.windows[1 - other] > 0.0:
            _insert(arrivals, setup, store, index, 1 - other)
        if plan.windows[other] <= 0.0:
            continue
        count, live = store.filled[other], store.live[other]
        while live < count and store.time[other, live] < born - plan.windows[other]:
            live += 1
        while live > 0 and store.time[other, live - 1] >= born - plan.windows[other]:
            live -= 1  # the window is longer than it was
        store.live[other] = live
        fully = arrivals.uniform[index] < plan.sampling
        left = plan.fraction[other, kind] * (count - live)
        draw = index % plan.shares.shape[0]
        found, value, cost = 0, 0.0, 0.0
        for rank in range(setup.blocks[other]):
            which = rank if plan.by_cell else plan.order[other, rank]
            block = store.begun[other] - 1 - which
            if block < 0:
                continue
            end = count if which == 0 else store.starts[other, block + 1]
            begin = max(live, store.starts[other, block])
            size = end - begin
            if size <= 0:
                continue
            take = size
            if plan.by_cell:
                take = int(plan.shares[draw, other, kind, which] * size + 0.5)
            elif not fully:
                take = min(size, int(left + 0.5))
                left -= size
            if take > 0:
                some, worth, spent = _search(
                    arrivals, setup, store, index, other, block, begin, end - take, end
                )
                found += some
                value += worth
                cost += spent
                if fully or plan.by_cell:
                    tally.seen_tuples[other, which, kind] += take
                    tally.seen_cost[other, which, kind] += spent + setup.result_cost * some
                    tally.seen_matches[other, which, kind] += some
                    tally.seen_utility[other, which, kind] += worth
            if not fully and not plan.by_cell and left <= 0.0:
                break
        second = min(int(now), last_second)
        cost += setup.result_cost * found
        tally.output[second] += found
        tally.utility[second] += value
        tally.comparisons[second] += cost
        tally.busy[0] += cost / setup.capacity
        tally.free[0] = now + cost / setup.capacity
