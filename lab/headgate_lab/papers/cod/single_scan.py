"""CoD without a second pass (cod-2018, section VI-B): an operator that meets one row at a time.

As a row arrives, it is offered to the sample of each of its windows (figure 5), or counted there for a
reading with exact counts, and stored. When a watermark completes a window, the concept is read off, and
the one scan that finds the window's rows also sheds (figure 6). What it keeps is what the two passes of
`cod_shed` keep, given the same sample.

The paper leaves open how large a sample is, before the window's size is known. Here it is the share
asked for of the window completed last; before there is one, of `first_window` rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

import numpy as np

from headgate.errors import BadArgument
from headgate_lab.papers.cod.buffers import MultipleBuffers, SingleBuffer, WindowBuffer
from headgate_lab.papers.cod.cod import GroupConcept, known_quotas
from headgate_lab.papers.cod.open_windows import OpenWindows
from headgate_lab.papers.cod.readings import CONCEPT_DRIVEN, Reading
from headgate_lab.papers.cod.reservoir import MergingReservoir, Reservoir
from headgate_lab.papers.cod.stratified import GroupLots
from headgate_lab.papers.cod.uniform import checked_share
from headgate_lab.papers.cod.windows import Span, Windows

__all__ = ["ShedWindow", "SingleScan"]

Row = TypeVar("Row")


@dataclass(frozen=True)
class ShedWindow(Generic[Row]):
    """A complete window after shedding."""

    span: Span
    #: The rows kept, in order of arrival.
    kept: list[Row]
    #: The rows that each group has in the window, kept and shed; the scan has met them all.
    counts: dict[Hashable, int]
    #: The groups of the rows sampled, for a reading of a sample.
    sample: list[Hashable] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows of the window, kept and shed."""
        return sum(self.counts.values())


@dataclass
class _Sighted:
    """What is known of an open window: how many rows, and its groups' frequencies in one form."""

    rows: int
    counts: Counter[Hashable]
    sample: Reservoir[Hashable] | MergingReservoir[Hashable] | None


class _Shedder(Generic[Row]):
    """Hands the rows of one window to the lots of their groups."""

    def __init__(self, lots: GroupLots[Row], group_of: Callable[[Row], Hashable]) -> None:
        self.lots, self._group_of = lots, group_of

    def offer(self, row: Row) -> None:
        self.lots.offer(self._group_of(row), row)


class SingleScan(Generic[Row]):
    """The operator. Groups must be hashable and comparable with each other.

    The n-th window completed sheds with the lots of ``default_rng([seed, n])``, n from 0.

    >>> from headgate_lab.papers.cod import TimeWindows
    >>> scan = SingleScan(TimeWindows(10), 0.1, group_of=lambda row: row[0], seed=1)
    >>> for instant in range(10):
    ...     scan.add(instant, ("rare" if instant == 4 else "often", instant))
    >>> (window,) = scan.on_watermark(10)
    >>> sorted(group for group, _ in window.kept), window.rows
    (['often', 'rare'], 10)
    """

    def __init__(
        self,
        windows: Windows,
        keep: float,
        reading: Reading = CONCEPT_DRIVEN,
        *,
        group_of: Callable[[Row], Hashable],
        seed: int,
        design: Literal["single", "multiple"] = "single",
        first_window: int = 1000,
    ) -> None:
        if design not in ("single", "multiple"):
            raise BadArgument(f"design={design!r} is not one of 'single', 'multiple'")
        self._windows, self._keep, self._reading = windows, checked_share(keep), reading
        self._group_of, self._seed = group_of, seed
        buffer = SingleBuffer[Row] if design == "single" else MultipleBuffers[Row]
        #: The rows, and the counts of late and lost ones.
        self.buffer: WindowBuffer[Row] = buffer(windows)
        self._sampling = np.random.default_rng([seed, 2**32])
        self._expected = first_window
        self._open: OpenWindows[_Sighted] = OpenWindows(windows, self._sight, self._merge)
        self._completed = 0

    def add(self, instant: float, row: Row) -> None:
        """Figure 5: find the row's windows, let it into their samples or counts, store it."""
        group = self._group_of(row)
        position = self._windows.instant(instant, self.buffer.arrived)
        for window in self._open.join(position):
            window.rows += 1
            if window.sample is None:
                window.counts[group] += 1
            else:
                window.sample.add(group)
        self.buffer.add(instant, row)

    def on_watermark(self, watermark: float) -> list[ShedWindow[Row]]:
        """Figure 6: the concepts of the windows that are complete now, then one scan that sheds."""
        limit = self._windows.limit(watermark, self.buffer.arrived)
        sighted, _ = self._open.close(limit)
        shedders = {span: self._shedder(window) for span, window in sighted}
        self.buffer.scan(watermark, lambda span: shedders[span])
        if sighted:
            self._expected = sighted[-1][1].rows
        found = []
        for span, window in sighted:
            lots = shedders[span].lots
            sample = [] if window.sample is None else list(window.sample.rows)
            found.append(ShedWindow(span, lots.kept(), lots.counts, sample))
        return found

    def _shedder(self, window: _Sighted) -> _Shedder[Row]:
        rng = np.random.default_rng([self._seed, self._completed])
        self._completed += 1
        seen = window.counts if window.sample is None else Counter(window.sample.rows)
        groups = sorted(seen)  # type: ignore[type-var]
        concept = GroupConcept(np.array([seen[g] for g in groups], np.int64), window.rows)
        quotas = known_quotas(concept, round(self._keep * window.rows), self._reading, rng)
        named = dict(zip(groups, quotas.tolist(), strict=True))
        return _Shedder(GroupLots(named, self._reading.absent_quota, rng), self._group_of)

    def _sight(self) -> _Sighted:
        if self._reading.exact:
            return _Sighted(0, Counter(), None)
        size = max(1, round(self._reading.sample_share(self._keep) * self._expected))
        kind = MergingReservoir if self._windows.merging else Reservoir
        return _Sighted(0, Counter(), kind(size, self._sampling))

    @staticmethod
    def _merge(into: _Sighted, other: _Sighted) -> _Sighted:
        if isinstance(into.sample, MergingReservoir) and isinstance(other.sample, MergingReservoir):
            if other.sample.size < into.sample.size:
                into, other = other, into
            assert isinstance(into.sample, MergingReservoir)
            assert isinstance(other.sample, MergingReservoir)
            into.sample.merge(other.sample)
        into.counts.update(other.counts)
        into.rows += other.rows
        return into
