"""A rate over the last source time window, from batches that come seldom and unevenly.

Eq. 1 of themis-2016 counts the tuples of the last STW. A micro-batch brings the tuples of all the time
since the batch before it began, so a window that is cut at any moment holds two batches or three, and
the count jumps by a third. Here amounts are divided by the time in which they were collected, from the
start of one batch to the start of the next, and scaled to a whole window.

A stream without rows runs no batch. The time of a pause is not one of collecting: counted so, the first
rows after it would look few, and each would have many times its SIC. Where every batch comes late,
because rows are few, that is the stream's way and no pause.

`control.arrivals` answers another question, how many rows the *next* batch brings: it follows a rise at
once, knows backlogs and caps, and counts rows only. This is the mean over a window that Eq. 1 divides
by, of rows and of SIC; a gate's account has both.
"""

from __future__ import annotations

import statistics
from collections import deque

from headgate.sites.tuning import RateTuning

__all__ = ["WindowedRate"]


class WindowedRate:
    """Amounts of batches over the time in which they were collected.

    >>> rows = WindowedRate(stw_s=10)
    >>> for start in range(0, 40, 4):
    ...     rows.add(float(start), 400.0, usual_s=4.0, heard_s=float(start))
    >>> rows.per_window(now_s=36.0)
    1000.0
    """

    def __init__(self, stw_s: float, tuning: RateTuning | None = None) -> None:
        self._stw = stw_s
        self._tuning = tuning or RateTuning()
        #: Seconds of collection, amount.
        self._batches: deque[tuple[float, float]] = deque()
        #: Their sums, which are asked for far more often than a batch comes.
        self._span = self._amount = 0.0
        self._start: float | None = None
        self._heard = 0.0
        #: The latest spacings as they were, pauses too.
        self._spacings: deque[float] = deque(maxlen=self._tuning.spacings)

    def add(
        self, started_at: float, amount: float, usual_s: float, heard_s: float, before_s: float = 0.0
    ) -> None:
        """A batch that began then; `usual_s` is how long such a batch collects if nothing is unusual.

        It collects longer where the batch before it took long (`before_s`).
        `started_at` is the stream's clock, which may jump; `heard_s` is a clock that does not.
        """
        spacing = usual_s if self._start is None else started_at - self._start
        self._start, self._heard = started_at, heard_s
        if spacing == 0.0 and self._batches:  # two in one tick of the clock were collected together
            spacing, before = self._batches.pop()
            amount += before
        elif not 0.0 < spacing <= self._tuning.longest_gap * self._stw:
            self._batches.clear()
            spacing = usual_s
        elif self._batches:
            self._spacings.append(spacing)
            usual_s = max(usual_s, before_s, self.usual_s)
            if spacing > self._tuning.quiet * usual_s:
                spacing = usual_s
        self._batches.append((spacing, amount))
        self._span = sum(spacing for spacing, _ in self._batches)
        while len(self._batches) > 1 and self._span - self._batches[0][0] >= self._stw:
            self._batches.popleft()
            self._span = sum(spacing for spacing, _ in self._batches)
        self._amount = sum(amount for _, amount in self._batches)

    def at_work(self, now_s: float) -> None:
        """Note that the next batch is being processed: the time without a report is no silence."""
        self._heard = max(self._heard, now_s)

    def per_second(self, now_s: float) -> float:
        """The amount a second; it fades when no batch comes any more."""
        if not self._batches:
            return 0.0
        span = self._span
        silent = now_s - self._heard
        if silent > self._tuning.quiet * span / len(self._batches):
            span += silent
        return self._amount / span

    @property
    def usual_s(self) -> float:
        """The usual time from batch to batch, pauses too; 0 while there were no two."""
        return statistics.median_high(self._spacings) if self._spacings else 0.0

    @property
    def while_collecting(self) -> float:
        """The amount a second while batches came: silence since then does not count."""
        return self._amount / self._span if self._span > 0.0 else 0.0

    def pause_s(self, usual_s: float) -> float:
        """The time from batch to batch above which it is a pause, in which nothing was collected."""
        return min(self._tuning.quiet * usual_s, self._tuning.longest_gap * self._stw)

    def per_window(self, now_s: float) -> float:
        """The amount in a whole source time window."""
        return self.per_second(now_s) * self._stw
