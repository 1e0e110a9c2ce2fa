"""How many tuples fit into a shedding interval, as published (themis-2016, section 6, "Cost model").

The time spent on a tuple is measured between two looks at the input buffer, and a moving average of
the latest measurements gives the threshold c: tuples until the next look. The first value is a
guess and counts as one measurement. An interval without a tuple teaches nothing.

On an engine with a fixed price for each batch this is not enough: a batch costs a + b * tuples, and
after an idle spell the average holds mostly a. `headgate.control.batch_cost.BatchCost` fits both, for
the target of one query. `headgate.sites.row_cost.RowCost` fits both as well, is not fooled upwards by
batches with few rows, and is what the sites use. Both have the same two methods.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

from headgate.errors import BadArgument

__all__ = ["Capacity", "CostModel", "OverloadDetector"]


class Capacity(Protocol):
    """What learns how many rows fit into a time: `CostModel`, or a fitted line."""

    def add(self, rows: float, duration_s: float) -> object:
        """Learn that so many rows took so long."""

    def rows_within(self, duration_s: float) -> float:
        """How many rows fit into that time."""


class CostModel:
    """A moving average of the time that a tuple takes.

    >>> cost = CostModel(window=4, initial_s=0.001)
    >>> cost.add(500, 0.25)
    >>> round(cost.rows_within(0.25))
    333
    """

    def __init__(self, window: int = 10, initial_s: float = 1e-4) -> None:
        if window < 1 or not initial_s > 0:
            raise BadArgument(
                f"window={window!r}, initial_s={initial_s!r}: average at least 1 measurement, "
                "and begin with a time per tuple above 0 seconds"
            )
        self._latest: deque[float] = deque([initial_s], maxlen=window)

    def add(self, rows: float, duration_s: float) -> None:
        """Learn from an interval in which so many tuples took so long."""
        if rows > 0 and 0 < duration_s < math.inf:
            self._latest.append(duration_s / rows)

    @property
    def per_row_s(self) -> float:
        """Seconds for a tuple."""
        return sum(self._latest) / len(self._latest)

    def rows_within(self, duration_s: float) -> float:
        """The threshold c for that time."""
        return max(0.0, duration_s / self.per_row_s)


class OverloadDetector:
    """Looks at the input buffer once an interval: more than c tuples are an overload (section 6).

    >>> detector = OverloadDetector(CostModel(initial_s=0.001), interval_s=0.25)
    >>> detector.threshold, detector.overloaded(250), detector.overloaded(251)
    (250, False, True)
    """

    def __init__(self, capacity: Capacity, interval_s: float = 0.25) -> None:
        if not interval_s > 0:
            raise BadArgument(
                f"interval_s={interval_s!r}: the shedding interval is above 0 seconds; published is 0.25"
            )
        self.capacity, self.interval_s = capacity, interval_s

    @property
    def threshold(self) -> int:
        """Whole tuples that fit until the next look."""
        rows = self.capacity.rows_within(self.interval_s)
        return int(min(rows + 1e-9, 2.0**62))

    def overloaded(self, buffered: int) -> bool:
        """Whether that many tuples in the buffer are too many."""
        return buffered > self.threshold
