"""Compiled twins of LAS and its competitors: same rules, same arithmetic, arrays for objects.

Import this module late: it needs numba. `tests/lab/sim/las/test_queue.py` holds every kernel to its
class, decision for decision. State lives in small arrays, so that functions can change it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = [
    "QueueNumbers",
    "TargetNumbers",
    "add",
    "admit",
    "age",
    "estimate",
    "exceeds",
    "learn_pair",
    "run_las",
    "run_queue",
]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


AVERAGE, AVERAGE_SHORT, ABSOLUTE, SLIDING = 0, 1, 2, 3


class TargetNumbers(NamedTuple):
    """A latency target as plain numbers, for compiled code."""

    kind: int
    tau: float
    window: int
    counted_before: int


class QueueNumbers(NamedTuple):
    """The published algorithm's parameters."""

    window: int
    stability: float
    factor: float
    clamp_idle: bool
    guard_delta: bool
    keep_share: float
    delay: float


@njit(cache=True)
def exceeds(target: TargetNumbers, sums: Floats, ring: Floats, wait: float) -> bool:
    """CHECKLATENCY, without its side effect."""
    if target.kind == ABSOLUTE:
        return wait > target.tau
    if target.kind == AVERAGE:
        return bool(sums[0] + wait > target.tau * sums[1])
    if target.kind == AVERAGE_SHORT:
        return bool(sums[0] > target.tau * sums[1])
    held = sums[1]
    before = sums[0]
    if held == target.window:
        before = sums[0] - ring[int(sums[2])]
    return wait > 0.0 and before + wait > target.tau * held


@njit(cache=True)
def admit(target: TargetNumbers, sums: Floats, ring: Floats, wait: float) -> None:
    """What CHECKLATENCY remembers of a tuple that it let through."""
    if target.kind == SLIDING:
        head = int(sums[2])
        if sums[1] == target.window:
            sums[0] -= ring[head]
        else:
            sums[1] += 1.0
        ring[head] = wait
        sums[2] = (head + 1) % target.window
        sums[0] += wait
    else:
        sums[0] += wait
        sums[1] += 1.0


@njit(cache=True)
def estimate(F: Floats, W: Floats, item_columns: Integers, item: int, mean: float) -> float:
    """The same as `CostSketch.duration`, compiled."""
    best, least = 0, math.inf
    for row in range(F.shape[0]):
        frequency = F[row, item_columns[item, row]]
        if frequency <= 0.0:
            return mean
        if frequency < least:
            best, least = row, frequency
    return float(W[best, item_columns[item, best]] / least)


@njit(cache=True)
def _ratio(F: Floats, W: Floats, row: int, column: int) -> float:
    return W[row, column] / F[row, column] if F[row, column] > 0.0 else 0.0


@njit(cache=True)
def _instability(before: Floats, F: Floats, W: Floats) -> float:
    whole = 0.0
    change = 0.0
    for row in range(F.shape[0]):
        for column in range(F.shape[1]):
            whole += before[row, column]
            change += abs(before[row, column] - _ratio(F, W, row, column))
    return change / whole if whole > 0.0 else math.inf


@njit(cache=True)
def _window_ends(F: Floats, W: Floats, before: Floats, stabilizing: bool, stability: float) -> bool:
    """Listing 3.1, lines 14-23: True if the pair is to be sent."""
    if stabilizing and _instability(before, F, W) <= stability:
        return True
    for row in range(F.shape[0]):
        for column in range(F.shape[1]):
            before[row, column] = _ratio(F, W, row, column)
    return False


@njit(cache=True)
def age(F: Floats, W: Floats, totals: Floats, share: float) -> None:
    """The same as `CostSketch.scale`, compiled."""
    F *= share
    W *= share
    totals *= share


@njit(cache=True)
def add(F: Floats, W: Floats, totals: Floats, item_columns: Integers, item: int, seconds: float) -> None:
    """The same as `CostSketch.add`, compiled."""
    for row in range(F.shape[0]):
        F[row, item_columns[item, row]] += 1.0
        W[row, item_columns[item, row]] += seconds
    totals[0] += 1.0
    totals[1] += seconds


@njit(cache=True)
def learn_pair(
    items: Integers,
    durations: Floats,
    item_columns: Integers,
    columns: int,
    window: int,
    stability: float,
) -> tuple[Floats, Floats, Floats]:
    """The first pair that an operator sends after these tuples; all of them if it sends none."""
    rows = item_columns.shape[1]
    F, W, totals = np.zeros((rows, columns)), np.zeros((rows, columns)), np.zeros(2)
    before = np.zeros((rows, columns))
    stabilizing = False
    for index in range(len(items)):
        if (index + 1) % window == 0:
            if _window_ends(F, W, before, stabilizing, stability):
                return F, W, totals
            stabilizing = True
        add(F, W, totals, item_columns, items[index], durations[index])
    return F, W, totals


