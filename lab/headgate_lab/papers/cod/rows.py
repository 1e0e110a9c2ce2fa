"""The rows of one complete window, as arrays: what every vectorised algorithm here works on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument

__all__ = ["WindowRows", "group_counts"]

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class WindowRows:
    """A window's rows in order: the group of each as a code, and its value.

    Codes are 0, 1, ... in the order of the groups' keys, and every code occurs. A query without groups
    (a scalar aggregation) has one.

    >>> window = WindowRows.of(["b", "a", "b"], [1.0, 2.0, 3.0])
    >>> window.codes.tolist(), window.keys.tolist(), window.counts.tolist()
    ([1, 0, 1], ['a', 'b'], [1, 2])
    """

    codes: Codes
    values: Floats
    #: The key of each code.
    keys: npt.NDArray[Any]

    @classmethod
    def of(cls, keys: npt.ArrayLike, values: npt.ArrayLike) -> WindowRows:
        """From the key and the value of each row."""
        given, found = np.asarray(keys), np.asarray(values, np.float64)
        if given.shape != found.shape or given.ndim != 1:
            raise BadArgument(
                f"{given.shape} keys and {found.shape} values: give one key and one value for each row"
            )
        names, codes = np.unique(given, return_inverse=True)
        return cls(codes.astype(np.int64), found, names)

    @classmethod
    def scalar(cls, values: npt.ArrayLike) -> WindowRows:
        """Of a query without groups."""
        found = np.asarray(values, np.float64)
        return cls(np.zeros(len(found), np.int64), found, np.zeros(min(1, len(found)), np.int64))

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.codes)

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return len(self.keys)

    @cached_property
    def counts(self) -> Codes:
        """The rows of each group."""
        return group_counts(self.codes, self.groups)


def group_counts(codes: Codes, groups: int) -> Codes:
    """The rows of each group, which may be none."""
    return np.bincount(codes, minlength=groups).astype(np.int64)
