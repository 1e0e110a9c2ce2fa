"""A sample of each group: the second pass of CoD (cod-2018, Algorithm 2, lines 5 to 7).

Section VI-C2 wants a sample of a given size of each group, section VII a coin for each row. The two
differ where quotas are small: a coin whose mean is one row misses a large group more than one time in
three. So the fixed size is the default, and the coin is there to be compared.

Both are given as a lot for each row, in the rows' order; so a scan that meets one row at a time
(`GroupLots`) keeps exactly the rows that the arrays keep.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["GroupLots", "keep_by_coin", "keep_fixed"]

Row = TypeVar("Row")
Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


def keep_fixed(codes: Codes, quotas: Codes, lots: Floats) -> Indices:
    """The rows with the lowest lots of each group, as many as its quota or as it has; ascending.

    >>> keep_fixed(np.array([0, 1, 0, 0]), np.array([2, 1]), np.array([0.3, 0.9, 0.1, 0.2])).tolist()
    [1, 2, 3]
    """
    counts = np.bincount(codes, minlength=len(quotas))
    whole = counts <= quotas
    drawn = np.flatnonzero(~whole[codes] & (quotas[codes] > 0))
    drawn = drawn[_may_be_chosen(codes[drawn], quotas, lots[drawn], counts)]
    order = drawn[np.lexsort((lots[drawn], codes[drawn]))]
    grouped = codes[order]
    first = np.searchsorted(grouped, grouped)  # where each row's group begins
    chosen = order[np.arange(len(order)) - first < quotas[grouped]]
    return np.sort(np.concatenate((np.flatnonzero(whole[codes]), chosen)))


def _may_be_chosen(
    codes: Codes, quotas: Codes, lots: Floats, counts: npt.NDArray[np.intp]
) -> npt.NDArray[np.bool_]:
    """False for lots that are too high for their group's quota: most rows need not be sorted.

    A bound that uniform lots hardly ever need more than; where a group needs more, all its rows stay.
    """
    bound = (quotas + 5.0 * np.sqrt(quotas) + 5.0) / np.maximum(counts, 1)
    low = lots < bound[codes]
    enough = np.bincount(codes[low], minlength=len(quotas)) >= quotas
    return low | ~enough[codes]


def keep_by_coin(codes: Codes, rates: Floats, lots: Floats) -> Indices:
    """The rows whose lot falls below the rate of their group."""
    return np.flatnonzero(lots < rates[codes])


class GroupLots(Generic[Row]):
    """`keep_fixed`, one row at a time: a heap for each group, of at most its quota of rows.

    `absent` is the quota of groups that `quotas` does not name; None keeps all their rows.
    """

    def __init__(
        self, quotas: Mapping[Hashable, int], absent: int | None, rng: np.random.Generator
    ) -> None:
        self._quotas, self._absent, self._rng = quotas, absent, rng
        self._heaps: dict[Hashable, list[tuple[float, int, Row]]] = {}
        self._whole: list[tuple[int, Row]] = []
        #: The rows offered so far, in all and by group.
        self.offered = 0
        self.counts: dict[Hashable, int] = {}

    def offer(self, group: Hashable, row: Row) -> None:
        """Let a row take its lot."""
        lot, number = self._rng.random(), self.offered
        self.offered += 1
        self.counts[group] = self.counts.get(group, 0) + 1
        quota = self._quotas.get(group, self._absent)
        if quota is None:
            self._whole.append((number, row))
            return
        heap = self._heaps.setdefault(group, [])
        if len(heap) < quota:
            heapq.heappush(heap, (-lot, -number, row))
        elif heap and -lot > heap[0][0]:
            heapq.heapreplace(heap, (-lot, -number, row))

    def kept(self) -> list[Row]:
        """The rows that are kept, in the order in which they were offered."""
        chosen = self._whole + [(-n, row) for heap in self._heaps.values() for _, n, row in heap]
        return [row for _, row in sorted(chosen, key=lambda found: found[0])]
