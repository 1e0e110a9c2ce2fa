"""Source information content: what share of the sources reached a result (themis-2016, section 4).

A tuple of a source is worth 1 / (tuples of that source in the window * sources of the query) (Eq.
1), so that everything which a query's sources send during one source time window (STW) is worth 1.
An operator hands what its input was worth to its output, in equal parts (Eq. 3); what the results
of the last STW are worth together is the query's SIC (Eq. 4).

Settled here, where the paper says little:

- The sources are those of the *whole* query, also where a node has only some of them; else a query
  in several fragments would be worth more than 1.
- Counts are of *offered* tuples, before anything is shed.
- During its first STW a source has sent less than a window. Its count is scaled up to one; with raw
  counts the first tuples would be worth ever so much, and SIC would be far above 1.
- "A practical way" for sliding windows: a tuple in m windows gives SIC / m to each. Without that a
  result is worth size / slide times too much.
- An operator without output (a filter that nothing passes) loses what its input was worth.

A trailing window does not know a burst before it is over, so SIC above 1 is possible while rates
change, and where a source sends more than was agreed (which is ours).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument

__all__ = ["ResultWindow", "SourceWindow", "derived_sic", "result_sic", "window_sics"]

Floats = npt.NDArray[np.float64]

#: Slides are counted with this tolerance: 0.75 / 0.25 may be a little above 3.
_FUZZ = 1e-9


class _Slides:
    """Sums over the last STW, for many columns, kept a slide at a time; a slide holds (start, end]."""

    def __init__(self, stw_s: float, slide_s: float) -> None:
        if not (slide_s > 0 and stw_s >= slide_s and math.isfinite(stw_s)):
            raise BadArgument(
                f"stw_s={stw_s!r}, slide_s={slide_s!r}: the source time window is at least one slide, "
                "and a slide is above 0 seconds; 10 and 0.25 are the published ones"
            )
        self.stw_s, self.slide_s = stw_s, slide_s
        self._ring: Floats = np.zeros((max(1, math.ceil(stw_s / slide_s - _FUZZ)), 0))
        self._since: Floats = np.zeros(0)
        self._slide = -(2**62)
        self._now_s = -math.inf

    def _widen(self, since: list[float]) -> None:
        self._ring = np.concatenate([self._ring, np.zeros((len(self._ring), len(since)))], axis=1)
        self._since = np.concatenate([self._since, since])

    def _narrow(self, column: int) -> None:
        self._ring = np.delete(self._ring, column, axis=1)
        self._since = np.delete(self._since, column)

    def _move(self, at_s: float) -> None:
        """Time goes on; a clock that jumped back is taken for one that stood still."""
        if not math.isfinite(at_s):
            raise BadArgument(f"at_s={at_s!r}: a time is a finite number of seconds")
        self._now_s = max(self._now_s, at_s)
        slide = math.ceil(self._now_s / self.slide_s - _FUZZ) - 1
        for passed in range(max(self._slide + 1, slide - len(self._ring) + 1), slide + 1):
            self._ring[passed % len(self._ring)] = 0.0
        self._slide = max(self._slide, slide)

    def _add(self, values: npt.ArrayLike, at_s: float) -> None:
        self._move(at_s)
        self._ring[self._slide % len(self._ring)] += np.asarray(values, np.float64)

    def _sums(self, at_s: float) -> Floats:
        """The sums over the window that ends now, scaled to a whole STW where less was seen."""
        self._move(at_s)
        rest = (self._slide + 1) * self.slide_s - self._now_s
        seen = np.minimum(len(self._ring) * self.slide_s - rest, self._now_s - self._since)
        return np.asarray(self._ring.sum(axis=0) * (self.stw_s / np.maximum(seen, self.slide_s)))


class SourceWindow(_Slides):
    """How much each source offered during the last STW, and so what a tuple of it is worth (Eq. 1).

    >>> window = SourceWindow(stw_s=10, slide_s=1)
    >>> for source in ("rome", "oslo"):
    ...     window.join(source, query_sources=2, at_s=0)
    >>> for second in range(1, 21):
    ...     window.offer({"rome": 40, "oslo": 10}, at_s=second)
    >>> window.tuple_sic(20)
    {'rome': 0.00125, 'oslo': 0.005}
    """

    def __init__(self, stw_s: float = 10.0, slide_s: float = 0.25) -> None:
        super().__init__(stw_s, slide_s)
        self._columns: dict[Hashable, int] = {}
        self._of: Floats = np.zeros(0)
        self._agreed: Floats = np.zeros(0)
        self._joined: list[tuple[float, float, float]] = []

    @property
    def sources(self) -> tuple[Hashable, ...]:
        """The sources, in the order in which they joined; arrays are in this order."""
        return tuple(self._columns)

    def join(self, source: Hashable, query_sources: int, at_s: float, agreed: float = math.inf) -> None:
        """A source begins; its query has that many sources, here and elsewhere.

        `agreed` is how many tuples an STW it may send. One that sends more is worth more than 1 in all,
        so its query is as high as the others with the share that was agreed. Without it a source that
        sends ten times as much is entitled to ten times the capacity, because all of it counts as 1.
        """
        if query_sources < 1 or not agreed > 0:
            raise BadArgument(
                f"query_sources={query_sources!r}, agreed={agreed!r}: a query has at least 1 source, "
                "and a source may send more than 0 tuples"
            )
        if source in self._columns:
            raise BadArgument(f"source {source!r} has joined before; let it leave first")
        self._move(at_s)
        self._columns[source] = len(self._columns)
        self._joined.append((float(query_sources), agreed, self._now_s))

    def _settle(self) -> None:
        """Those who joined get their columns, all at once."""
        if not self._joined:
            return
        self._of = np.concatenate([self._of, [of for of, _, _ in self._joined]])
        self._agreed = np.concatenate([self._agreed, [agreed for _, agreed, _ in self._joined]])
        self._widen([since for _, _, since in self._joined])
        self._joined.clear()

    def leave(self, source: Hashable) -> None:
        """Forget a source that ended; the others move up a column."""
        column = self._column(source)
        self._settle()
        self._narrow(column)
        self._of = np.delete(self._of, column)
        self._agreed = np.delete(self._agreed, column)
        del self._columns[source]
        self._columns = {name: number for number, name in enumerate(self._columns)}

    def offer(self, counts: Mapping[Hashable, float], at_s: float) -> None:
        """Tuples that sources offered since the last time."""
        row = np.zeros(len(self._columns))
        for source, count in counts.items():
            row[self._column(source)] = count
        self.offer_all(row, at_s)

    def offer_all(self, counts: npt.ArrayLike, at_s: float) -> None:
        """The same for all sources, in the order of `sources`."""
        row = np.asarray(counts, np.float64)
        if row.shape != (len(self._columns),) or not (row >= 0).all():
            raise BadArgument(
                f"counts={counts!r}: give a count of 0 or more for each of {len(self._columns)} sources"
            )
        self._settle()
        self._add(row, at_s)

    def offered(self, at_s: float) -> Floats:
        """Tuples of each source in a whole STW, as of now."""
        self._settle()
        return self._sums(at_s)

    def sics(self, at_s: float) -> Floats:
        """What a tuple of each source is worth now (Eq. 1); 0 for a source that sent none."""
        counts = np.minimum(self.offered(at_s), self._agreed)
        return np.where(counts > 0, 1.0 / (np.where(counts > 0, counts, 1.0) * self._of), 0.0)

    def tuple_sic(self, at_s: float) -> dict[Hashable, float]:
        """The same, by source."""
        return dict(zip(self._columns, self.sics(at_s).tolist(), strict=True))

    def _column(self, source: Hashable) -> int:
        try:
            return self._columns[source]
        except KeyError:
            known = ", ".join(repr(name) for name in self._columns) or "none"
            raise BadArgument(f"source {source!r} has not joined; known are: {known}") from None


class ResultWindow(_Slides):
    """What the results of the last STW are worth together: q_SIC (Eq. 4), kept as results come.

    A query that has just begun is judged by the part of the window that it has lived through.

    >>> results = ResultWindow(stw_s=10, slide_s=1, at_s=0)
    >>> for second in range(1, 31):
    ...     results.add(0.05, at_s=second)
    >>> round(results.sic(30), 9), round(results.sic(35), 9)
    (0.5, 0.25)
    """

    def __init__(self, stw_s: float = 10.0, slide_s: float = 0.25, at_s: float = 0.0) -> None:
        super().__init__(stw_s, slide_s)
        self._move(at_s)
        self._widen([at_s])

    def add(self, sic: float, at_s: float) -> None:
        """A result, or several, worth that much together."""
        if not 0.0 <= sic < math.inf:
            raise BadArgument(f"sic={sic!r}: the SIC of a result is a finite number, 0 or more")
        self._add([sic], at_s)

    def sic(self, at_s: float) -> float:
        """The query's SIC as of now."""
        return float(self._sums(at_s)[0])


