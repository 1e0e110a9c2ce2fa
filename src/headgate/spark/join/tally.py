"""What a batch came to at a shard of a join: its pairs, and what each window found and missed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headgate.joins.arrays import Floats, Indices
from headgate.joins.choice import missed
from headgate.joins.lag_stats import LagStats
from headgate.spark.join.block import Block

__all__ = ["Done", "Pairs", "WindowTally"]


@dataclass(frozen=True)
class Pairs:
    """Matches of one block with another: rows of the left one and of the right one."""

    left: Block
    i: Indices
    right: Block
    j: Indices


@dataclass
class WindowTally:
    """Pairs of one basic window of probing rows."""

    found: float = 0.0
    missed: float = 0.0
    variance: float = 0.0
    utility: float = 0.0
    missed_utility: float = 0.0
    utility_variance: float = 0.0
    #: Comparisons of the full join, those made, and those of them that lots chose.
    wanted: float = 0.0
    made: float = 0.0
    sampled: float = 0.0


@dataclass
class Done:
    """What a batch came to at a shard."""

    #: What comparisons paid, by direction, lag and row type.
    stats: LagStats
    pairs: list[Pairs] = field(default_factory=list)
    windows: dict[int, WindowTally] = field(default_factory=dict)
    #: Rows on time and rows too late, of each side.
    rows: list[int] = field(default_factory=lambda: [0, 0])
    late: list[int] = field(default_factory=lambda: [0, 0])
    #: Seconds in the kernels, and the comparisons that took them; of small calls neither.
    compare_s: float = 0.0
    timed: float = 0.0

    def want(self, buckets: npt.NDArray[np.int64], cost: float) -> None:
        """Rows of these basic windows are each to be compared at this cost."""
        for bucket, rows in zip(*np.unique(buckets, return_counts=True), strict=True):
            self.windows.setdefault(int(bucket), WindowTally()).wanted += float(rows) * cost

    @property
    def wanted(self) -> float:
        """Comparisons of the full join."""
        return self.total("wanted")

    @property
    def made(self) -> float:
        """How many comparisons were made."""
        return self.total("made")

    def widen_error_if_sample_empty(self) -> None:
        """A sample that found nothing does not prove that nothing was missed.

        Its estimate is 0, and so would be its error. As in the rule of three, the error is then what one
        pair found in the sample would have stood for.
        """
        pairs = self.total("found")
        utility = self.total("utility") / pairs if pairs else 0.0
        for window in self.windows.values():
            skipped = window.wanted - window.made
            if skipped <= 0.5 or window.variance > 0.0:
                continue
            error = skipped / window.sampled if window.sampled else skipped
            window.variance = error * error
            window.utility_variance = (error * utility) ** 2

    def total(self, name: str) -> float:
        """The sum of one of a window's numbers over all windows."""
        return float(sum(getattr(w, name) for w in self.windows.values()))

    def count(
        self,
        buckets: npt.NDArray[np.int64],
        picked: Indices | None,
        chances: Floats | None,
        i: Indices,
        utilities: Floats | None,
        cost: float,
    ) -> None:
        """Count pairs by the basic window of their probing row, and what the sampled ones stand for."""
        first = int(buckets.min())
        compared = np.bincount((buckets if picked is None else buckets[picked]) - first)
        for at in np.flatnonzero(compared):
            tally = self.windows[first + int(at)]
            tally.made += float(compared[at]) * cost
            tally.sampled += 0.0 if chances is None else float(compared[at]) * cost
        of_pairs = buckets[i] - first
        found = np.bincount(of_pairs)
        utility = None if utilities is None else np.bincount(of_pairs, utilities)
        for at in np.flatnonzero(found):
            tally = self.windows[first + int(at)]
            tally.found += int(found[at])
            tally.utility += 0.0 if utility is None else float(utility[at])
        if chances is None or picked is None:
            return
        pairs = np.bincount(i, minlength=len(buckets))[picked]
        values = None if utilities is None else np.bincount(i, utilities, len(buckets))[picked]
        for bucket in np.unique(buckets[picked[pairs > 0]]):
            own = buckets[picked] == bucket
            tally = self.windows[int(bucket)]
            count, variance = missed(pairs[own], chances[own])
            tally.missed += count
            tally.variance += variance
            if values is not None:
                count, variance = missed(values[own], chances[own])
                tally.missed_utility += count
                tally.utility_variance += variance
