"""The compiled twin of the price shedder. Import this module late: it needs numba."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from headgate_lab.sim.las.kernels import (
    Flags,
    Floats,
    Integers,
    TargetNumbers,
    add,
    admit,
    age,
    estimate,
    exceeds,
)

__all__ = ["BALANCED", "HARD", "KNOWN", "SKETCH", "SOFT", "TABLE", "PriceNumbers", "run_price"]

KNOWN, TABLE, SKETCH = 0, 1, 2
HARD, SOFT, BALANCED = 0, 1, 2


class PriceNumbers(NamedTuple):
    """A price's parameters as plain numbers, for compiled code."""

    shape: int
    gamma: float
    spread: float
    kp: float
    ki: float
    fade: float
    lowest: float
    recent: float
    spare: float
    credit: float
    most_credit: float
    costs: int
    every: int
    half_life: int
    memory: int
    ack_memory: float
    delay: float


@njit(cache=True)
def _find(tags: Integers, uses: Floats, where: int, item: int) -> int:
    for way in range(tags.shape[1]):
        if uses[where, way] > 0.0 and tags[where, way] == item:
            return way
    return -1


@njit(cache=True)
def _learn(
    tags: Integers,
    uses: Floats,
    means: Floats,
    overall: Floats,
    memory: int,
    where: int,
    item: int,
    seconds: float,
) -> None:
    overall[0] = min(overall[0] + 1.0, 1024.0)
    overall[1] += (seconds - overall[1]) / overall[0]
    way = _find(tags, uses, where, item)
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
def _chance(numbers: PriceNumbers, cost: float, level: float) -> float:
    if cost <= level:
        return 1.0
    if numbers.shape == HARD or level <= 0.0:
        return 0.0
    if numbers.shape == SOFT:
        return math.pow(level / cost, numbers.gamma)
    return min(1.0, math.sqrt(numbers.spread / (cost / level - 1.0)))


@njit(cache=True)
def _next_ack(acked: int, every: int) -> int:
    """How many tuples are done at the next acknowledgement: 1, 2, 4, ... and then every few."""
    if acked >= every:
        return acked + every
    return min(every, max(1, 2 * acked))


@njit(cache=True)
def run_price(
    items: Integers,
    durations: Floats,
    arrivals: Floats,
    coins: Floats,
    item_columns: Integers,
    shape: tuple[int, int],
    target: TargetNumbers,
    numbers: PriceNumbers,
) -> tuple[Flags, Floats, Floats, Floats, int]:
    """A price with its guard and acknowledgements.

    `shape` is (sets, ways) of a table, or (rows, columns) of a sketch; `item_columns` has
    the set, or the columns, of each item.
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
    mean_wait = seen = 0.0
    scale = 1.0
    n_sent = n_acked = learnt = guarded = 0
    for i in range(count):
        now, item = arrivals[i], items[i]
        while True:
            last = _next_ack(n_acked, numbers.every) - 1
            if last >= n_sent or done_at[last] + numbers.delay > now:
                break
            real *= numbers.ack_memory
            estimated *= numbers.ack_memory
            for index in range(n_acked, last + 1):
                seconds, done = durations[sent[index]], items[sent[index]]
                if numbers.costs == TABLE:
                    _learn(
                        tags,
                        first,
                        second,
                        overall,
                        numbers.memory,
                        item_columns[done, 0],
                        done,
                        seconds,
                    )
                elif numbers.costs == SKETCH:
                    add(first, second, overall, item_columns, done, seconds)
                    learnt += 1
                    if learnt % numbers.half_life == 0:
                        age(first, second, overall, 0.5)
                real += seconds
                estimated += raws[index]
            n_acked = last + 1
            if estimated > 0.0:
                scale = real / estimated
            total = done_at[last]
            for index in range(n_acked, n_sent):
                total = max(total, arrivals[sent[index]]) + raws[index] * scale
        total = max(total, now)
        wait = total - now
        expected[i] = wait
        if numbers.costs == KNOWN:
            raw = durations[i]
        elif numbers.costs == TABLE:
            way = _find(tags, first, item_columns[item, 0], item)
            raw = second[item_columns[item, 0], way] if way >= 0 else overall[1]
        else:
            mean = overall[1] / overall[0] if overall[0] > 0.0 else 0.0
            raw = estimate(first, second, item_columns, item, mean)
        cost = raw * scale
        opened = theta >= dearest
        dearest = max(dearest * numbers.fade, cost)
        if opened:
            theta = dearest
        if target.tau <= 0.0:
            x = 1.0 if wait <= 0.0 else -2.0
        else:
            spare = max(0.0, numbers.credit * (numbers.spare - mean_wait / target.tau))
            aim = target.tau * (1.0 + min(numbers.most_credit, spare))
            x = min(1.0, max(-2.0, (aim - wait) / target.tau))
        seen = min(seen + 1.0, numbers.recent)
        mean_wait += (wait - mean_wait) / seen
        level = theta * math.exp(numbers.kp * x)
        theta = min(dearest, max(numbers.lowest * dearest, theta * math.exp(numbers.ki * x)))
        chance = _chance(numbers, cost, level)
        chances[i] = chance
        if coins[i] >= chance:
            continue
        if exceeds(target, sums, ring, wait):
            guarded += 1
            continue
        admit(target, sums, ring, wait)
        total += cost
        keep[i] = True
        start = max(free, now)
        latency[i] = start - now
        free = start + durations[i]
        done_at[n_sent], sent[n_sent], raws[n_sent] = free, i, raw
        n_sent += 1
    return keep, latency, expected, chances, guarded
