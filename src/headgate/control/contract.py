"""`Controller`: how much to keep. A controller knows targets, durations and capacity; no keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

from headgate.core.load import Budget, LoadSample, ReadLimit

__all__ = ["Controller", "ControllerConfig"]


class Controller(ABC):
    """The running half: load samples in, budgets out. Two methods are required; no clock of its own.

    >>> class Halve(Controller):
    ...     def decide(self, sample: LoadSample) -> Budget:
    ...         return Budget(0.5 if sample.duration_s > 1.0 else 1.0, "shedding")
    ...     def snapshot(self) -> dict[str, Any]:
    ...         return {}
    >>> Halve().decide(LoadSample(0, 0.0, 3.0, 100, 100)).keep
    0.5
    """

    @abstractmethod
    def decide(self, sample: LoadSample) -> Budget:
        """What to keep of the next batch, now that this one is over."""

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """All that was learned, as JSON; the config's `build` takes it back."""

    def take_over(self, keep: float) -> None:  # noqa: B027, nobody has to
        """Another kind of controller held this keep rate until now; a fresh one may begin from it."""

    def capped(self, limit: ReadLimit) -> None:  # noqa: B027, nobody has to
        """What the query's sources hand out at most in a batch; told before `opening`, where known."""

    def revised(self) -> Budget | None:
        """A budget that changed without a batch, because something else did; most have none."""
        return None

    def opening(self, now: float) -> Budget:
        """What to keep of the first batch after a start at `now`; a fresh controller keeps all."""
        return Budget(1.0, "idle", "nothing measured yet")

    def resumed(self, now: float) -> Budget:
        """What to keep of the next batch after people changed settings in a query that runs on."""
        return self.opening(now)


class ControllerConfig(Protocol):
    """The other half: a frozen dataclass with the settings, which builds the logic.

    >>> from headgate import FixedRate
    >>> config: ControllerConfig = FixedRate(0.5)
    >>> config.build(snapshot=None).opening(now=0.0).keep
    0.5
    """

    def build(self, snapshot: Mapping[str, Any] | None = None) -> Controller:
        """A controller that goes on from the snapshot, or starts afresh without one."""
        ...
