"""Hold a queueing delay: from a row's arrival to the end of the batch that processed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.control.contract import Controller
from headgate.control.duration import HoldDuration, HoldDurationController
from headgate.control.fixed import check_rate
from headgate.core.load import Budget, LoadSample, ReadLimit
from headgate.durations import Duration, seconds

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
    what the next batch may take, but no more than half the target: a longer one would only leave
    less to the batch behind it, and the two would take turns for ever. Where less than a tenth of
    the target is left, rows are late whatever is done: then the batch is cut to that tenth, so that
    fewer come late after it, but not below the trigger's interval, before which none can begin.
    """

    _LEAST = 0.1

    def __init__(self, config: HoldDelay, snapshot: Mapping[str, Any] | None = None) -> None:
        self._target = seconds(config.target)
        self._inner = HoldDurationController(
            HoldDuration(self._target / 2, floor=config.floor), snapshot
        )

    def take_over(self, keep: float) -> None:
        """As the duration controller's."""
        self._inner.take_over(keep)

    def capped(self, limit: ReadLimit) -> None:
        """As the duration controller's."""
        self._inner.capped(limit)

    def opening(self, now: float) -> Budget:
        """As the duration controller's."""
        return self._inner.opening(now)

    def decide(self, sample: LoadSample) -> Budget:
        """The duration that the next batch may take, held."""
        self._inner.learn(sample)
        coming, lasting = self._waits(sample)
        self._inner.target_s = self._room(coming)
        self._inner.lasting_s = self._room(lasting)
        return self._inner.answer(sample)

    def _room(self, wait_s: float) -> float:
        half, least = self._target / 2, self._LEAST * self._target
        if self._target - wait_s < least:
            return max(least, min(half, self._inner.interval_s))
        return min(half, self._target - wait_s)

    def _waits(self, sample: LoadSample) -> tuple[float, float]:
        """How long the coming batch's oldest row will have waited for it, and one's in the long run."""
        coming, lasting = self._inner.window(sample), self._inner.interval_s
        if sample.oldest_arrival is not None:
            # A stream with nothing to read pauses too, and then no row waits: see what rows waited.
            waited = max(sample.duration_s, sample.started_at - sample.oldest_arrival)
            coming, lasting = min(coming, waited), min(lasting, waited)
            if sample.backlog:
                # What the source held back came after the batch's oldest row; how long after is
                # not known, so it is taken for as old. That is one batch too careful.
                coming = max(coming, sample.ended_at - sample.oldest_arrival)
        return coming, lasting

    def snapshot(self) -> dict[str, Any]:
        """What the duration controller learned."""
        return self._inner.snapshot()
