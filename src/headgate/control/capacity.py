"""What a batch costs: ``duration = a + b * rows``, fitted to the latest batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["CapacityFit"]

#: A batch that misses the line by more than this (of the logarithm: 0.35 is 40 %), and by more than
#: so many times the usual miss, is a surprise: it comes from another line.
_SURPRISE = 0.35
_USUAL_MISSES = 3.5
#: All that was learned before then counts at most so much of the new batch: half, because a longer
#: one may be an accident; a tenth, because a shorter one is proof that the old line was too high.
_BEFORE_LONGER = 0.5
_BEFORE_SHORTER = 0.1
#: Rows must vary by so much of their mean before a line can be told from a point.
_VARIED = 0.25
#: How far the fixed price moves towards that of the fitted line with each batch.
_FIXED_STEP = 0.4
#: The first so many batches have nothing to be careful with, and move it all the way.
_COLD_FIT = 4


class CapacityFit:
    """A weighted straight line through (rows kept, seconds).

    A batch has a fixed price `a` (planning, commits, the slowest empty task) and a price `b` for
    each row. Time per row alone would mistake the fixed price for work: at 2 % kept it is most of
    the batch. The line is refitted with every batch. The weight of a batch halves every
    ``half_life`` batches: long, because at 10 % noise six leave an error of 2 %. A cost that
    changes does not have to wait for that: a surprise cuts the weight of all that was before.
    Batches miss in proportion to their length, so a long one weighs less, by the square of it: it
    would bend the line for short ones otherwise.

    Where the rows hardly vary, a line cannot be told from a point; where more rows took less time,
    the cost changed in between. Then the last trusted `a` is kept and only `b` follows. `a` is never
    above 90 % of the shortest recent batch, and `b` never negative.

    >>> fit = CapacityFit()
    >>> for rows in (100, 200, 300, 400):
    ...     _ = fit.add(rows, 0.5 + 0.01 * rows)
    >>> round(fit.fixed_s, 3), round(fit.per_row_s, 4), round(fit.rows_within(2.5))
    (0.5, 0.01, 200)
    """

    def __init__(self, half_life: float = 6.0) -> None:
        self._keep = 0.5 ** (1.0 / half_life)
        self._sums = [0.0] * 5  # weights, x, y, xx, xy
        self._shortest = math.inf
        self._fixed = 0.0
        self._per_row = 0.0
        self._miss = self._last_miss = 0.0
        self.samples = 0

    def add(self, rows: float, duration_s: float, trust: float = 1.0) -> bool:
        """Learn from a batch; whether it was a surprise.

        ``trust`` is below 1 for a batch that is not typical (a cold start).
        """
        if rows <= 0:
            self._add_empty(duration_s)
            return False
        keep = self._keep
        weight = trust / max(duration_s, self.predict(rows), 1e-3) ** 2
        surprise = self.samples > 0 and self._surprising(rows, duration_s)
        if surprise:
            longer = duration_s > self.predict(rows)
            counts = (_BEFORE_LONGER if longer else _BEFORE_SHORTER) * weight
            keep = min(keep, counts / self._sums[0])
            self._shortest = math.inf
        self.samples += 1
        self._shortest = min(self._shortest * 1.05, duration_s)
        for i, term in enumerate((1.0, rows, duration_s, rows * rows, rows * duration_s)):
            self._sums[i] = self._sums[i] * keep + weight * term
        self._refit()
        return surprise

    def _surprising(self, rows: float, duration_s: float) -> bool:
        miss = math.log(max(duration_s, 1e-3) / max(self.predict(rows), 1e-3))
        # Two smaller misses to the same side, one after the other, are a surprise too.
        two, self._last_miss = miss + self._last_miss, miss
        limit = max(_SURPRISE, _USUAL_MISSES * self._miss)
        self._miss += 0.1 * (min(abs(miss), _SURPRISE) - self._miss)
        if abs(miss) <= limit and abs(two) <= math.sqrt(2.0) * limit:
            return False
        self._last_miss = 0.0
        return True

    def _add_empty(self, duration_s: float) -> None:
        """An empty batch is the fixed price itself, or half of it: it may skip some of the work."""
        self._shortest = min(self._shortest * 1.05, duration_s)
        self._fixed = min(max(self._fixed, 0.5 * duration_s), duration_s)
        if self.samples:
            self._through_mean()

    def _refit(self) -> None:
        n, x, y, xx, xy = self._sums
        mean_x, mean_y = x / n, y / n
        variance = max(0.0, xx / n - mean_x * mean_x)
        if variance > (_VARIED * mean_x) ** 2:
            slope = (xy / n - mean_x * mean_y) / variance
            if slope > 0:
                step = 1.0 if self.samples <= _COLD_FIT else _FIXED_STEP
                self._fixed += step * (mean_y - slope * mean_x - self._fixed)
        self._fixed = min(max(0.0, self._fixed), 0.9 * self._shortest)
        self._through_mean()

    def _through_mean(self) -> None:
        n, x, y = self._sums[:3]
        self._per_row = max((y - self._fixed * n) / x, 1e-12)

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
            "miss": self._miss,
            "last_miss": self._last_miss,
            "samples": self.samples,
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        self._sums = [float(v) for v in value["sums"]]
        self._shortest = math.inf if value["shortest"] is None else float(value["shortest"])
        self._fixed = float(value["fixed"])
        self._per_row = float(value["per_row"])
        self._miss, self._last_miss = float(value["miss"]), float(value["last_miss"])
        self.samples = int(value["samples"])
