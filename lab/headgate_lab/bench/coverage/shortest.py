"""The narrowest interval that holds the truth in 95 of 100 draws, were the sampling distribution known.

For one cell and one number of kept rows: errors of all its draws, and the shortest stretch that has
95 % of them. No interval of a fixed reach about the estimate can be shorter and hold as often; its width
beside that of a normal interval with the true variance says whether the yardstick itself is fair.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

__all__ = ["Errors", "shortest"]

#: Fewer draws of a cell do not tell its ends.
_LEAST_DRAWS = 100

Floats = npt.NDArray[np.float64]


def shortest(errors: Floats, share: float = 0.95) -> float:
    """The length of the shortest stretch that has this share of them."""
    ordered = np.sort(errors)
    inside = math.ceil(share * len(ordered))
    return float((ordered[inside - 1 :] - ordered[: len(ordered) - inside + 1]).min())


class Errors:
    """Errors of fixed draws, by cell and number of kept rows."""

    def __init__(self) -> None:
        self._parts: list[Floats] = []

    def add(self, cell: Floats, n: Floats, errors: Floats, true_width: Floats) -> None:
        """The cells of some draws."""
        self._parts.append(np.stack([cell, n, errors, true_width]))

    def widths(self, bands: Iterable[tuple[float, float]]) -> list[float | None]:
        """For each band of kept rows: the median over its cells of shortest over true width."""
        if not self._parts:
            return [None for _ in bands]
        cell, n, errors, widths = np.concatenate(self._parts, axis=1)
        order = np.lexsort((n, cell))
        edges = np.flatnonzero(np.diff(cell[order]) + np.diff(n[order]) * 1j) + 1
        found: list[tuple[float, float]] = []
        for at in np.split(order, edges):
            if len(at) >= _LEAST_DRAWS and widths[at[0]] > 0.0:
                found.append((float(n[at[0]]), shortest(errors[at]) / float(widths[at[0]])))
        made: list[float | None] = []
        for least, most in bands:
            of_band = [ratio for number, ratio in found if least <= number < most]
            made.append(float(np.median(of_band)) if of_band else None)
        return made
