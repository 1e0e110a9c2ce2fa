"""What a row costs where a batch costs far more than its rows: robust, and never fooled upwards.

`CapacityFit` holds one query's target: it gives rows at least a tenth of every batch, and what it thinks
of a row matters little as long as batches end in time. At a site a row's price decides how many are
kept. With few rows kept, and a fixed price that comes and goes with the neighbours, a tenth of the batch
on few rows is a huge price, which keeps fewer still, until nothing is kept for good (three Sparks on two
cores: 0.3 ms a row went to 60).

So two rules. Rows cannot have cost more than the whole batch: the least time per row of recent batches
is a bound, and it is the batch with many rows that sets it. Below it the price is the median slope
between pairs of batches that differ in rows (Theil and Sen), which some odd batches do not move. Where
batches tell nothing, the price stays, and what is left over is the fixed price's.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["RowCost"]

#: Batches that are remembered.
_BATCHES = 16
#: Two batches tell a slope if one has so many times the rows of the other; so many pairs make an answer.
_APART, _PAIRS = 1.3, 3
#: A batch that took so many times as long as one with as many rows says that the other lacks time.
_ODD = 3.0
#: How far the price moves towards an answer.
_STEP = 0.5
#: The bound grows by this with every batch, as costs may.
_GROWTH = 1.04
#: A price is at least this share of its bound, and that much of it while nothing else is known.
_LEAST, _FIRST = 0.02, 0.5


class RowCost:
    """Seconds = a + b x rows.

    >>> cost = RowCost()
    >>> for rows in (100, 400, 200, 800):
    ...     cost.add(rows, 2.0 + 0.001 * rows)
    >>> round(cost.per_row_s, 6), round(cost.fixed_s, 3), round(cost.rows_within(3.0))
    (0.001, 2.0, 1000)
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=_BATCHES)
        self._bound = math.inf
        #: Batches with rows, cold ones too, that bound the price.
        self._bounds: deque[tuple[float, float]] = deque(maxlen=_BATCHES)
        self._per_row = 0.0
        self._fixed = 0.0
        self._told = False

    def add(self, rows: float, seconds: float, trust: float = 1.0) -> None:
        """Learn from a batch; a cold one (`trust` below 1) only says what rows cost at most."""
        if rows > 0 and seconds > 0.0:
            first = not self.known
            self._bounds.append((rows, seconds))
            least, second = _two_least(self._bounds)
            # The second least, once there are some: one report that lacks most of its time says nothing.
            if len(self._bounds) < _PAIRS:
                self._bound = min(self._bound * _GROWTH, _ratio(least))
            elif len(self._bounds) == _PAIRS and self._is_odd(least):
                self._bound = _ratio(second)  # what was believed while there was nothing else
            else:
                self._bound = min(self._bound * _GROWTH, _ratio(second))
            if first:
                self._per_row = _FIRST * self._bound
        if trust >= 1.0 or not self.known:
            self._seen.append((rows, seconds))
            self._learn()
        self._per_row = min(self._per_row, self._bound)
        self._fixed = self._rest() if self._seen else max(0.0, seconds - self._per_row * rows)

    def _is_odd(self, batch: tuple[float, float]) -> bool:
        """Whether a batch without more rows took several times as long: then time is missing here."""
        rows, seconds = batch
        return any(y > _ODD * seconds for x, y in self._bounds if x <= _APART * rows)

    def _learn(self) -> None:
        points = list(self._seen)
        slopes = [
            (y - v) / (x - u)
            for i, (x, y) in enumerate(points)
            for u, v in points[:i]
            if max(x, u) >= _APART * max(min(x, u), 1.0)
        ]
        self._told = len(slopes) >= _PAIRS
        if self._told:
            answer = min(max(statistics.median(slopes), _LEAST * self._bound), self._bound)
            # Early answers are all there is; later ones move it by and by.
            step = 1.0 if len(points) <= 4 else _STEP
            self._per_row += step * (answer - self._per_row)

    def _rest(self) -> float:
        return max(0.0, statistics.median(y - self._per_row * x for x, y in self._seen))

    @property
    def known(self) -> bool:
        """Whether any batch with rows was seen."""
        return math.isfinite(self._bound)

    @property
    def fixed_s(self) -> float:
        """Seconds that a batch takes before its first row."""
        return self._fixed

    @property
    def surely_fixed_s(self) -> float:
        """The same, as far as batches tell: nothing while all of it may be the rows'."""
        return self._fixed if self._told else 0.0

    @property
    def per_row_s(self) -> float:
        """Seconds for each row kept."""
        return self._per_row

    @property
    def blamed_s(self) -> float:
        """The most that a row may be blamed for: all of the batch, while batches do not tell."""
        return self._per_row if self._told or not self.known else self._bound

    def rows_within(self, seconds: float) -> float:
        """How many rows fit into that time; 0 where the fixed price alone is surely longer."""
        if not self.known:
            return math.inf
        return max(0.0, seconds - self.surely_fixed_s) / max(self.blamed_s, 1e-12)

    def snapshot(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {
            "bound": self._bound if self.known else None,
            "per_row": self._per_row,
            "fixed": self._fixed,
            "seen": [list(point) for point in self._seen],
            "bounds": [list(point) for point in self._bounds],
            "told": self._told,
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        self._bound = math.inf if value["bound"] is None else float(value["bound"])
        self._per_row, self._fixed = float(value["per_row"]), float(value["fixed"])
        self._seen = _points(value["seen"])
        self._bounds = _points(value["bounds"])
        self._told = bool(value["told"])


def _points(value: Iterable[Sequence[float]]) -> deque[tuple[float, float]]:
    return deque(((float(x), float(y)) for x, y in value), maxlen=_BATCHES)


def _ratio(batch: tuple[float, float]) -> float:
    return batch[1] / batch[0]


def _two_least(
    batches: Iterable[tuple[float, float]],
) -> tuple[tuple[float, float], tuple[float, float]]:
    ordered = sorted(batches, key=_ratio)
    return ordered[0], ordered[min(1, len(ordered) - 1)]
