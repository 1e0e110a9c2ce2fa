"""How a gate opens again: never by more than a doubling, and in the end completely."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["Release"]

#: The keep rate at most doubles from one batch to the next.
GROWTH = 2.0
#: Where the rate waits for the end of the patience.
LAST_STEP = 0.75
#: Calm batches in a row before shedding ends; doubled when it had to resume soon after.
PATIENCE = 2
LONGEST_PATIENCE = 32
#: Resuming within so many batches counts as soon, if it is at the edge: half or more is kept.
SOON = 10
EDGE = 0.5


class Release:
    """Lets go slowly and completely.

    Shedding tightens in one step. It loosens by doublings, of the rate or of the rows, and ends
    (keep rate exactly 1) once the whole load has been forecast to fit for `patience` batches in a
    row. If it has to resume within ten batches, and keeps half or more then, the next patience is
    twice as long (at most 32), so that a load at the edge of capacity does not flap. A burst that
    cuts deeper is no flapping, and must not make the calm after it wait.

    From a keep rate r, and a load that fits again, it takes at most
    ``ceil(log2(1 / r)) + patience`` batches to shed nothing: see `batches_to_zero`.
    """

    def __init__(self) -> None:
        self.rate = 1.0
        self.patience = PATIENCE
        self._calm = 0
        self._since_release = SOON + 1

    @staticmethod
    def batches_to_zero(rate: float, patience: int = PATIENCE) -> int:
        """The most batches from keep rate `rate` to no shedding at all, when the load fits again."""
        return math.ceil(math.log2(1.0 / rate)) + patience

    def step(self, wanted: float, fits: bool, reach: float = 0.0) -> float:
        """The next keep rate, given the rate that would use the budget and whether all fits.

        `reach` is the rate at which the coming batch keeps twice the rows of the last one. After a
        batch that was cut deep because it was large, it is far above twice that batch's rate.
        """
        self._since_release += 1
        if wanted < self.rate:
            if self.rate >= 1.0 and self._since_release <= SOON and wanted >= EDGE:
                self.patience = min(LONGEST_PATIENCE, 2 * self.patience)
            self._calm = 0
            self.rate = wanted
            return self.rate
        if self.rate >= 1.0:
            if self._since_release > 5 * SOON:
                self.patience = PATIENCE
            return self.rate
        self._calm = self._calm + 1 if fits else 0
        limit = max(GROWTH * self.rate, reach)
        grown = min(wanted, limit)
        if self._calm >= self.patience and limit >= 1.0:
            grown = 1.0
            self._calm = 0
            self._since_release = 0
        elif grown >= 1.0:
            grown = max(self.rate, LAST_STEP)
        self.rate = grown
        return self.rate

    def open(self) -> None:
        """Shed nothing, at once; what made shedding useless says nothing about the next time."""
        self.rate = 1.0
        self._calm = 0
        self._since_release = SOON + 1

    def snapshot(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {
            "rate": self.rate,
            "patience": self.patience,
            "calm": self._calm,
            "since_release": self._since_release,
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        self.rate = float(value["rate"])
        self.patience = int(value["patience"])
        self._calm = int(value["calm"])
        self._since_release = int(value["since_release"])
