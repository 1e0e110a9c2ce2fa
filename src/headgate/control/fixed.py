"""A rate chosen by a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.control.contract import Controller
from headgate.core.load import Budget, LoadSample
from headgate.errors import BadArgument

__all__ = ["FixedRate", "FixedRateController", "check_rate"]


def check_rate(rate: float, name: str = "rate") -> float:
    """The rate, if it is a keep rate: above 0 and at most 1."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.0 < rate <= 1.0:
        raise BadArgument(
            f"{name}={rate!r} is outside (0, 1]: it is the share of rows to keep, "
            f"for instance {name}=0.1 keeps one row in ten"
        )
    return float(rate)


@dataclass(frozen=True)
class FixedRate:
    """Keep this share of the rows, whatever happens.

    >>> FixedRate(0.1).build().opening(now=0.0).keep
    0.1
    """

    rate: float

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def build(self, snapshot: Mapping[str, Any] | None = None) -> Controller:
        """A controller that always answers this rate."""
        return FixedRateController(self.rate)


class FixedRateController(Controller):
    """Always the same budget."""

    def __init__(self, rate: float) -> None:
        self._budget = Budget(rate, "fixed", f"fixed at {rate:g}")

    def opening(self, now: float) -> Budget:
        """The rate holds from the first batch on."""
        return self._budget

    def decide(self, sample: LoadSample) -> Budget:
        """The rate, whatever the sample says."""
        return self._budget

    def snapshot(self) -> dict[str, Any]:
        """Empty: a fixed rate learns nothing."""
        return {}
