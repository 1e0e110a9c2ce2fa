"""What a batch came to at a shard of a join: its pairs, and what each window found and missed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headgate.joins.arrays import Floats, Indices
from headgate.joins.choice import missed
from headgate.joins.lag_stats import LagStats
from headgate.joins.row_draw.totals import RowTotals
from headgate.spark.join.block import Block
from headgate.spark.join.left_out.items_told import ItemsTold

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
    #: The estimated pairs of rows that were left out, and their utility: beside those missed.
    left_out: float = 0.0
    utility_left_out: float = 0.0
    #: Comparisons of the full join of the rows that are there, and an estimate of those of all rows;
    #: those made, and those of them that lots chose.
    wanted: float = 0.0
    full: float = 0.0
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
    #: Pairs by the side whose row was probing: the other row had been waiting.
    probed: list[float] = field(default_factory=lambda: [0.0, 0.0])
    #: What rows that were drawn say of all; empty where every row was kept.
    totals: RowTotals = field(default_factory=RowTotals)
    utility_totals: RowTotals = field(default_factory=RowTotals)
    #: What its state's items are, for scores of rows to come; None where nobody asks.
    items: ItemsTold | None = None
    #: The most rows that one row stands for, over all that were compared or could have been.
    heaviest: float = 1.0
    #: The variance of the batch's estimate beyond that of its windows: they have rows in common.
    shared: float = 0.0
    utility_shared: float = 0.0

    def want(
        self, buckets: npt.NDArray[np.int64], cost: float, weights: Floats | None, full: float
    ) -> None:
        """Rows of these basic windows are each to be compared at this cost; with all rows, at `full`."""
        first = int(buckets.min())
        rows = np.bincount(buckets - first)
        stand = rows if weights is None else np.bincount(buckets - first, weights)
        for at in np.flatnonzero(rows):
            window = self.windows.setdefault(first + int(at), WindowTally())
            window.wanted += float(rows[at]) * cost
            window.full += float(stand[at]) * full

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

    def add_variance_of_rows(self, copies: tuple[int, int]) -> None:
        """Where rows were drawn: how far that alone may have taken the estimates.

        As with comparisons, drawn rows without a match do not prove that those left out have none: the
        error is then what one pair would have stood for, of a row that stands for most and one that was
        kept for certain, or of any two on average if that is more.
        """
        if self.heaviest <= 1.0 or not self.windows:
            return
        pairs = self.total("found")
        utility = self.total("utility") / pairs if pairs else 0.0
        whole, windows = self.totals.variance(copies)
        utility_whole, of_windows = self.utility_totals.variance(copies)
        for bucket, tally in self.windows.items():
            least = max(self.heaviest, tally.full / tally.wanted if tally.wanted else 1.0) ** 2
            tally.variance += windows.get(bucket, 0.0) or least
            tally.utility_variance += of_windows.get(bucket, 0.0) or least * utility * utility
        self.shared = max(0.0, whole - sum(windows.values()))
        self.utility_shared = max(0.0, utility_whole - sum(of_windows.values()))

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
        weights: Floats | None = None,
    ) -> None:
        """Count pairs by the basic window of their probing row, and what the sampled ones stand for.

        `weights` are the pairs' own, where rows were drawn.
        """
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
        if weights is not None:
            self._leave_out(buckets, picked, chances, i, utilities, weights)
        if chances is None or picked is None:
            return
        pairs = np.bincount(i, minlength=len(buckets))[picked]
        values = None if utilities is None else np.bincount(i, utilities, len(buckets))[picked]
        # What a row's comparisons stand for, if rows stand for others besides.
        stand = pairs if weights is None else np.bincount(i, weights, len(buckets))[picked]
        stand_for = values
        if weights is not None and utilities is not None:
            stand_for = np.bincount(i, weights * utilities, len(buckets))[picked]
        for bucket in np.unique(buckets[picked[pairs > 0]]):
            own = buckets[picked] == bucket
            tally = self.windows[int(bucket)]
            tally.missed += missed(pairs[own], chances[own])[0]
            tally.variance += missed(stand[own], chances[own])[1]
            if values is not None and stand_for is not None:
                tally.missed_utility += missed(values[own], chances[own])[0]
                tally.utility_variance += missed(stand_for[own], chances[own])[1]

    def _leave_out(
        self,
        buckets: npt.NDArray[np.int64],
        picked: Indices | None,
        chances: Floats | None,
        i: Indices,
        utilities: Floats | None,
        weights: Floats,
    ) -> None:
        """What the pairs stand for besides themselves, because rows were left out."""
        odds = np.ones(len(buckets))
        if chances is not None and picked is not None:
            odds[picked] = chances
        more = (weights - 1.0) / odds[i]
        for bucket in np.unique(buckets[i]):
            own = buckets[i] == bucket
            tally = self.windows[int(bucket)]
            tally.left_out += float(more[own].sum())
            if utilities is not None:
                tally.utility_left_out += float((more[own] * utilities[own]).sum())
