"""What a match with a row of a block is worth: E[max(V(a), V(b))] (join-2007, section 5.3).

The paper gives a pair the larger of its two rows' utilities. Before a block is read only the
distribution of its rows' utilities is known; a short one, since people give few different values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Utilities"]

#: Different values that are told apart; more are gathered into as many quantiles. It bounds the bytes of
#: a block's summary: the mean of a quantile stands for its rows, and E[max] hardly changes with 32.
_MOST = 32


@dataclass(frozen=True, eq=False)
class Utilities:
    """Utilities of a block's rows, rising, and how many rows have each."""

    values: npt.NDArray[np.float64]
    rows: npt.NDArray[np.float64]

    @classmethod
    def of(cls, values: npt.NDArray[np.float64]) -> Utilities:
        """Of the rows with these utilities.

        >>> Utilities.of(np.array([1.0, 5.0, 1.0, 1.0])).expected(np.array([1.0, 3.0, 9.0])).tolist()
        [2.0, 3.5, 9.0]
        """
        found, rows = np.unique(values, return_counts=True)
        if len(found) > _MOST:
            parts = np.array_split(np.sort(values), _MOST)
            found, rows = np.array([p.mean() for p in parts]), np.array([len(p) for p in parts])
        return cls(found.astype(np.float64), rows.astype(np.float64))

    def expected(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The mean utility of a match, for probing rows of these utilities."""
        if not len(self.rows):
            return values
        below = np.concatenate(([0.0], np.cumsum(self.rows)))
        above = np.concatenate((np.cumsum((self.values * self.rows)[::-1])[::-1], [0.0]))
        at = np.searchsorted(self.values, values, side="right")
        return np.asarray((values * below[at] + above[at]) / below[-1])

    def to_bytes(self) -> bytes:
        """As a state keeps it."""
        return np.concatenate((self.values, self.rows)).tobytes()

    @classmethod
    def from_bytes(cls, value: bytes) -> Utilities:
        """The utilities that `to_bytes` wrote."""
        both = np.frombuffer(value)
        half = len(both) // 2
        return cls(both[:half], both[half:])
