"""Compiled twins of the shipped shedders: same rules, same order of arithmetic, arrays instead of objects.

Import this module late: it needs numba. `tests/test_las_kernels.py` holds every kernel to its class,
decision for decision. State lives in small arrays, so that helpers can change it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

__all__ = ["PriceNumbers", "QueueNumbers", "TargetNumbers", "learn_pair", "run_las", "run_price", "run_queue"]

AVERAGE, AVERAGE_SHORT, ABSOLUTE, SLIDING = 0, 1, 2, 3
KNOWN, TABLE, SKETCH = 0, 1, 2


class TargetNumbers(NamedTuple):
    """A latency target."""

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


class PriceNumbers(NamedTuple):
    """A price's parameters."""

    gamma: float
    kp: float
    ki: float
    floor: float
    costs: int
    every: int
    half_life: int
    memory: int
    delay: float


@njit(cache=True)
def _exceeds(target, sums, ring, wait):
    if target.kind == ABSOLUTE:
        return wait > target.tau
    if target.kind == AVERAGE:
        return sums[0] + wait > target.tau * sums[1]
    if target.kind == AVERAGE_SHORT:
        return sums[0] > target.tau * sums[1]
    held = sums[1]
    before = sums[0]
    if held == target.window:
        before = sums[0] - ring[int(sums[2])]
    return wait > 0.0 and before + wait > target.tau * held


@njit(cache=True)
def _admit(target, sums, ring, wait):
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
def _estimate(F, W, cells, item, mean):
    best, least = 0, math.inf
    for row in range(F.shape[0]):
        frequency = F[row, cells[item, row]]
        if frequency <= 0.0:
            return mean
        if frequency < least:
            best, least = row, frequency
    return W[best, cells[item, best]] / least


@njit(cache=True)
def _ratio(F, W, row, cell):
    return W[row, cell] / F[row, cell] if F[row, cell] > 0.0 else 0.0


@njit(cache=True)
def _instability(before, F, W):
    whole = 0.0
    change = 0.0
    for row in range(F.shape[0]):
        for cell in range(F.shape[1]):
            whole += before[row, cell]
            change += abs(before[row, cell] - _ratio(F, W, row, cell))
    return change / whole if whole > 0.0 else math.inf


@njit(cache=True)
def _window_ends(F, W, before, stabilizing, stability):
    """Listing 3.1, lines 14-23: True if the pair is to be sent (the caller copies it, then calls _age)."""
    if stabilizing and _instability(before, F, W) <= stability:
        return True
    for row in range(F.shape[0]):
        for cell in range(F.shape[1]):
            before[row, cell] = _ratio(F, W, row, cell)
    return False


@njit(cache=True)
def _age(F, W, totals, share):
    F *= share
    W *= share
    totals *= share


@njit(cache=True)
def _add(F, W, totals, cells, item, seconds):
    for row in range(F.shape[0]):
        F[row, cells[item, row]] += 1.0
        W[row, cells[item, row]] += seconds
    totals[0] += 1.0
    totals[1] += seconds


@njit(cache=True)
def learn_pair(items, durations, cells, columns, window, stability):
    """The first pair that an operator sends after executing these tuples; all of them if it sends none."""
    rows = cells.shape[1]
    F, W, totals = np.zeros((rows, columns)), np.zeros((rows, columns)), np.zeros(2)
    before = np.zeros((rows, columns))
    stabilizing = False
    for place in range(len(items)):
        if (place + 1) % window == 0:
            if _window_ends(F, W, before, stabilizing, stability):
                return F, W, totals
            stabilizing = True
        _add(F, W, totals, cells, items[place], durations[place])
    return F, W, totals


@njit(cache=True)
def run_queue(durations, arrivals, costs, target):
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
        if _exceeds(target, sums, ring, wait):
            continue
        _admit(target, sums, ring, wait)
        total += costs[i]
        keep[i] = True
        start = max(free, now)
        latency[i] = start - now
        free = start + durations[i]
    return keep, latency, expected


@njit(cache=True)
def run_las(items, durations, arrivals, cells, columns, target, numbers, warm, warm_F, warm_W, warm_totals):
    """LAS: operator, load shedder and the messages between them."""
    count, rows = len(items), cells.shape[1]
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
            place = sent[n_done]
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
                    _age(F, W, totals, numbers.keep_share)
                else:
                    stabilizing = True
            _add(F, W, totals, cells, items[place], durations[place])
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
            if _exceeds(target, sums, ring, wait):
                continue
            _admit(target, sums, ring, wait)
            mean = known[1] / known[0] if known[0] > 0.0 else 0.0
            total += _estimate(known_F, known_W, cells, items[i], mean) * numbers.factor
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


