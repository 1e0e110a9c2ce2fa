"""How many rows arrive in a second: measured from start to start of the batches."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.core.load import LoadSample, ReadLimit

__all__ = ["ArrivalRate", "ArrivalSettings"]


@dataclass(frozen=True)
class ArrivalSettings:
    """The numbers of the arrival rate."""

    #: Batches over which a lasting rate is taken: a source that hands out whole seconds is off by one of
    #: them, which is a few per cent of so many batches.
    batches: int = 12
    #: A rate that fell is believed after so many: two odd ones may be small by chance.
    fallen: int = 3
    #: A batch waited for its trigger if it began so much of the gap after the end of the one before.
    waited: float = 0.05
    #: A gap of so many usual ones is a pause, in which nothing was collected: it tells no rate.
    pause: float = 10.0
    #: How the largest batch of all time fades with every batch: by a tenth in a hundred.
    fade: float = 0.999


class ArrivalRate:
    """Rows a second, and what follows for a batch whose size cannot be known.

    A micro-batch takes what came between the start of the batch before it and its own start, so a
    batch's rows by that time are the rate then. `lasting` is what the stream brings in the long run:
    the rate over the last dozen batches, or over the last three if that is less, because calm after a
    burst should not have to wait. `expected` is for a batch whose size cannot be known: the latest
    rate, or half of the way down from the one before if it fell, times the time over which the batch
    collects, and no more than what the query says that its sources hand out (`limit`), or than what
    they handed out while they held rows back.
    """

    def __init__(self, settings: ArrivalSettings | None = None) -> None:
        self._settings = settings or ArrivalSettings()
        #: What the query says that its sources hand out at most; None where that cannot be read.
        self.limit: ReadLimit | None = None
        self._seen: deque[tuple[float, float]] = deque(maxlen=self._settings.batches)
        self._cautious = 0.0
        self._arrived = 0
        self._start: float | None = None
        self._end = 0.0
        #: The trigger's interval where Spark says it; the gap in front of the last batch if that waited.
        self._told_s = self._waited_s = 0.0
        #: When the last batch before a restart began, until the first one behind it is over.
        self._stopped_after: float | None = None
        #: Whether the last batch had been planned before a restart: the next one's gap tells no rate.
        self._planned_before = False
        #: The largest batch ever, and the largest of those whose source held rows back.
        self._ever = self._capped = 0.0

    def add(self, sample: LoadSample) -> None:
        """Learn from a batch."""
        began = None if self._planned_before or sample.planned_before else self._start
        if began is not None and 0.0 < (gap := sample.started_at - began) <= self._longest:
            self._seen.append((float(sample.arrived), gap))
            latest = sample.arrived / gap
            self._cautious = max(latest, 0.5 * (self._cautious + latest))
            waited = sample.started_at - self._end > self._settings.waited * gap
            self._waited_s = gap if waited else 0.0
        self._told_s = sample.interval_s or 0.0
        self._planned_before = sample.planned_before
        self._start, self._end, self._arrived = sample.started_at, sample.ended_at, sample.arrived
        if sample.planned_before and self._stopped_after is not None:
            self._start = self._stopped_after  # rows of the outage are still to come
        self._stopped_after = None
        self._ever = max(float(sample.arrived), self._settings.fade * self._ever)
        if sample.backlog and sample.arrived > 0:
            self._capped = max(float(sample.arrived), self._settings.fade * self._capped)

    @property
    def _longest(self) -> float:
        """The longest gap that is one: streams without rows, and clocks that jump, leave longer ones."""
        if not self._seen or self._start is None:
            return math.inf
        usual = statistics.median(gap for _, gap in self._seen)
        return self._settings.pause * max(usual, self._told_s, self._end - self._start)

    @property
    def lasting(self) -> float:
        """Rows a second that the stream brings in the long run."""
        return min(self._over(self._settings.batches), self._over(self._settings.fallen))

    def _over(self, batches: int) -> float:
        seen = list(self._seen)[-batches:]
        seconds = sum(gap for _, gap in seen)
        return sum(rows for rows, _ in seen) / seconds if seconds > 0 else 0.0

    @property
    def interval_s(self) -> float:
        """The trigger's interval; where Spark does not say it, the last gap, if a batch waited."""
        return self._told_s or self._waited_s

    def window(self, duration_s: float) -> float:
        """How long the batch collects at most that follows one of this duration."""
        return max(duration_s, self.interval_s)

    def rows(self, window_s: float, backlog: int | None = None) -> float:
        """Rows to expect of a batch that collects so long, from a source that holds a backlog or not."""
        if self._cautious <= 0:
            return float(self._arrived)
        return min(self._cautious * window_s + (backlog or 0), self.most)

    def expected(self, duration_s: float, backlog: int | None = None) -> float:
        """Rows to expect of the batch that follows one of this duration.

        No fewer than the last one had: that is exact for a source that hands out batches of one size,
        and after a burst it cuts one batch too deep.
        """
        collects = max(duration_s, self._told_s)
        if self._planned_before and self._start is not None:
            collects = max(collects, self._end - self._start)
        by_time = self.rows(collects, backlog)
        return min(max(by_time, float(self._arrived)), self.most)

    @property
    def most(self) -> float:
        """The most rows that a batch can bring, as far as that is known."""
        if self.limit is not None and self.limit.rows is not None:
            return float(self.limit.rows)
        if self.limit is not None and self.limit.files is not None:
            # A batch has a file or more, so a file has no more rows than the largest batch had.
            return self.limit.files * self._ever if self._ever > 0 else math.inf
        if self.limit is not None or self._capped <= 0:
            return math.inf  # the query states no cap, whatever an earlier one did
        return self._capped

    def since(self, now: float) -> float:
        """Rows that came since the last batch began, if it was before a restart at `now`.

        Where the clock says that it was not, somebody set it back, and nobody knows how long the query
        was down: as many rows as the last batch had are waiting at least.
        """
        if self._start is None:
            return 0.0
        if now < self._start:
            return float(self._arrived)
        return self._cautious * (now - self._start)

    def restarted(self) -> None:
        """The time since the last batch is no gap between two: the query was down."""
        self._stopped_after, self._start = self._start, None

    def snapshot(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {
            "seen": [list(pair) for pair in self._seen],
            "cautious": self._cautious,
            "arrived": self._arrived,
            "start": self._start,
            "end": self._end,
            "told": self._told_s,
            "waited": self._waited_s,
            "ever": self._ever,
            "capped": self._capped,
            "stopped_after": self._stopped_after,
            "planned_before": self._planned_before,
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`; from 0.1.0's, with what it had."""
        self._seen.extend((float(rows), float(gap)) for rows, gap in value.get("seen", ()))
        self._cautious = float(value["cautious"])
        self._arrived = int(value["arrived"])
        self._start = None if value["start"] is None else float(value["start"])
        self._end = float(value["end"])
        self._told_s = float(value.get("told", 0.0))
        self._waited_s = float(value.get("waited", 0.0))
        self._ever = float(value.get("ever", value.get("largest", 0.0)))
        self._capped = float(value.get("capped", 0.0))
        stopped = value.get("stopped_after")
        self._stopped_after = None if stopped is None else float(stopped)
        self._planned_before = bool(value.get("planned_before", False))
