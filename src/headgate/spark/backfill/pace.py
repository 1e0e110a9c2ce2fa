"""How fast a backfill may read: no more rows a second than it was given, on average."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from headgate.errors import BadArgument

__all__ = ["Pace"]


class Pace:
    """Sleeps after each slice until its rows are due.

    Time that was lost (a slow slice) is not made up for: what follows never runs faster than the rate.

    >>> from headgate.testing.clock import ManualClock
    >>> clock = ManualClock(0.0)
    >>> pace = Pace(100.0, clock, clock.sleep)
    >>> pace.begin(); pace.end(50); clock()
    0.5
    """

    def __init__(
        self,
        rows_per_s: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        number = isinstance(rows_per_s, int | float) and not isinstance(rows_per_s, bool)
        if rows_per_s is not None and not (number and math.isfinite(rows_per_s) and rows_per_s > 0):
            raise BadArgument(
                f"rows_per_s={rows_per_s!r}: give rows a second, more than 0, or leave it out for as "
                "fast as can be"
            )
        self._rate, self._clock, self._sleep = rows_per_s, clock, sleep
        self._began = clock()

    def begin(self) -> None:
        """Start the clock of a slice."""
        self._began = self._clock()

    def end(self, rows: int) -> None:
        """End the slice, which has read so many rows: sleep as long as it was too fast."""
        if self._rate is None:
            return
        left = rows / self._rate - (self._clock() - self._began)
        if left > 0.0:
            self._sleep(left)
