"""How often intervals held the truth, and how wide they were: counts that draws add to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BANDS", "Tally", "told"]

#: Numbers of kept rows, by which intervals are judged.
BANDS = {"2-4": (2, 5), "5-9": (5, 10), "10-29": (10, 30), "30+": (30, 10**9)}
#: Widths are counted in bins of 1 %, from a hundredth of the true width to a hundred times that.
_STEP, _BINS = 0.01, 922

Floats = npt.NDArray[np.float64]


@dataclass
class Tally:
    """Of one query, draw, method and band."""

    intervals: int = 0
    held: int = 0
    #: Cells in which the method knows no interval: null, on Spark.
    unknown: int = 0
    #: Intervals of no width although rows were shed.
    empty: int = 0
    widths: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(_BINS, np.int64))

    def add(self, ends: Any, truth: Floats, true_width: Floats) -> None:
        """More intervals; `true_width` is that with the true variance, 0 where all rows are alike."""
        low, high = np.asarray(ends["low"]), np.asarray(ends["high"])
        known = ~np.isnan(low) & ~np.isnan(high)
        # rounding alone must not leave an interval beside values that are all alike
        slack = 1e-9 * np.abs(truth) + 1e-12
        held = known & (low <= truth + slack) & (high >= truth - slack)
        self.intervals += int(known.sum())
        self.held += int(held.sum())
        self.unknown += int((~known).sum())
        self.empty += int((known & (high - low <= slack)).sum())
        varied = known & (true_width > 0.0)
        ratio = np.maximum((high - low)[varied], 0.0) / true_width[varied]
        at = (np.log(np.maximum(ratio, 1e-2)) - np.log(1e-2)) / _STEP
        self.widths += np.bincount(np.minimum(at.astype(np.int64), _BINS - 1), minlength=_BINS)

    def merge(self, other: Tally) -> None:
        """The other's counts, too."""
        self.intervals += other.intervals
        self.held += other.held
        self.unknown += other.unknown
        self.empty += other.empty
        self.widths += other.widths

    @property
    def covered(self) -> float | None:
        """The share of the intervals that hold the truth."""
        return self.held / self.intervals if self.intervals else None

    @property
    def width(self) -> float | None:
        """The median of the widths as multiples of the true ones, where values differ at all."""
        number = int(self.widths.sum())
        if not number:
            return None
        at = int(np.searchsorted(np.cumsum(self.widths), (number + 1) // 2))
        return float(1e-2 * np.exp((at + 0.5) * _STEP)) if at else 0.0


def told(tallies: dict[str, Tally]) -> dict[str, Any]:
    """What each method covers, in %, and how wide it is beside an interval with the true variance."""
    row: dict[str, Any] = {"intervals": next(iter(tallies.values())).intervals}
    for method, tally in tallies.items():
        row[method] = None if tally.covered is None else round(100.0 * tally.covered, 1)
        if method != "true variance":
            row[f"{method} width"] = None if tally.width is None else round(tally.width, 2)
    return row