def derived_sic(inputs: npt.ArrayLike, outputs: int) -> float:
    """What each of an operator's outputs is worth, if it processed these inputs at once (Eq. 3).

    >>> derived_sic([0.125, 0.125, 0.125, 0.125], outputs=2), derived_sic([0.5], outputs=0)
    (0.25, 0.0)
    """
    if outputs < 0:
        raise BadArgument(f"outputs={outputs!r}: an operator has 0 outputs or more")
    return float(np.sum(np.asarray(inputs, np.float64))) / outputs if outputs else 0.0


def window_sics(
    times_s: npt.ArrayLike, sics: npt.ArrayLike, size_s: float, slide_s: float | None = None
) -> tuple[Floats, Floats]:
    """The ends of the windows that have tuples, and what their contents are worth; tumbling by default.

    A window holds [end - size, end). A tuple in m windows gives each SIC / m, so that the sum stays the
    same. With a slide above the size some tuples are in no window, and their SIC is lost.

    >>> ends, worth = window_sics([0.0, 0.5, 1.0], [0.1, 0.1, 0.2], size_s=2, slide_s=1)
    >>> ends.tolist(), worth.round(3).tolist()
    ([1.0, 2.0, 3.0], [0.1, 0.2, 0.1])
    """
    slide = size_s if slide_s is None else slide_s
    if not (size_s > 0 and slide > 0):
        raise BadArgument(f"size_s={size_s!r}, slide_s={slide_s!r}: both are above 0 seconds")
    times, worth = np.asarray(times_s, np.float64), np.asarray(sics, np.float64)
    last = np.floor(times / slide + _FUZZ).astype(np.int64)
    first = np.floor((times - size_s) / slide + _FUZZ).astype(np.int64) + 1
    copies = np.maximum(last - first + 1, 0)
    each = np.repeat(worth / np.maximum(copies, 1), copies)
    nth = np.arange(int(copies.sum())) - np.repeat(np.cumsum(copies) - copies, copies)
    starts, where = np.unique(np.repeat(first, copies) + nth, return_inverse=True)
    sums = np.bincount(where, each, minlength=len(starts)).astype(np.float64)
    return starts * float(slide) + size_s, sums


def result_sic(times_s: npt.ArrayLike, sics: npt.ArrayLike, at_s: float, stw_s: float) -> float:
    """What the results in (at - STW, at] are worth together: q_SIC (Eq. 4).

    >>> result_sic([1.0, 5.0, 11.0], [0.3, 0.3, 0.3], at_s=11, stw_s=10)
    0.6
    """
    times = np.asarray(times_s, np.float64)
    inside = (times > at_s - stw_s) & (times <= at_s)
    return float(np.asarray(sics, np.float64)[inside].sum())
