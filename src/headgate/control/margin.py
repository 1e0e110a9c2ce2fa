"""How far below the target to aim, so that the wanted share of batches ends inside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

__all__ = ["Margin", "MarginSettings"]


@dataclass(frozen=True)
class MarginSettings:
    """The numbers of the margin."""

    #: How far one batch moves the quantile, in standard deviations of the noise. The quantile's own
    #: error is then a sixth of them, and a heavier tail is known after some hundred batches.
    step: float = 0.1
    #: The quantile stays within these multiples of the normal distribution's.
    least: float = 0.7
    most: float = 2.0
    #: However large the noise, at least this share of the target is used, and at most that one. What is
    #: not known of prices has no such bound: it would let through any number of rows that seem cheap.
    lowest_aim: float = 0.5
    highest_aim: float = 0.97
    #: The kept rows' own misses count as those of about so many batches.
    memory: float = 20.0


class Margin:
    """The quantile of the misses of log seconds given rows, tracked batch by batch.

    The noise of a job is no normal distribution: pauses make its upper tail heavy. So the number of
    standard deviations between aim and target is no constant. It begins at the normal quantile of
    `inside`, rises by `step` times `inside` when a batch missed by more than it, and falls by `step`
    times the rest otherwise: the stochastic approximation of Robbins and Monro (1951), with the same
    argument as adaptive conformal inference (Gibbs and Candes 2021, equation 2), that in the long run
    just the wanted share is inside, whatever the distribution. It asks for the miss given the rows that
    were really kept, so it learns the same from batches whose advice nobody follows.

    Where the size of a batch is not known when its plan is pinned, or known badly, other rows are kept
    than the budget says; how far those are off is counted besides (`missed_rows`).

    >>> margin = Margin(0.95)
    >>> round(margin.aim(noise=0.1, doubt=0.0, rows_part=0.8), 2)
    0.85
    """

    def __init__(self, inside: float = 0.95, settings: MarginSettings | None = None) -> None:
        self._inside = inside
        self._settings = settings or MarginSettings()
        self._normal = max(0.1, NormalDist().inv_cdf(inside))
        #: Standard deviations of the noise between aim and target.
        self.quantile = self._normal
        self._rows_square = 0.0

    def add(self, miss: float, noise: float) -> None:
        """Learn from a batch that missed its expected length by this much (log)."""
        s = self._settings
        outside = miss > self.quantile * noise
        self.quantile += s.step * (self._inside if outside else self._inside - 1.0)
        low, high = s.least * self._normal, s.most * self._normal
        self.quantile = min(high, max(low, self.quantile))

    def missed_rows(self, kept: float, budget: float) -> None:
        """So many rows were kept of a batch that was cut, and so many the budget said for its size."""
        if kept > 0 and budget > 0:
            miss = min(1.0, max(-1.0, math.log(kept / budget)))
            self._rows_square += (miss * miss - self._rows_square) / self._settings.memory

    def aim(self, noise: float, doubt: float, rows_part: float) -> float:
        """The share of the target to aim at; `rows_part` is the kept rows' share of a batch's time."""
        by_rows = self._rows_square * rows_part * rows_part
        s, late = self._settings, math.expm1(self.quantile * math.sqrt(noise * noise + by_rows))
        late = min(1.0 / s.lowest_aim - 1.0, late)
        return min(s.highest_aim, 1.0 / (1.0 + math.hypot(late, self.quantile * doubt)))

    def snapshot(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {"quantile": self.quantile, "rows_square": self._rows_square}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        self.quantile = float(value["quantile"])
        self._rows_square = float(value["rows_square"])
