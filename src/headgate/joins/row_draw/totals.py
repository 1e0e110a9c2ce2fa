"""What pairs of drawn rows say of all pairs, and how far that may be off.

Rows of both sides are drawn, each on its own with a known chance; a pair (a, b) is found only if both
are kept, and stands for 1 / (p_a p_b) pairs. The sum of those is an unbiased estimate of all pairs. With
A_a the sum of 1 / p_b over the rows that a matched, B_b likewise, its variance is estimated without
bias by

    sum_a (1 - p_a) / p_a^2 A_a^2 + sum_b (1 - p_b) / p_b^2 B_b^2
        - sum_ab (1 - p_a) (1 - p_b) / (p_a p_b)^2

which is Horvitz and Thompson's for two independent Bernoulli samples: the expectations of the three sums
are the terms of pairs that share a, that share b, and one copy too many of those that share both.
Where a pair was compared only because lots fell on the comparison, it counts 1 / q times in A and B:
that is a little more than the rows' own variance, never less.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from headgate.joins.arrays import Floats, Indices

__all__ = ["RowTotals"]


@dataclass
class RowTotals:
    """Sums by row, side by side for each window, of the pairs that a batch found."""

    #: By block and window: what each row of the block matched, divided by the others' chances.
    _sums: dict[tuple[Hashable, int], Floats] = field(default_factory=dict)
    #: By block: its side and the chances of its rows.
    _blocks: dict[Hashable, tuple[int, Floats]] = field(default_factory=dict)
    #: By window: what is in both sums.
    _both: dict[int, float] = field(default_factory=dict)

    def add(
        self,
        window: int,
        probe: tuple[Hashable, int, Floats],
        i: Indices,
        other: tuple[Hashable, int, Floats],
        j: Indices,
        values: Floats | float = 1.0,
    ) -> None:
        """Pairs of a probe's rows (block, side, chances) with another block's, and what each counts."""
        ours, theirs = probe[2][i], other[2][j]
        for (block, side, chances), at, opposite in ((probe, i, theirs), (other, j, ours)):
            self._blocks[block] = side, chances
            sums: Floats = np.bincount(at, values / opposite, len(chances)).astype(np.float64)
            held = self._sums.get((block, window))
            self._sums[block, window] = sums if held is None else held + sums
        both = (1.0 - ours) * (1.0 - theirs) / (ours * theirs) ** 2
        self._both[window] = self._both.get(window, 0.0) + float((values * values * both).sum())

    def variance(self, copies: tuple[int, int] = (1, 1)) -> tuple[float, dict[int, float]]:
        """Of the batch's estimate, and of each window's.

        A row is at `copies` shards, which share its coin: what it adds at one of them is counted so many
        times, which is no less than what it adds to the sum over all of them (Cauchy and Schwarz).
        """
        windows: dict[int, float] = {window: -both for window, both in self._both.items()}
        whole: dict[Hashable, Floats] = {}
        for (block, window), sums in self._sums.items():
            windows[window] += self._of(block, sums, copies)
            whole[block] = whole[block] + sums if block in whole else sums
        total = sum(self._of(block, sums, copies) for block, sums in whole.items())
        total -= sum(self._both.values())
        return max(0.0, total), {window: max(0.0, v) for window, v in windows.items()}

    def _of(self, block: Hashable, sums: Floats, copies: tuple[int, int]) -> float:
        side, chances = self._blocks[block]
        return copies[side] * float(((1.0 - chances) / chances**2 * sums * sums).sum())
