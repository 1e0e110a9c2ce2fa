"""Which groups a stream has had: one bit for each of 32,768 hash values, as Spark's own bitmaps have.

A join's group that the other stream did not have can form no result (cod-2018, section VI-C3: the
intersection of the two histograms). The filter may say that a group is there when it is not, which costs
a few rows; it never says the contrary.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.core.partners import packed, unpacked
from headgate.errors import SnapshotError

__all__ = ["BITS", "KeyFilter", "packed"]

#: The size of the bitmaps that ``bitmap_construct_agg`` makes.
BITS = 1 << 15


@dataclass(frozen=True)
class KeyFilter:
    """A set of hash values.

    >>> KeyFilter.of([3, 77]).holds(np.array([3, 4, 77])).tolist()
    [True, False, True]
    """

    bitmap: bytes

    @classmethod
    def of(cls, bits: Iterable[int]) -> KeyFilter:
        """The set of these values."""
        marks = np.zeros(BITS, np.uint8)
        marks[np.fromiter(bits, np.int64)] = 1
        return cls(np.packbits(marks, bitorder="little").tobytes())

    def holds(self, bits: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """Which of the values may be in the set."""
        marks = np.unpackbits(np.frombuffer(self.bitmap, np.uint8), bitorder="little")
        return np.asarray(marks[bits] == 1)

    @classmethod
    def from_text(cls, text: str) -> KeyFilter:
        """The filter that a plan holds.

        >>> KeyFilter.from_text(packed(KeyFilter.of([5]).bitmap)) == KeyFilter.of([5])
        True
        """
        bitmap = unpacked(text)
        if len(bitmap) != BITS // 8:
            raise SnapshotError(f"a filter of groups has {BITS // 8} bytes, not {len(bitmap)}")
        return cls(bitmap)
