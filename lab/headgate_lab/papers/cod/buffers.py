"""Where an operator keeps its rows until a watermark completes their windows (cod-2018, section VI-A).

Two designs. *Single buffer* (Storm, Heron) stores a row once and looks for the rows of a window when a
watermark comes; *multiple buffers* (Flink) stores a copy in each of its windows, which are ready then.
Both give the same windows with the same rows, in order of arrival.

A watermark says that all rows up to it have come. Rows that come behind it all the same are counted:
*late* if a window of theirs is complete already, and *lost* if all are. The paper promises that there
are none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import numpy as np

from headgate_lab.papers.cod.open_windows import OpenWindows
from headgate_lab.papers.cod.windows import SessionWindows, Span, Windows

__all__ = ["Collector", "MultipleBuffers", "Rows", "SingleBuffer", "WindowBuffer"]

Row = TypeVar("Row")
Into = TypeVar("Into", contravariant=True)


class Collector(Protocol[Into]):
    """Takes the rows of one window, one by one, as they are found."""

    def offer(self, row: Into, /) -> None:
        """Take a row, or shed it."""


class Rows(Generic[Row]):
    """A collector that takes every row."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def offer(self, row: Row) -> None:
        """Take the row, whatever it is."""
        self.rows.append(row)


class WindowBuffer(ABC, Generic[Row]):
    """Rows until their windows are complete."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._limit = float("-inf")
        #: Rows added; rows for which a window was complete already; rows for which all were.
        self.arrived = 0
        self.late = 0
        self.lost = 0
        #: Rows looked at when watermarks came.
        self.scanned = 0

    @property
    @abstractmethod
    def stored(self) -> int:
        """Rows held now, copies counted."""

    @abstractmethod
    def _store(self, instant: float, row: Row) -> None:
        """Keep a row until its windows are complete."""

    @abstractmethod
    def _release(self, limit: float, collect: Callable[[Span], Collector[Row]]) -> None:
        """Offer the rows of windows that end at `limit` or earlier; forget what no window needs."""

    def add(self, instant: float, row: Row) -> None:
        """Take a row that arrives; count it as late if a window of it is complete."""
        instant = self._windows.instant(instant, self.arrived)
        self.arrived += 1
        if not self._windows.merging:
            ends = [span.end for span in self._windows.of(instant)]
            self.late += any(end <= self._limit for end in ends)
            if all(end <= self._limit for end in ends):
                self.lost += 1
                return
        self._store(instant, row)

    def scan(self, watermark: float, collect: Callable[[Span], Collector[Row]]) -> None:
        """A watermark arrives: what `collect` gives for a window is offered its rows."""
        limit = self._windows.limit(watermark, self.arrived)
        if limit > self._limit:
            self._release(limit, collect)
            self._limit = limit

    def on_watermark(self, watermark: float) -> list[tuple[Span, list[Row]]]:
        """The windows that end at the watermark or earlier and have rows, in order, each given once."""
        found: dict[Span, Rows[Row]] = {}
        self.scan(watermark, lambda span: found.setdefault(span, Rows()))
        return [(span, found[span].rows) for span in sorted(found)]

    def _forget(self, rows: int) -> None:
        self.late += rows
        self.lost += rows


class SingleBuffer(WindowBuffer[Row]):
    """Each row once, in order of arrival; a watermark scans them all and evicts what has expired."""

    def __init__(self, windows: Windows) -> None:
        super().__init__(windows)
        self._rows: list[tuple[float, Row]] = []

    @property
    def stored(self) -> int:
        """The number of rows held now."""
        return len(self._rows)

    def _store(self, instant: float, row: Row) -> None:
        self._rows.append((instant, row))

    def _release(self, limit: float, collect: Callable[[Span], Collector[Row]]) -> None:
        spans_of: Callable[[float], list[Span]] = self._windows.of
        if isinstance(self._windows, SessionWindows):
            spans_of = _session_of(self._windows, [instant for instant, _ in self._rows])
        collectors: dict[Span, Collector[Row]] = {}
        staying = []
        for instant, row in self._rows:
            self.scanned += 1
            spans = spans_of(instant)
            for span in spans:
                if self._limit < span.end <= limit:
                    if span not in collectors:
                        collectors[span] = collect(span)
                    collectors[span].offer(row)
            if spans[-1].end > limit:
                staying.append((instant, row))
            elif self._windows.merging and spans[-1].end <= self._limit:
                self._forget(1)
        self._rows = staying


def _session_of(windows: SessionWindows, instants: list[float]) -> Callable[[float], list[Span]]:
    spans = windows.split(np.array(instants))
    starts = [span.start for span in spans]
    return lambda instant: [spans[int(np.searchsorted(starts, instant, "right")) - 1]]


class MultipleBuffers(WindowBuffer[Row]):
    """A buffer for each window, and each row in all of its windows' buffers."""

    def __init__(self, windows: Windows) -> None:
        super().__init__(windows)
        self._open: OpenWindows[list[tuple[int, Row]]] = OpenWindows(
            windows, list, lambda into, other: sorted(into + other, key=lambda found: found[0])
        )
        self._copies = 0

    @property
    def stored(self) -> int:
        """The number of copies of rows held now."""
        return self._copies

    def _store(self, instant: float, row: Row) -> None:
        for buffer in self._open.join(instant):
            buffer.append((self.arrived, row))
            self._copies += 1

    def _release(self, limit: float, collect: Callable[[Span], Collector[Row]]) -> None:
        complete, late = self._open.close(limit)
        for span, buffer in complete:
            collector = collect(span)
            for _, row in buffer:
                self.scanned += 1
                collector.offer(row)
            self._copies -= len(buffer)
        for buffer in late:
            self._copies -= len(buffer)
            self._forget(len(buffer))
