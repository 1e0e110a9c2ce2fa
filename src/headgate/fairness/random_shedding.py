"""The baseline: any batch, whoever's it is (themis-2016, section 7, "random shedding").

The paper does not define it. Section 6 says of the tuple shedder that it "discards batches until
the size of the remaining tuples reaches c", so the baseline draws batches to discard until the rest
fits, and the last one discarded may leave a gap. The other reading, to draw batches and keep each
that still fits, favours small batches: the derived ones slip into the gap, and a random shedder is
suddenly nearly fair (Jain's index 0.94 instead of 0.77 on 18 evenly loaded nodes). It is there as
`fill`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from headgate.fairness.batches import Batch

__all__ = ["RandomShedding"]


class RandomShedding:
    """Discards batches at random until the rest fits.

    >>> batches = [Batch("q", "s", 50, 0.001) for _ in range(4)]
    >>> len(RandomShedding().select(batches, 120, {}, np.random.default_rng(1)))
    2
    """

    name = "random"

    def __init__(self, *, fill: bool = False) -> None:
        self.fill = fill

    def select(
        self,
        batches: Sequence[Batch],
        capacity: float,
        reported: Mapping[Hashable, float],
        random: np.random.Generator,
    ) -> list[Batch]:
        """The batches to keep, in the order in which they came; what was reported does not matter."""
        kept = self.keep(np.array([batch.tuples for batch in batches], np.int64), capacity, random)
        return [batch for batch, keep in zip(batches, kept.tolist(), strict=True) if keep]

    def keep(
        self, sizes: npt.NDArray[np.int64], capacity: float, random: np.random.Generator
    ) -> npt.NDArray[np.bool_]:
        """Which batches of these sizes to keep."""
        kept = np.ones(len(sizes), np.bool_)
        if sizes.sum() <= capacity:
            return kept
        drawn = random.permutation(len(sizes))
        if self.fill:
            left = capacity
            for index, size in zip(drawn.tolist(), sizes[drawn].tolist(), strict=True):
                kept[index] = size <= left
                left -= size if size <= left else 0
            return kept
        left_over = int(sizes.sum()) - np.cumsum(sizes[drawn])
        kept[drawn[: int(np.argmax(left_over <= capacity)) + 1]] = False
        return kept
