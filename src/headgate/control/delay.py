"""Hold a queueing delay: from a row's arrival to the end of the batch that processed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.control.contract import Controller
from headgate.control.duration import FIRST_ROWS, HoldDuration, HoldDurationController
from headgate.control.tuning import HoldTuning
from headgate.core.load import Budget, LoadSample, ReadLimit
from headgate.durations import Duration, seconds

__all__ = ["HoldDelay", "HoldDelayController"]


@dataclass(frozen=True)
class HoldDelay:
    """Keep the oldest row's delay within `target`; needs the gate's `arrival` column.

    The other settings are those of `HoldDuration`.

    >>> HoldDelay("10 seconds").duration().target  # as much time is left for waiting
    5.0
    """

    target: Duration
    min_keep: float = 0.01
    inside: float = 0.95
    first_rows: float = FIRST_ROWS
    tuning: HoldTuning = field(default_factory=HoldTuning, repr=False)

    def __post_init__(self) -> None:
        seconds(self.target, "delay")
        self.duration()

    def duration(self) -> HoldDuration:
        """The batch duration that leaves as much time for waiting."""
        half = seconds(self.target) / 2
        # Rows for each second of the whole target, of which a batch gets half.
        first_rows = 2.0 * self.first_rows
        return HoldDuration(half, self.min_keep, self.inside, first_rows, self.tuning)

    def build(self, snapshot: Mapping[str, Any] | None = None) -> Controller:
        """The controller, fresh or from a snapshot."""
        return HoldDelayController(self, snapshot)


class HoldDelayController(Controller):
    """Turns a delay into a duration, and holds that.

    A row waits for its batch to begin, then for it to end. Its wait is at most the longer of the
    batch before and the trigger's interval; so what is left of the target after the coming wait is
    what the next batch may take, but no more than half the target: a longer one would only leave
    less to the batch behind it, and the two would take turns for ever. Rows that the source holds back
    have waited besides. Where less than a tenth of the
    target is left, rows are late whatever is done: then the batch is cut to that tenth, so that fewer
    come late after it, but not below the trigger's interval, before which none can begin.
    """

    def __init__(self, config: HoldDelay, snapshot: Mapping[str, Any] | None = None) -> None:
        self._target = seconds(config.target)
        self._least = config.tuning.least_room * self._target
        self._inner = HoldDurationController(config.duration(), snapshot)

    def take_over(self, keep: float) -> None:
        """As the duration controller's."""
        self._inner.take_over(keep)

    def capped(self, limit: ReadLimit) -> None:
        """As the duration controller's."""
        self._inner.capped(limit)

    def opening(self, now: float) -> Budget:
        """As the duration controller's."""
        return self._inner.opening(now)

    def resumed(self, now: float) -> Budget:
        """As the duration controller's."""
        return self._inner.resumed(now)

    def decide(self, sample: LoadSample) -> Budget:
        """The duration that the next batch may take, held."""
        self._inner.learn(sample)
        coming, lasting = self._waits(sample)
        self._inner.target_s = self._room(coming)
        self._inner.lasting_s = self._room(lasting)
        return self._inner.answer(sample)

    def _room(self, wait_s: float) -> float:
        half = self._target / 2
        if self._target - wait_s < self._least:
            return max(self._least, min(half, self._inner.arrivals.interval_s))
        return min(half, self._target - wait_s)

    def _waits(self, sample: LoadSample) -> tuple[float, float]:
        """How long the coming batch's oldest row will have waited for it, and one's in the long run."""
        arrivals = self._inner.arrivals
        coming, lasting = arrivals.window(sample.duration_s), arrivals.interval_s
        if sample.oldest_arrival is not None:
            # A stream with nothing to read pauses too, and then no row waits: see what rows waited.
            waited = max(sample.duration_s, sample.started_at - sample.oldest_arrival)
            coming, lasting = min(coming, waited), min(lasting, waited)
        if sample.backlog:
            coming = max(coming, self._held_back_s(sample))
        return coming, lasting

    def _held_back_s(self, sample: LoadSample) -> float:
        """How long the oldest row will have waited that the source holds back."""
        if sample.oldest_arrival is not None:
            # It came after the batch's oldest row; it is taken for as old, which is one batch too
            # careful. Less care lets the backlog's end swing over the target with every late batch.
            return sample.ended_at - sample.oldest_arrival
        rate = self._inner.arrivals.lasting
        waited = (sample.backlog or 0) / rate if rate > 0 else self._target
        return sample.duration_s + min(self._target, waited)

    def snapshot(self) -> dict[str, Any]:
        """What the duration controller learned."""
        return self._inner.snapshot()
