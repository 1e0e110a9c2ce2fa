"""How often anyone may ask: a token bucket for each name, in bounded memory.

Why not the package `limits` (5.8): it has windows and no token bucket, so a limit of ten a second with
twenty at once cannot be said. Its memory storage reads the wall clock, keeps every address that asks
until its window is over, however many there are, and starts a thread for each hundredth of a second in
which somebody asks.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from headgate.errors import BadArgument

__all__ = ["Buckets"]


class Buckets:
    """`rate` a second in the long run, and `burst` at once, for each name by itself.

    >>> buckets = Buckets(rate=1.0, burst=2, clock=lambda: 0.0)
    >>> buckets.take("rome"), buckets.take("rome"), buckets.take("rome"), buckets.take("paris")
    (0.0, 0.0, 1.0, 0.0)
    """

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        most: int = 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not (rate > 0 and burst >= 1 and most >= 1):
            raise BadArgument(
                f"rate={rate!r}, burst={burst!r}: give a rate above 0 and a burst of 1 or more"
            )
        self._rate, self._burst, self._most, self._clock = rate, burst, most, clock
        self._lock = threading.Lock()
        #: What was left, and when, by name; who asked last is last.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> float:
        """0 if it may go on; otherwise the seconds until it may, and nothing is taken."""
        with self._lock:
            now = self._clock()
            left, then = self._left.get(name, (float(self._burst), now))
            left = min(float(self._burst), left + max(0.0, now - then) * self._rate)
            wait = 0.0 if left >= 1 else (1 - left) / self._rate
            self._left[name] = (left if wait else left - 1, now)
            self._left.move_to_end(name)
            if len(self._left) > self._most:  # whoever has not asked for longest is full again
                self._left.popitem(last=False)
            return wait
