"""Windows: by time, by count, by session; tumbling and sliding (cod-2018, sections II-B and VI-A).

All are half-open, [start, end). The paper's figure 3 puts the tuple of instant 70 into four windows of
size 15 and slide 5, (55, 70) to (70, 85), and so counts a boundary twice; size / slide is 3. Its formula
for the last window, tau - ((tau + s) mod s), gives that window's start, and holds for offset 0; here it
is tau - ((tau - offset) mod s), from a whole number of slides, so that rounding makes no window twice.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument

__all__ = ["CountWindows", "SessionWindows", "Span", "TimeWindows", "Windows"]


class Span(NamedTuple):
    """The instants of one window: from `start` up to, but without, `end`."""

    start: float
    end: float

    def has(self, instant: float) -> bool:
        """Whether an instant is in it."""
        return self.start <= instant < self.end


class Windows(ABC):
    """Which windows a row is in (W_Q of Table I), and when a window is complete."""

    #: Whether windows that touch become one.
    merging = False

    @abstractmethod
    def of(self, instant: float) -> list[Span]:
        """The windows of an instant, earliest first."""

    def instant(self, own: float, arrived: int) -> float:
        """What decides: a row's own instant, or how many rows arrived before it."""
        return own

    def limit(self, watermark: float, arrived: int) -> float:
        """Windows that end here or earlier are complete, after this watermark and so many rows."""
        return watermark


@dataclass(frozen=True)
class TimeWindows(Windows):
    """Windows of `size`, one every `slide` (without it they tumble), aligned to `offset`.

    >>> TimeWindows(15, 5).of(70)
    [Span(start=60.0, end=75.0), Span(start=65.0, end=80.0), Span(start=70.0, end=85.0)]
    >>> [pane.start for pane in TimeWindows(15, 5).panes(Span(60, 75))]
    [60, 65, 70]
    """

    size: float
    slide: float = 0.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.size < math.inf:
            raise BadArgument(f"size={self.size!r}: give a window more than 0, and finite")
        if self.slide == 0.0:
            object.__setattr__(self, "slide", self.size)
        if not 0 < self.slide <= self.size:
            raise BadArgument(
                f"slide={self.slide!r}: give more than 0 and at most the size {self.size!r}"
            )

    def last_start(self, instant: float) -> float:
        """Where the last window of an instant starts (tau_l of section VI-A)."""
        return self.offset + self._last(instant) * self.slide

    def _last(self, instant: float) -> int:
        number = math.floor((instant - self.offset) / self.slide)
        while self.offset + number * self.slide > instant:
            number -= 1
        # as windows are cut, rounded: an instant must not fall between two of them
        while (self.offset + number * self.slide) + self.slide <= instant:
            number += 1
        return number

    def of(self, instant: float) -> list[Span]:
        """The windows of an instant, earliest first: size / slide of them, if that is whole."""
        number, found = self._last(instant), []
        while (start := self.offset + number * self.slide) + self.size > instant:
            found.append(Span(start, start + self.size))
            number -= 1
        return found[::-1]

    def panes(self, span: Span) -> list[Span]:
        """The pieces of a window that no boundary of another window cuts: what neighbours share."""
        rest = self.size % self.slide
        cuts, start = [], span.start
        while start < span.end:
            cuts += [start] if rest == 0 else [start, start + rest]
            start += self.slide
        cuts = [cut for cut in cuts if cut < span.end]
        return [Span(*pair) for pair in zip(cuts, [*cuts[1:], span.end], strict=True)]

    def slices(self, instants: npt.NDArray[np.float64]) -> Iterator[tuple[Span, slice]]:
        """The windows that lie within the first and last of these instants, which ascend.

        >>> [(span.start, rows) for span, rows in TimeWindows(2).slices(np.array([0.0, 1.0, 2.5, 4.0]))]
        [(0.0, slice(0, 2, None)), (2.0, slice(2, 3, None))]
        """
        if not len(instants):
            return
        first, last = float(instants[0]), float(instants[-1])
        number = math.ceil((first - self.offset) / self.slide)
        while (start := self.offset + number * self.slide) + self.size <= last:
            low, high = np.searchsorted(instants, (start, start + self.size))
            yield Span(start, start + self.size), slice(int(low), int(high))
            number += 1


@dataclass(frozen=True)
class CountWindows(Windows):
    """Windows of `size` rows, one every `slide` rows, in the order of arrival; no watermark is needed.

    >>> CountWindows(4, 2).of(5)
    [Span(start=2.0, end=6.0), Span(start=4.0, end=8.0)]
    """

    size: int
    slide: int = 0

    def __post_init__(self) -> None:
        if not 1 <= (self.slide or self.size) <= self.size:
            raise BadArgument(
                f"size={self.size!r}, slide={self.slide!r}: give 1 row or more, and the slide at most"
                " the size"
            )

    def of(self, instant: float) -> list[Span]:
        """The windows of the row that so many rows came before; none starts before the first row."""
        return [
            span
            for span in TimeWindows(self.size, self.slide or self.size).of(instant)
            if span.start >= 0
        ]

    def instant(self, own: float, arrived: int) -> float:
        """The number of rows that came before."""
        return arrived

    def limit(self, watermark: float, arrived: int) -> float:
        """A window is complete when its rows have come."""
        return arrived


@dataclass(frozen=True)
class SessionWindows(Windows):
    """Rows with less than `gap` between them, and `gap` after the last.

    A row opens the window [instant, instant + gap); windows that overlap become one.

    >>> SessionWindows(10).split(np.array([1.0, 5.0, 14.0, 30.0]))
    [Span(start=1.0, end=24.0), Span(start=30.0, end=40.0)]
    """

    gap: float
    merging = True

    def __post_init__(self) -> None:
        if not 0 < self.gap < math.inf:
            raise BadArgument(f"gap={self.gap!r}: give a gap more than 0, and finite")

    def of(self, instant: float) -> list[Span]:
        """The window that a row opens by itself."""
        return [Span(instant, instant + self.gap)]

    def split(self, instants: npt.NDArray[np.float64]) -> list[Span]:
        """The sessions of these instants, in order."""
        ordered = np.sort(instants)
        cuts = np.flatnonzero(ordered[1:] >= ordered[:-1] + self.gap) + 1
        runs = [run for run in np.split(ordered, cuts) if len(run)]
        return [Span(float(run[0]), float(run[-1]) + self.gap) for run in runs]
