"""How many rows the next batch will bring, from what the last ones brought."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from headgate.core.load import LoadSample, ReadLimit

__all__ = ["ArrivalForecast"]

#: A batch waited for its trigger if it began so much of the interval after the last one's end.
_WAITED = 0.05
#: Intervals that the trigger is read off: the middle one of five is safe from two odd ones.
_INTERVALS = 5
#: How the largest batch of all time fades, with every batch: by a tenth in a hundred batches.
_FADE = 0.999
#: Time must miss by this (of the logarithm), and the last batch's rows by less than half of it,
#: before batches are taken to be of one size.
_MISSES = 0.03


class ArrivalForecast:
    """Rows per second, and the time over which the next batch collects them.

    A micro-batch takes what came between the start of the batch before it and its own start. So
    the next batch brings the rate times its `window`: the longer of this batch's duration and the
    trigger's interval. The interval is not in Spark's progress, and is read off the batches that
    waited; one that began at once, or waited much shorter, disproves a long one (a stream that had
    nothing to read waits too). A source that caps its batches leaves a backlog; it brings its cap.
    Some do not say so (`maxFilesPerTrigger`), or make batches of one size: where the last batch's
    rows foretell the next one's better than time does, they are the forecast. After a restart `most`
    counts: a source's cap as the query states it (`limit`), or as batches show it.

    Two readings of the rate. The latest batch's says whether the load fits. The cautious one
    follows a rise at once and a fall by half each batch, and says how much to keep when it does
    not: too low an estimate overruns the target, too high a one sheds a little much for a moment.
    """

    def __init__(self) -> None:
        #: What the query says that its sources hand out at most; None where that cannot be read.
        self.limit: ReadLimit | None = None
        self._latest = 0.0
        self._cautious = 0.0
        self._arrived = 0
        self._previous_start: float | None = None
        self._previous_end = 0.0
        self._intervals: list[float] = []
        self._largest = 0.0
        #: The largest batch ever, and the largest of those whose source held rows back.
        self._ever = self._capped = 0.0
        self._time_misses = self._size_misses = 0.0

    def add(self, sample: LoadSample) -> None:
        """Learn from a batch."""
        if self._previous_start is not None and sample.started_at > self._previous_start:
            interval = sample.started_at - self._previous_start
            self._compare(sample.arrived, self._latest * interval)
            self._latest = sample.arrived / interval
            self._cautious = max(self._latest, 0.5 * (self._cautious + self._latest))
            waited = sample.started_at - self._previous_end > _WAITED * interval
            if interval < 0.5 * self.interval_s:
                self._intervals = [interval] if waited else []
            elif waited or interval < 0.9 * self.interval_s:
                self._intervals = [*self._intervals, interval][-_INTERVALS:]
        self._previous_start, self._previous_end = sample.started_at, sample.ended_at
        self._arrived = sample.arrived
        self._largest = max(sample.arrived, 0.8 * self._largest)
        self._ever = max(sample.arrived, _FADE * self._ever)
        if sample.backlog and sample.arrived > 0:
            self._capped = max(sample.arrived, _FADE * self._capped)

    def _compare(self, arrived: int, by_time: float) -> None:
        """What would have foretold this batch better: time, or the size of the one before?"""
        if arrived > 0 and self._arrived > 0 and by_time > 0:
            time_miss = min(1.0, abs(math.log(arrived / by_time)))
            size_miss = min(1.0, abs(math.log(arrived / self._arrived)))
            self._time_misses += 0.3 * (time_miss - self._time_misses)
            self._size_misses += 0.3 * (size_miss - self._size_misses)

    @property
    def _of_one_size(self) -> bool:
        return self._time_misses > _MISSES and self._size_misses < 0.5 * self._time_misses

    @property
    def interval_s(self) -> float:
        """The trigger's interval, as far as it shows; 0 where no batch waits."""
        return statistics.median_high(self._intervals) if self._intervals else 0.0

    def window(self, duration_s: float) -> float:
        """How long the batch collects that follows one of this duration."""
        return max(duration_s, self.interval_s)

    def rows(self, window_s: float, backlog: int | None, cautious: bool = True) -> float:
        """Rows of a batch that collects so long, from a source that holds a backlog or not."""
        rate = self._cautious if cautious else self._latest
        if self._cautious <= 0 or self._of_one_size:
            return float(self._arrived)
        fresh = rate * window_s
        if backlog:
            return min(fresh + backlog, self._largest)
        return fresh if self.limit is None else min(fresh, self.most)

    @property
    def most(self) -> float:
        """The most rows that a batch can bring, as far as that is known."""
        if self.limit is not None and self.limit.rows is not None:
            return float(self.limit.rows)
        if self.limit is not None and self.limit.files is not None:
            # A batch has a file or more, so a file has no more rows than the largest batch had.
            return self.limit.files * self._ever if self._ever > 0 else math.inf
        if self.limit is not None:
            return math.inf  # the query states no cap, whatever an earlier one did
        if self._capped > 0:
            return self._capped
        return self._ever if self._of_one_size else math.inf

    def since(self, now: float) -> float:
        """Rows that came since the last batch began, if it was before a restart at `now`."""
        if self._previous_start is None:
            return 0.0
        return self._cautious * max(0.0, now - self._previous_start)

    def restarted(self) -> None:
        """The time since the last batch is no interval: the query was down."""
        self._previous_start = None

    def snapshot(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {
            "latest": self._latest,
            "cautious": self._cautious,
            "arrived": self._arrived,
            "start": self._previous_start,
            "end": self._previous_end,
            "intervals": list(self._intervals),
            "largest": self._largest,
            "ever": self._ever,
            "capped": self._capped,
            "time_misses": self._time_misses,
            "size_misses": self._size_misses,
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        self._latest, self._cautious = float(value["latest"]), float(value["cautious"])
        self._arrived = int(value["arrived"])
        self._previous_start = None if value["start"] is None else float(value["start"])
        self._previous_end = float(value["end"])
        self._intervals = [float(v) for v in value["intervals"]]
        self._largest = float(value["largest"])
        # Headgate 0.1.0 did not keep these two.
        self._ever = float(value.get("ever", self._largest))
        self._capped = float(value.get("capped", 0.0))
        self._time_misses = float(value["time_misses"])
        self._size_misses = float(value["size_misses"])
