"""What a row costs where a batch costs far more than its rows: robust, and never fooled upwards.

The fit of a gate by itself (`headgate.control`) holds one query's target, and what it thinks of a row
matters little as long as batches end in time. At a site a row's price decides how many rows each stream
gets. Batches become longer there when neighbours are busy, and whatever blames the rows for it keeps
fewer of them for nothing: beside neighbours that come and go, a plain least-squares line finds a price
several times too high and sheds a third to a half of the rows that fit (``tests/sites/test_row_cost.py``
swaps the two). On the other virtual sites of the laboratory a line does about as well.

So two rules. Rows cannot have cost more than the whole batch: the least time per row of recent batches
is a bound, and it is the batch with many rows that sets it. Below it the price is the median slope
between pairs of batches that differ in rows (Theil and Sen), which some odd batches do not move. Where
batches are too much alike to tell, the price falls a little with each, so that rows grow until they
differ; what is left over is the fixed price's.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headgate.sites.tuning import PriceTuning

__all__ = ["RowCost"]


class RowCost:
    """Seconds = a + b x rows.

    >>> cost = RowCost()
    >>> for rows in (100, 400, 200, 800):
    ...     cost.add(rows, 2.0 + 0.001 * rows)
    >>> round(cost.per_row_s, 6), round(cost.fixed_s, 3), round(cost.rows_within(3.0))
    (0.001, 2.0, 1000)
    """

    def __init__(self, tuning: PriceTuning | None = None) -> None:
        self._tuning = tuning or PriceTuning()
        self._seen: deque[tuple[float, float]] = deque(maxlen=self._tuning.batches)
        self._bound = math.inf
        #: Batches with rows, cold ones too, that bound the price.
        self._bounds: deque[tuple[float, float]] = deque(maxlen=self._tuning.batches)
        self._per_row = 0.0
        self._fixed = 0.0
        self._told = False

    def add(self, rows: float, seconds: float, cold: bool = False) -> None:
        """Learn from a batch; one of a run's first (`cold`) only says what rows cost at most."""
        if rows > 0 and seconds > 0.0:
            first = not self.known
            self._bounds.append((rows, seconds))
            least, second = _two_least(self._bounds)
            # The second least, once there are some: one report that lacks most of its time says nothing.
            if len(self._bounds) < self._tuning.pairs:
                self._bound = min(self._bound * self._tuning.growth, _ratio(least))
            elif len(self._bounds) == self._tuning.pairs and self._is_odd(least):
                self._bound = _ratio(second)  # what was believed while there was nothing else
            else:
                self._bound = min(self._bound * self._tuning.growth, _ratio(second))
            if first:
                self._per_row = self._tuning.first * self._bound
        if not cold or not self.known:
            self._seen.append((rows, seconds))
            self._learn()
        self._per_row = min(self._per_row, self._bound)
        self._fixed = self._rest() if self._seen else max(0.0, seconds - self._per_row * rows)

    def _is_odd(self, batch: tuple[float, float]) -> bool:
        """Whether another batch with no more rows took several times as long: this one lacks time."""
        rows, seconds = batch
        tuning = self._tuning
        return any(y > tuning.odd * seconds for x, y in self._bounds if x <= tuning.apart * rows)

    def _learn(self) -> None:
        # With the rows that another batch must have at least to be told apart from this one.
        points = [(x, y, self._tuning.apart * max(x, 1.0)) for x, y in self._seen]
        slopes = [
            (y - v) / (x - u)
            for i, (x, y, more) in enumerate(points)
            for u, v, more_than_u in points[:i]
            if x >= more_than_u or u >= more
        ]
        self._told = len(slopes) >= self._tuning.pairs
        least = self._tuning.least * self._bound
        if not self._told and self.known:
            # Batches are too much alike to tell. A price that falls lets rows grow until they do: with
            # one that stays, a stream that began with few rows and dear batches keeps few for good.
            self._per_row = max(least, self._per_row / self._tuning.growth)
        if self._told:
            answer = min(max(statistics.median(slopes), least), self._bound)
            # Early answers are all there is; later ones move it by and by.
            step = 1.0 if len(points) <= 4 else self._tuning.step
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
        """The part of `fixed_s` that is proved: 0 while batches tell no slope."""
        return self._fixed if self._told else 0.0

    @property
    def per_row_s(self) -> float:
        """Seconds for each row kept."""
        return self._per_row

    @property
    def blamed_s(self) -> float:
        """The most that a row can cost: its share of a whole batch, while batches tell no slope."""
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
        self._seen = self._points(value["seen"])
        self._bounds = self._points(value["bounds"])
        self._told = bool(value["told"])

    def _points(self, value: Iterable[Sequence[float]]) -> deque[tuple[float, float]]:
        return deque(((float(x), float(y)) for x, y in value), maxlen=self._tuning.batches)


def _ratio(batch: tuple[float, float]) -> float:
    return batch[1] / batch[0]


def _two_least(
    batches: Iterable[tuple[float, float]],
) -> tuple[tuple[float, float], tuple[float, float]]:
    ordered = sorted(batches, key=_ratio)
    return ordered[0], ordered[min(1, len(ordered) - 1)]
