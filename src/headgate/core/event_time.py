"""How far event time goes on from one batch to the next."""

from __future__ import annotations

import itertools
import statistics
from collections import deque

__all__ = ["EventTime"]

#: Batches that are remembered; the middle one decides, so that one wrong clock does not.
_BATCHES = 5


class EventTime:
    """The usual advance of the latest event time, which late rows cannot move.

    >>> time = EventTime()
    >>> for latest in (0, 10, 20, 9_999, 30, 40):
    ...     time.add(latest)
    >>> time.span_us
    10
    """

    def __init__(self) -> None:
        self._latest: deque[int] = deque(maxlen=_BATCHES + 1)

    def add(self, latest_us: int | None) -> None:
        """The latest event time of one more batch; None if it had no row."""
        if latest_us is not None:
            self._latest.append(int(latest_us))

    @property
    def span_us(self) -> int | None:
        """The advance of a batch, in microseconds; None while it is unknown."""
        times = list(self._latest)
        steps = [later - earlier for earlier, later in itertools.pairwise(times)]
        forward = [step for step in steps if step > 0]
        return int(statistics.median_low(forward)) if forward else None