@njit(cache=True)
def _table_find(tags, uses, where, item):
    for way in range(tags.shape[1]):
        if uses[where, way] > 0.0 and tags[where, way] == item:
            return way
    return -1


@njit(cache=True)
def _table_learn(tags, uses, means, overall, memory, where, item, seconds):
    overall[0] = min(overall[0] + 1.0, 1024.0)
    overall[1] += (seconds - overall[1]) / overall[0]
    way = _table_find(tags, uses, where, item)
    if way < 0:
        way = int(np.argmin(uses[where]))
        if uses[where, way] > 1.0:
            uses[where, way] -= 1.0
            return
        tags[where, way] = item
        uses[where, way] = 0.0
        means[where, way] = 0.0
    uses[where, way] += 1.0
    means[where, way] += (seconds - means[where, way]) / min(uses[where, way], float(memory))


@njit(cache=True)
def run_price(items, durations, arrivals, coins, cells, shape, target, numbers):
    """A price with its guard and acknowledgements.

    `shape` is (sets, ways) of a table, or (rows, columns) of a sketch; `cells` says where items live.
    """
    count = len(items)
    keep, latency, expected = np.zeros(count, np.bool_), np.zeros(count), np.zeros(count)
    chances = np.zeros(count)
    done_at, sent, raws = np.zeros(count), np.zeros(count, np.int64), np.zeros(count)
    sums, ring = np.zeros(3), np.zeros(max(1, target.window))
    sums[1] = target.counted_before
    tags = np.full(shape, -1, np.int64)
    first, second, overall = np.zeros(shape), np.zeros(shape), np.zeros(2)
    total = free = theta = dearest = real = estimated = 0.0
    scale = 1.0
    n_sent = n_acked = learnt = guarded = 0
    for i in range(count):
        now, item = arrivals[i], items[i]
        while numbers.costs != KNOWN:
            last = n_acked + numbers.every - 1
            if last >= n_sent or done_at[last] + numbers.delay > now:
                break
            real *= 0.9
            estimated *= 0.9
            for place in range(n_acked, last + 1):
                seconds, done = durations[sent[place]], items[sent[place]]
                if numbers.costs == TABLE:
                    _table_learn(
                        tags, first, second, overall, numbers.memory, cells[done, 0], done, seconds
                    )
                else:
                    _add(first, second, overall, cells, done, seconds)
                    learnt += 1
                    if learnt % numbers.half_life == 0:
                        _age(first, second, overall, 0.5)
                real += seconds
                estimated += raws[place]
            n_acked = last + 1
            if estimated > 0.0:
                scale = real / estimated
            total = done_at[last]
            for place in range(n_acked, n_sent):
                total = max(total, arrivals[sent[place]]) + raws[place] * scale
        total = max(total, now)
        wait = total - now
        expected[i] = wait
        if numbers.costs == KNOWN:
            raw = durations[i]
        elif numbers.costs == TABLE:
            way = _table_find(tags, first, cells[item, 0], item)
            raw = second[cells[item, 0], way] if way >= 0 else overall[1]
        else:
            mean = overall[1] / overall[0] if overall[0] > 0.0 else 0.0
            raw = _estimate(first, second, cells, item, mean)
        cost = raw * scale
        opened = theta >= dearest
        dearest = max(dearest * 0.9999, cost)
        if opened:
            theta = dearest
        if target.tau <= 0.0:
            x = 1.0 if wait <= 0.0 else -2.0
        else:
            x = min(1.0, max(-2.0, (target.tau - wait) / target.tau))
        level = theta * math.exp(numbers.kp * x)
        theta = min(dearest, max(1e-3 * dearest, theta * math.exp(numbers.ki * x)))
        if cost <= level:
            chance = 1.0
        elif math.isinf(numbers.gamma):
            chance = numbers.floor
        else:
            chance = max(numbers.floor, math.pow(level / cost, numbers.gamma))
        chances[i] = chance
        if coins[i] >= chance:
            continue
        if _exceeds(target, sums, ring, wait):
            guarded += 1
            continue
        _admit(target, sums, ring, wait)
        total += cost
        keep[i] = True
        start = max(free, now)
        latency[i] = start - now
        free = start + durations[i]
        done_at[n_sent], sent[n_sent], raws[n_sent] = free, i, raw
        n_sent += 1
    return keep, latency, expected, chances, guarded
