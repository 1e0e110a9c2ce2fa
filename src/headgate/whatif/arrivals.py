"""Rows as they arrive in virtual time: smoothly, in bursts, or handed out by whole seconds."""

from __future__ import annotations

import bisect
import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Protocol

from headgate.errors import BadArgument

__all__ = ["Arrivals", "CountedArrivals", "Rate", "RowTimes", "bursts", "step"]

#: Rows per second at each instant.
Rate = Callable[[float], float]

#: Arrivals are summed up in steps of this many seconds; between two steps they come evenly.
_STEP_S = 0.02
_LONGEST_QUIET_S = 3_600.0


def bursts(mean: float, *, spread: float = 0.7, every_s: float = 6.0, seed: int = 0) -> Rate:
    """A load that changes every few seconds by a log-normal factor; `mean` is its mean in the long run.

    `spread` is the standard deviation of the factor's logarithm: at 0.7 one stretch in twenty has more
    than 2.5 times the mean, and one in twenty less than a quarter of it.

    >>> load = bursts(1000.0, seed=1)
    >>> load(3.0) == load(5.9) != load(6.1)
    True
    """
    if not (mean >= 0 and spread >= 0 and every_s > 0):
        raise BadArgument(
            f"bursts({mean!r}, spread={spread!r}, every_s={every_s!r}): "
            "rows per second and spread are 0 or more, seconds above 0"
        )
    factors: list[float] = []
    rng = random.Random(seed)

    def rate(now: float) -> float:
        index = max(0, int(now / every_s))
        while len(factors) <= index:
            factors.append(rng.lognormvariate(-0.5 * spread * spread, spread))
        return mean * factors[index]

    return rate


def step(before: float, after: float, at_s: float) -> Rate:
    """A load that is another one from an instant on.

    >>> step(10.0, 50.0, at_s=60.0)(61.0)
    50.0
    """
    return lambda now: after if now >= at_s else before


class RowTimes(Protocol):
    """Rows in the order of their arrival, however they are known; `total` may be infinite."""

    total: float

    def until(self, now: float) -> int:
        """How many rows are ready by then."""
        ...

    def instant_of(self, row: int) -> float:
        """When row number `row` (from 0) came."""
        ...

    def ready_at(self, row: int) -> float:
        """When row number `row` can be read."""
        ...


class Arrivals:
    """Rows in the order of their arrival: how many are ready by an instant, and when the n-th came.

    `granule_s` is that of a source that hands out whole stretches of time, as Spark's rate source does
    with seconds: a row is ready at the end of its stretch.
    """

    def __init__(self, rate: Rate, begin: float = 0.0, granule_s: float = 0.0) -> None:
        self._rate, self._begin, self._granule = rate, begin, granule_s
        self._sums = [0.0]
        self.total = math.inf

    def _extend(self, count: int) -> None:
        """Have the sums of at least so many steps."""
        sums, rate_at = self._sums, self._rate
        for number in range(len(sums), count):
            middle = self._begin + (number - 0.5) * _STEP_S
            rate = rate_at(middle)
            if not 0.0 <= rate < math.inf:
                raise BadArgument(f"arrivals({middle:.2f}) = {rate!r}: give rows per second, 0 or more")
            sums.append(sums[-1] + rate * _STEP_S)

    def until(self, now: float) -> int:
        """How many rows are ready by then."""
        if self._granule > 0:
            now = math.floor(now / self._granule + 1e-9) * self._granule
        position = max(0.0, (now - self._begin) / _STEP_S)
        index = int(position)
        self._extend(index + 2)
        low, high = self._sums[index], self._sums[index + 1]
        return int(low + (high - low) * (position - index) + 1e-9)

    def instant_of(self, row: int) -> float:
        """When row number `row` (from 0) came."""
        quiet = 0.0
        while self._sums[-1] < row + 1:
            self._extend(len(self._sums) + 1)
            quiet = quiet + _STEP_S if self._sums[-1] == self._sums[-2] else 0.0
            if quiet > _LONGEST_QUIET_S:
                raise BadArgument("no row arrives for a whole hour: the stream is over")
        index = bisect.bisect_left(self._sums, row + 1)
        low, high = self._sums[index - 1], self._sums[index]
        return self._begin + (index - 1 + (row + 1 - low) / (high - low)) * _STEP_S

    def ready_at(self, row: int) -> float:
        """When row number `row` can be read."""
        came = self.instant_of(row)
        return came if self._granule <= 0 else math.ceil(came / self._granule) * self._granule


class CountedArrivals:
    """Rows that were counted by stretches of time; within a stretch they come evenly.

    `edges` are instants in order, and ``rows[i]`` came between ``edges[i]`` and the next one.

    >>> rows = CountedArrivals([0.0, 1.0, 3.0], [10, 40])
    >>> rows.until(2.0), rows.instant_of(29), rows.total
    (30, 2.0, 50)
    """

    def __init__(self, edges: Sequence[float], rows: Sequence[int], granule_s: float = 0.0) -> None:
        self._edges, self._granule = list(edges), granule_s
        self._sums = [0, *itertools.accumulate(rows)]
        self.total: float = self._sums[-1]

    def until(self, now: float) -> int:
        """How many rows are ready by then."""
        if self._granule > 0:
            now = math.floor(now / self._granule + 1e-9) * self._granule
        index = bisect.bisect_right(self._edges, now) - 1
        if index < 0:
            return 0
        if index >= len(self._edges) - 1:
            return self._sums[-1]
        low, high = self._sums[index], self._sums[index + 1]
        share = (now - self._edges[index]) / (self._edges[index + 1] - self._edges[index])
        return int(low + (high - low) * share + 1e-9)

    def instant_of(self, row: int) -> float:
        """When row number `row` (from 0) came."""
        if row >= self.total:
            raise BadArgument("no row arrives any more: the stream is over")
        index = bisect.bisect_left(self._sums, row + 1)
        low, high = self._sums[index - 1], self._sums[index]
        begin, end = self._edges[index - 1], self._edges[index]
        return begin + (row + 1 - low) / (high - low) * (end - begin)

    def ready_at(self, row: int) -> float:
        """When row number `row` can be read."""
        came = self.instant_of(row)
        return came if self._granule <= 0 else math.ceil(came / self._granule - 1e-9) * self._granule
