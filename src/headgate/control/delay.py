"""Hold a queueing delay: from a row's arrival to the end of the batch that processed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.control.contract import Controller
from headgate.control.duration import HoldDuration, HoldDurationController
from headgate.control.fixed import check_rate
from headgate.durations import Duration, seconds
from headgate.load import Budget, LoadSample

__all__ = ["HoldDelay", "HoldDelayController"]


@dataclass(frozen=True)
class HoldDelay:
    """Keep the oldest row's delay within `target`; needs the gate's `arrival` column."""

    target: Duration
    floor: float = 0.01

    def __post_init__(self) -> None:
        seconds(self.target, "delay")
        check_rate(self.floor, "floor")

    def build(self, snapshot: Mapping[str, Any] | None = None) -> Controller:
        """The controller, fresh or from a snapshot."""
        return HoldDelayController(self, snapshot)


class HoldDelayController(Controller):
    """Turns a delay into a duration, and holds that.

    A row waits for its batch to begin, then for it to end. Its wait is at most the longer of the
    batch before and the trigger's interval; so what is left of the target after the coming wait is
    what the next batch may take. A batch that leaves nothing over is cut to a tenth of the target:
    its rows are late whatever is done, and the sooner it is over the fewer come late after it.
    In a steady state both terms are equal, and each settles at half the target.
    """

    _LEAST = 0.1

    def __init__(self, config: HoldDelay, snapshot: Mapping[str, Any] | None = None) -> None:
        self._target = seconds(config.target)
        self._inner = HoldDurationController(
            HoldDuration(self._target / 2, floor=config.floor), snapshot
        )
        self._set_room(self._target / 2)

    def _set_room(self, wait_s: float) -> None:
        self._inner.target_s = max(self._LEAST * self._target, self._target - wait_s)

    def opening(self, now: float) -> Budget:
        """As the duration controller's."""
        return self._inner.opening(now)

    def decide(self, sample: LoadSample) -> Budget:
        """The duration that the next batch may take, held."""
        wait = max(sample.duration_s, self._inner.interval_s)
        if sample.backlog and sample.oldest_arrival is not None:
            # What the source holds back is at least as old as what it handed out.
            wait = max(wait, sample.ended_at - sample.oldest_arrival)
        self._set_room(wait)
        return self._inner.decide(sample)

    def snapshot(self) -> dict[str, Any]:
        """What the duration controller learned."""
        return self._inner.snapshot()
