"""A uniform sample of rows that come one by one, of a size that is fixed before their number is known.

Section VI-B of cod-2018 keeps one for each open window. Its size is a share of a window whose rows are
still to come (the paper does not say how it knows); `headgate_lab.papers.cod.SingleScan` takes the
window that was completed last as a guide.
"""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

import numpy as np

from headgate.errors import BadArgument

__all__ = ["MergingReservoir", "Reservoir"]

Row = TypeVar("Row")


class Reservoir(Generic[Row]):
    """Algorithm R (Vitter 1985): row n takes a slot with chance size / n.

    >>> sample = Reservoir(2, np.random.default_rng(1))
    >>> for row in "abcdef":
    ...     sample.add(row)
    >>> len(sample.rows), sample.offered
    (2, 6)
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.size, self._rng = _checked(size), rng
        self.rows: list[Row] = []
        self.offered = 0

    def add(self, row: Row) -> None:
        """Offer a row, which may take the slot of another."""
        self.offered += 1
        if len(self.rows) < self.size:
            self.rows.append(row)
            return
        slot = int(self._rng.integers(self.offered))
        if slot < self.size:
            self.rows[slot] = row


class MergingReservoir(Generic[Row]):
    """Bottom-k: every row draws a lot, the lowest stay. As uniform as Algorithm R, and two become one.

    For windows that merge (sessions), where Algorithm R's places cannot be put together row by row.
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.size, self._rng = _checked(size), rng
        self._heap: list[tuple[float, int, Row]] = []
        self.offered = 0

    @property
    def rows(self) -> list[Row]:
        """The rows that the sample holds now."""
        return [row for _, _, row in self._heap]

    def add(self, row: Row) -> None:
        """Offer a row, which may take the slot of another."""
        self.offered += 1
        self._take((-self._rng.random(), self.offered, row))

    def merge(self, other: MergingReservoir[Row]) -> None:
        """Take in the sample of other rows; the size stays this one's."""
        if other.size < self.size and other.offered > other.size:
            raise BadArgument(
                f"a sample of {other.size} rows cannot fill one of {self.size}: merge into the smaller"
            )
        for found in other._heap:
            self._take(found)
        self.offered += other.offered

    def _take(self, found: tuple[float, int, Row]) -> None:
        if len(self._heap) < self.size:
            heapq.heappush(self._heap, found)
        elif found[0] > self._heap[0][0]:
            heapq.heapreplace(self._heap, found)


def _checked(size: int) -> int:
    if size < 1:
        raise BadArgument(f"size={size!r}: give a sample of at least 1 row")
    return size
