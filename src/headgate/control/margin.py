"""How far below the target to aim: as far as forecasts have lately been wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["Margin"]

#: Standard deviations between aim and target. A normal error stays below 1.645 of them 95 times
#: in 100; the rest is for the error of the estimates themselves.
_SIGMAS = 1.9
#: Weight of the latest miss in the mean square: about the last 40 batches count.
_WEIGHT = 0.05
#: A miss counts as at most this (of the logarithm): a step of the load is no noise.
_LARGEST_MISS = 0.3
#: What is assumed before anything is known.
_PRIOR = 0.1


class Margin:
    """Tracks the size of forecast errors, as a share: batches miss in proportion to their length.

    >>> margin = Margin()
    >>> for _ in range(100):
    ...     margin.add(forecast_s=1.0, actual_s=1.0)
    >>> round(margin.aim, 2)
    0.99
    """

    def __init__(self) -> None:
        self._square = _PRIOR**2

    def add(self, forecast_s: float, actual_s: float) -> None:
        """Learn from a batch that was forecast."""
        if forecast_s <= 0 or actual_s <= 0:
            return
        miss = min(_LARGEST_MISS, max(-_LARGEST_MISS, math.log(actual_s / forecast_s)))
        self._square += _WEIGHT * (miss * miss - self._square)

    @property
    def noise(self) -> float:
        """The typical error of a forecast, as a share of it."""
        return math.sqrt(self._square)

    @property
    def aim(self) -> float:
        """The share of the target at which to aim, so that 95 % of the batches are inside."""
        return math.exp(-_SIGMAS * self.noise)

    def snapshot(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {"square": self._square}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        self._square = float(value["square"])