@njit(cache=True)
def run_queue(
    durations: Floats, arrivals: Floats, costs: Floats, target: TargetNumbers
) -> tuple[Flags, Floats, Floats]:
    """A queue check with given costs: Full Knowledge, or Straw-Man."""
    count = len(arrivals)
    keep, latency, expected = np.zeros(count, np.bool_), np.zeros(count), np.zeros(count)
    sums, ring = np.zeros(3), np.zeros(max(1, target.window))
    sums[1] = target.counted_before
    total = free = 0.0
    for i in range(count):
        now = arrivals[i]
        total = max(total, now)
        wait = total - now
        expected[i] = wait
        if exceeds(target, sums, ring, wait):
            continue
        admit(target, sums, ring, wait)
        total += costs[i]
        keep[i] = True
        start = max(free, now)
        latency[i] = start - now
        free = start + durations[i]
    return keep, latency, expected


@njit(cache=True)
def run_las(
    items: Integers,
    durations: Floats,
    arrivals: Floats,
    item_columns: Integers,
    columns: int,
    target: TargetNumbers,
    numbers: QueueNumbers,
    warm: bool,
    warm_F: Floats,
    warm_W: Floats,
    warm_totals: Floats,
) -> tuple[Flags, Floats, Floats, int]:
    """LAS: operator, load shedder and the messages between them."""
    count, rows = len(items), item_columns.shape[1]
    keep, latency, expected = np.zeros(count, np.bool_), np.zeros(count), np.zeros(count)
    done_at, sent, requests = np.zeros(count), np.zeros(count, np.int64), np.full(count, np.nan)
    sums, ring = np.zeros(3), np.zeros(max(1, target.window))
    sums[1] = target.counted_before
    F, W, totals = np.zeros((rows, columns)), np.zeros((rows, columns)), np.zeros(2)
    before = np.zeros((rows, columns))
    known_F, known_W, known = warm_F.copy(), warm_W.copy(), warm_totals.copy()
    # Messages under way: Deltas hold NaN-free values; a pair is kept apart until it is delivered.
    box_at, box_delta = np.zeros(count + 1), np.full(count + 1, np.nan)
    slots = 8
    slot_F, slot_W = np.zeros((slots, rows, columns)), np.zeros((slots, rows, columns))
    slot_totals = np.zeros((slots, 2))
    written = read = pairs_in = pairs_out = 0
    stabilizing, waiting = False, False
    state = 1 if warm else 0
    total = free = 0.0
    n_sent = n_done = 0
    for i in range(count):
        now = arrivals[i]
        while n_done < n_sent and done_at[n_done] <= now:
            index = sent[n_done]
            if not math.isnan(requests[n_done]):
                box_at[written] = done_at[n_done] + numbers.delay
                box_delta[written] = done_at[n_done] - requests[n_done]
                written += 1
            if (n_done + 1) % numbers.window == 0:
                if _window_ends(F, W, before, stabilizing, numbers.stability):
                    slot = pairs_in % slots
                    if pairs_in - pairs_out >= slots:
                        raise ValueError("more than 8 pairs of matrices under way: shorten the delay")
                    slot_F[slot], slot_W[slot], slot_totals[slot] = F, W, totals
                    pairs_in += 1
                    box_at[written] = done_at[n_done] + numbers.delay
                    box_delta[written] = np.nan
                    written += 1
                    stabilizing = False
                    age(F, W, totals, numbers.keep_share)
                else:
                    stabilizing = True
            add(F, W, totals, item_columns, items[index], durations[index])
            n_done += 1
        while read < written and box_at[read] <= now:
            if math.isnan(box_delta[read]):
                slot = pairs_out % slots
                known_F[:], known_W[:], known[:] = slot_F[slot], slot_W[slot], slot_totals[slot]
                pairs_out += 1
                state = 1
            else:
                total += box_delta[read]
                waiting = False
            read += 1
        if numbers.clamp_idle and total < now:
            total = now
        wait = total - now
        expected[i] = wait
        request = np.nan
        if state != 0:
            if exceeds(target, sums, ring, wait):
                continue
            admit(target, sums, ring, wait)
            mean = known[1] / known[0] if known[0] > 0.0 else 0.0
            total += estimate(known_F, known_W, item_columns, items[i], mean) * numbers.factor
            if state == 1 and not (numbers.guard_delta and waiting):
                state = 2
                waiting = True
                request = total
        keep[i] = True
        start = max(free, now)
        latency[i] = start - now
        free = start + durations[i]
        done_at[n_sent], sent[n_sent], requests[n_sent] = free, i, request
        n_sent += 1
    return keep, latency, expected, pairs_in
