"""A sliding window as basic windows in a circular buffer (join-2007, section 5.1).

The window of w seconds is cut into n = 1 + ceil(w / b) basic windows of b seconds. Tuples never move:
when the newest basic window is b seconds old, the oldest is emptied and becomes the newest, in constant
time. Half of Algorithm 3 is here too: `select` walks the basic windows in a given order until a fraction
of the window is used up.

Reading: tuples past the window's end are skipped, also while their basic window lives. As printed they
are compared until it leaves; and since basic windows shift on arrivals only, two thirds of a sparse
stream's output would then be older than w. Of the last basic window the newest part is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from headgate.errors import BadArgument

__all__ = ["BasicWindows"]

Row = TypeVar("Row")


class BasicWindows(Generic[Row]):
    """The rows of one stream's window, in basic windows; number 0 is the newest.

    >>> window = BasicWindows(window_s=2.0, basic_s=1.0)
    >>> for second, row in [(0.0, "a"), (0.5, "b"), (1.2, "c"), (2.1, "d")]:
    ...     window.insert(second, row)
    >>> [window.live(number, now=2.2) for number in range(window.blocks)]
    [['c', 'd'], ['b'], []]
    """

    def __init__(self, window_s: float, basic_s: float = math.inf) -> None:
        if not 0 < window_s < math.inf:
            raise BadArgument(f"window_s={window_s!r}: give seconds above 0")
        if not basic_s > 0:
            raise BadArgument(f"basic_s={basic_s!r}: give seconds above 0, or math.inf for none")
        self.window_s, self.basic_s = window_s, basic_s
        #: n: how many basic windows there are.
        self.blocks = 1 if math.isinf(basic_s) else 1 + math.ceil(window_s / basic_s - 1e-9)
        self._ring: list[list[tuple[float, Row]]] = [[] for _ in range(self.blocks)]
        self._newest = 0

    def insert(self, time: float, row: Row) -> None:
        """Add a row; rows come in order of time."""
        newest = self._ring[self._newest]
        if newest and time < newest[-1][0]:
            raise BadArgument(f"time={time!r} is before {newest[-1][0]!r}: insert rows in order of time")
        if newest and time - newest[0][0] >= self.basic_s:
            self._newest = (self._newest - 1) % self.blocks
            self._ring[self._newest] = newest = []
        elif self.blocks == 1 and newest and newest[0][0] < time - 2 * self.window_s:
            # without basic windows rows leave one by one; half of the list at a time is cheaper
            newest[:] = [kept for kept in newest if kept[0] >= time - self.window_s]
        newest.append((time, row))

    def live(self, number: int, now: float) -> list[Row]:
        """The rows of a basic window that have not expired, oldest first."""
        oldest = now - self.window_s
        rows = self._ring[(self._newest + number) % self.blocks]
        return [row for time, row in rows if time >= oldest]

    def sizes(self, now: float) -> list[int]:
        """Live rows of each basic window, newest first."""
        return [len(self.live(number, now)) for number in range(self.blocks)]

    def select(
        self, order: Iterable[int], fraction: float, now: float
    ) -> Iterator[tuple[int, list[Row]]]:
        """Algorithm 3, lines 7-15: basic windows in the order given, until the fraction is used up."""
        left = fraction * sum(self.sizes(now))
        for number in order:
            rows = self.live(number, now)
            if not rows:
                continue
            take = min(len(rows), int(left + 0.5))
            left -= len(rows)
            if take > 0:
                yield number, rows[-take:]
            if left <= 0:
                return
