"""What a batch costs: ``duration = a + b * rows``, fitted to the latest batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["CapacityFit"]


class CapacityFit:
    """An exponentially weighted straight line through (rows kept, seconds).

    A batch has a fixed price `a` (planning, commits, the slowest empty task) and a price `b` for
    each row. Time per row alone would mistake the fixed price for work: at 2 % kept it is most of
    the batch. The line is refitted with every batch; the weight of a batch halves every
    ``half_life`` batches, so that a changed cost is believed within a few.

    Where the rows hardly vary, a line cannot be told from a point: the last trusted `a` is kept and
    only `b` follows. `a` is never above 90 % of the shortest recent batch, and `b` never negative.

    >>> fit = CapacityFit()
    >>> for rows in (100, 200, 300, 400):
    ...     fit.add(rows, 0.5 + 0.01 * rows)
    >>> round(fit.fixed_s, 3), round(fit.per_row_s, 4), round(fit.rows_within(2.5))
    (0.5, 0.01, 200)
    """

    def __init__(self, half_life: float = 3.0) -> None:
        self._keep = 0.5 ** (1.0 / half_life)
        self._sums = [0.0] * 5  # weights, x, y, xx, xy
        self._shortest = math.inf
        self._fixed = 0.0
        self._per_row = 0.0
        self._spread = 0.0
        self.samples = 0

    def add(self, rows: float, duration_s: float, trust: float = 1.0) -> None:
        """Learn from a batch. ``trust`` below 1 for one that is not typical (a cold start)."""
        if rows <= 0:
            # An empty batch is the fixed price itself.
            self._shortest = min(self._shortest * 1.05, duration_s)
            self._fixed = min(max(self._fixed, 0.5 * duration_s), duration_s)
            return
        if self.samples:
            miss = abs(duration_s - self.predict(rows))
            self._spread += 0.3 * (miss - self._spread)
        self.samples += 1
        self._shortest = min(self._shortest * 1.05, duration_s)
        for i, term in enumerate((1.0, rows, duration_s, rows * rows, rows * duration_s)):
            self._sums[i] = self._sums[i] * self._keep + trust * term
        self._refit()

    def _refit(self) -> None:
        n, x, y, xx, xy = self._sums
        mean_x, mean_y = x / n, y / n
        variance = max(0.0, xx / n - mean_x * mean_x)
        if variance > (0.15 * mean_x) ** 2:
            slope = (xy / n - mean_x * mean_y) / variance
            self._fixed = mean_y - slope * mean_x
        self._fixed = min(max(0.0, self._fixed), 0.9 * self._shortest)
        self._per_row = max((mean_y - self._fixed) / mean_x, 1e-12)

    @property
    def known(self) -> bool:
        """Whether any batch with rows was seen."""
        return self.samples > 0

    @property
    def fixed_s(self) -> float:
        """Seconds that a batch takes before its first row."""
        return self._fixed

    @property
    def per_row_s(self) -> float:
        """Seconds for each row kept."""
        return self._per_row

    @property
    def spread_s(self) -> float:
        """How far batches lately ended from where the line put them, on average."""
        return self._spread

    def predict(self, rows: float) -> float:
        """How long a batch with that many rows takes."""
        return self._fixed + self._per_row * rows

    def rows_within(self, duration_s: float) -> float:
        """How many rows fit into that time; 0 where the fixed price alone is longer."""
        if not self.known:
            return math.inf
        return max(0.0, (duration_s - self._fixed) / self._per_row)

    def snapshot(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {
            "sums": list(self._sums),
            "shortest": self._shortest if math.isfinite(self._shortest) else None,
            "fixed": self._fixed,
            "per_row": self._per_row,
            "spread": self._spread,
            "samples": self.samples,
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        self._sums = [float(v) for v in value["sums"]]
        self._shortest = math.inf if value["shortest"] is None else float(value["shortest"])
        self._fixed = float(value["fixed"])
        self._per_row = float(value["per_row"])
        self._spread = float(value["spread"])
        self.samples = int(value["samples"])
