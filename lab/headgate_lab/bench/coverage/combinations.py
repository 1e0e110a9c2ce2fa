"""Differences between windows and totals over groups, on real data: do their intervals hold the truth?

As `hg.difference` and `hg.total` put them together: distances from the estimates to their ends add up as
standard errors do. A difference is of one group's means in two windows side by side, a total of the sums
of a window's groups. Totals are of fixed draws: behind coins a group that kept no row is in no total.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.spark.estimates.intervals.student import normal_quantile
from headgate_lab.bench.coverage.draws import Kept
from headgate_lab.bench.coverage.history import before
from headgate_lab.bench.coverage.intervals import Ends, intervals
from headgate_lab.bench.coverage.populations import Population
from headgate_lab.bench.coverage.tally import BANDS, Tally, told

__all__ = ["Combinations"]

#: What is put together, by method.
_METHODS = ("plain", "alone", "pooled")
#: Fewer intervals are not told.
_LEAST = 100

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


@dataclass
class Combinations:
    """Of one query: tallies of differences, by draw, method and band of kept rows, and of totals."""

    people: Population
    differences: dict[tuple[str, str, str], Tally] = field(default_factory=dict)
    totals: dict[str, Tally] = field(default_factory=dict)

    def add(self, kept: Kept, draw: str, ends: dict[str, Ends], truth: Floats, width: Floats) -> None:
        """The means of some draws, with their intervals, what is true of them, and the true widths."""
        groups = self.people.groups
        if groups is not None:
            (old,) = before(kept, groups, 1)
            new = np.flatnonzero(
                (old >= 0) & (kept.n > 1) & (kept.n < kept.size) & (kept.n[old] > 1)
                & (kept.n[old] < kept.size[old])
            )  # fmt: skip
            self._differences(kept, draw, ends, truth, width, new, old[new])
        if draw == "fixed":
            self._totals(kept)

    def _differences(
        self,
        kept: Kept,
        draw: str,
        ends: dict[str, Ends],
        truth: Floats,
        width: Floats,
        new: Whole,
        old: Whole,
    ) -> None:
        fewer = np.minimum(kept.n[new], kept.n[old])
        value, true = (x[new] - x[old] for x in (kept.mean, truth))
        both = np.hypot(width[new], width[old])
        for method in _METHODS:
            low, high = ends[method]["low"], ends[method]["high"]
            down = np.hypot((kept.mean - low)[new], (high - kept.mean)[old])
            up = np.hypot((high - kept.mean)[new], (kept.mean - low)[old])
            for band, (least, most) in BANDS.items():
                here = (fewer >= least) & (fewer < most)
                tally = self.differences.setdefault((draw, method, band), Tally())
                tally.add(
                    {"low": (value - down)[here], "high": (value + up)[here]}, true[here], both[here]
                )

    def _totals(self, kept: Kept) -> None:
        """The sums of every window; groups that were kept whole have no error."""
        span = int(kept.window.max(initial=0)) + 1
        _, window = np.unique(kept.draw * span + kept.window, return_inverse=True)
        shed = kept.n < kept.size
        value = kept.mean * kept.size
        sums = (self.people.mean() * self.people.sizes)[kept.cell]
        true = np.asarray(np.bincount(window, sums), float)
        spread = (
            self.people.variance()[kept.cell] * np.square(kept.size) / kept.n * (1 - kept.n / kept.size)
        )
        width = 2.0 * normal_quantile(0.95) * np.sqrt(np.bincount(window, spread))
        some = np.bincount(window, shed) > 0
        for method, ends in intervals(kept, "sum", coins=False, share=False).items():
            if method not in _METHODS:
                continue
            down, up = (
                np.where(shed, d, 0.0) for d in (value - ends["low"], np.asarray(ends["high"]) - value)
            )
            low, high = (
                sign * np.sqrt(np.bincount(window, d * d)) for sign, d in ((-1.0, down), (1.0, up))
            )
            middle = np.bincount(window, value)
            said = {"low": (middle + low)[some], "high": (middle + high)[some]}
            self.totals.setdefault(method, Tally()).add(said, true[some], width[some])

    def rows_of_differences(self, where: dict[str, Any]) -> list[dict[str, Any]]:
        """By draw and number of kept rows, of the window that has fewer."""
        found = []
        for draw in dict.fromkeys(draw for draw, _, _ in self.differences):
            for band in BANDS:
                tallies = {m: self.differences[draw, m, band] for m in _METHODS}
                if tallies["plain"].intervals >= _LEAST:
                    found.append({**where, "draw": draw, "rows": band, **told(tallies)})
        return found

    def row_of_totals(self, where: dict[str, Any]) -> list[dict[str, Any]]:
        """One row, if there were windows enough."""
        if not self.totals or self.totals["plain"].intervals < _LEAST:
            return []
        return [{**where, **told(self.totals)}]
