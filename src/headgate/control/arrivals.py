"""How many rows the next batch will bring, from what the last ones brought."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.load import LoadSample

__all__ = ["ArrivalForecast"]


class ArrivalForecast:
    """Rows per second, and the time over which the next batch collects them.

    A micro-batch takes what came between the start of the batch before it and its own start. So
    the next batch brings `rate` times the longer of this batch's duration and the trigger's
    interval; the interval is not in Spark's progress, and is read off the pauses between batches.
    A source that caps its batches (`maxOffsetsPerTrigger`) leaves a backlog; it brings its cap.

    The rate follows a rise at once and a fall by half each batch: too low an estimate overruns the
    target, too high an estimate only sheds a little too much for a moment.
    """

    def __init__(self) -> None:
        self._rate = 0.0
        self._previous_start: float | None = None
        self._previous_end: float | None = None
        self._pause = 0.0
        self._largest = 0.0

    def add(self, sample: LoadSample) -> None:
        """Learn from a batch."""
        if self._previous_start is not None and sample.started_at > self._previous_start:
            interval = sample.started_at - self._previous_start
            rate = sample.arrived / interval
            self._rate = rate if rate > self._rate else 0.5 * (self._rate + rate)
            waited = sample.started_at - (self._previous_end or sample.started_at)
            self._pause = interval if waited > 0.05 * interval else 0.8 * self._pause
        self._previous_start, self._previous_end = sample.started_at, sample.ended_at
        self._largest = max(sample.arrived, 0.8 * self._largest)

    def next_batch(self, sample: LoadSample) -> float:
        """Rows that the batch after this one will bring."""
        if self._rate <= 0:
            return float(sample.arrived)
        fresh = self._rate * max(sample.duration_s, self._pause)
        if sample.backlog:
            return min(fresh + sample.backlog, self._largest)
        return fresh

    def since(self, now: float) -> float:
        """Rows that came since the last batch began, if it was before a restart at `now`."""
        if self._previous_start is None:
            return 0.0
        return self._rate * max(0.0, now - self._previous_start)

    def snapshot(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {
            "rate": self._rate,
            "start": self._previous_start,
            "end": self._previous_end,
            "pause": self._pause,
            "largest": self._largest,
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        self._rate = float(value["rate"])
        self._previous_start, self._previous_end = value["start"], value["end"]
        self._pause = float(value["pause"])
        self._largest = float(value["largest"])
