"""What a node accepted, by query, during the last source time window and as of some intervals ago."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.errors import SnapshotError

__all__ = ["Accepted"]

Floats = npt.NDArray[np.float64]


class Accepted:
    """Sums of SIC over the last `window` intervals, now and up to `reach` intervals back.

    Kept as running totals, one row an interval, so that a sum over any window is one subtraction.

    >>> accepted = Accepted(window=4, reach=2)
    >>> accepted.join(np.zeros(1))
    >>> for _ in range(9):
    ...     accepted.close(np.array([0.1]))
    >>> accepted.running().round(3).tolist(), accepted.ago(np.array([2])).round(3).tolist()
    ([0.3], [0.4])
    """

    def __init__(self, window: int, reach: int) -> None:
        self.window, self.reach = window, reach
        self._totals: Floats = np.zeros((window + reach + 1, 0))
        self._at = 0

    def join(self, each: Floats) -> None:
        """Add queries, as if so much had been accepted of each in every interval so far."""
        back = (self._at - np.arange(len(self._totals))) % len(self._totals)
        columns = np.outer((len(self._totals) - 1 - back).astype(np.float64), each)
        self._totals = np.concatenate([self._totals, columns], axis=1)

    def leave(self, column: int) -> None:
        """Forget a query that has left."""
        self._totals = np.delete(self._totals, column, axis=1)

    def close(self, accepted: Floats) -> None:
        """End an interval in which so much was accepted of each query."""
        before = self._totals[self._at]
        self._at = (self._at + 1) % len(self._totals)
        self._totals[self._at] = before + accepted
        if self._at == 0:
            # Once a round totals begin again, so that they stay small and exact.
            self._totals -= self._totals.min(axis=0)

    def idle(self, intervals: int) -> None:
        """Let intervals pass in which nothing was accepted."""
        for _ in range(min(intervals, len(self._totals))):
            self.close(np.zeros(self._totals.shape[1]))

    def running(self) -> Floats:
        """Accepted in the window that the interval to come completes: one interval short of it."""
        return np.asarray(self._row(0) - self._row(self.window - 1))

    def ago(self, intervals: npt.NDArray[np.int64]) -> Floats:
        """Accepted in the whole window that ended so many intervals ago, by query."""
        columns = np.arange(self._totals.shape[1])
        end = (self._at - intervals) % len(self._totals)
        begin = (self._at - intervals - self.window) % len(self._totals)
        return np.asarray(self._totals[end, columns] - self._totals[begin, columns])

    def _row(self, intervals: int) -> Floats:
        return np.asarray(self._totals[(self._at - intervals) % len(self._totals)])

    def snapshot(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {"window": self.window, "at": self._at, "totals": self._totals.tolist()}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        rows = len(self._totals)
        if value["window"] != self.window or len(value["totals"]) != rows:
            raise SnapshotError(
                f"a snapshot of {value['window']} intervals and {len(value['totals'])} rows: this node "
                f"has {self.window} and {rows}; restore it with the settings it was taken with"
            )
        self._totals = np.asarray(value["totals"], np.float64).reshape(rows, -1)
        self._at = int(value["at"])
