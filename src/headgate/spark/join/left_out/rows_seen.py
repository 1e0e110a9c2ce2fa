"""The driver's side of leaving rows out: what rows were like, and so the chances of those to come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from headgate.core.plan_parts import RowDraw
from headgate.joins.row_draw.chances import ROW_DRAW, RowDrawConfig, chances
from headgate.joins.row_draw.scores import CLASSES, Part, RowScores
from headgate.spark.join.left_out.drawing import RowsTold
from headgate.spark.join.left_out.items_told import ItemsTold

__all__ = ["RowsSeen", "draw_of"]


def draw_of(
    classes: Sequence[float] | None,
    items: str | None,
    share: float,
    config: RowDrawConfig = ROW_DRAW,
) -> RowDraw:
    """Which rows to keep so that a share of them is, by how rows lay in classes lately."""
    found = () if classes is None or items is None else chances(classes, share, config)
    return RowDraw(share, found, items)


class RowsSeen:
    """Gathers what shards and packing tasks tell; answers with what rows are drawn by."""

    def __init__(self, copies: tuple[int, int], config: RowDrawConfig = ROW_DRAW) -> None:
        self._copies, self._config = copies, config
        self._classes = np.zeros(CLASSES)
        #: By side: the weight that rows to come had in the scores of the last batch, and those waiting.
        self._ahead, self._met = [0.0, 0.0], [1.0, 1.0]
        self.items: str | None = None

    @property
    def classes(self) -> list[float] | None:
        """Rows by class, lately; None while no batch has shown any."""
        total = float(self._classes.sum())
        return [round(float(c) / total, 7) for c in self._classes] if total > 0.0 else None

    def learn(
        self,
        told: Mapping[int, RowsTold],
        items: Sequence[ItemsTold],
        probed: tuple[float, float],
        rows: tuple[float, float],
    ) -> None:
        """After a batch: rows by side, items of all shards, pairs by the probing side, rows by side."""
        if told:
            now = np.sum([side.classes for side in told.values()], axis=0)
            self._classes = self._config.memory * self._classes + now
        if not items:
            return
        shares = ItemsTold.together(items, self._copies).shares
        sides = []
        for side in (0, 1):
            other = [s for (of, age), s in shares.items() if of != side and age is not None]
            parts = [Part(s.rows, s) for s in other]
            own = shares.get((side, None))
            if own is not None and own.rows > 0:
                self._ahead[side] = self._weight(
                    side, told.get(side), probed, sum(s.rows for s in other)
                )
                parts.append(Part(self._ahead[side], own, ahead=True))
            sides.append(tuple(parts))
        pairs = max(1.0, sum(probed))
        flat = pairs / max(1.0, rows[0]), pairs / max(1.0, rows[1])
        scores = RowScores((sides[0], sides[1]), flat).scaled()
        for side, scored in enumerate(scores.parts):
            self._ahead[side] = sum(part.weight for part in scored if part.ahead)
            self._met[side] = max(1e-9, sum(part.weight for part in scored if not part.ahead))
        self.items = scores.to_text()

    def _weight(
        self, side: int, told: RowsTold | None, probed: tuple[float, float], waiting: float
    ) -> float:
        """How many rows like its own a row of this side is still to meet.

        So many that, on average over the rows of the last batch, expected matches ahead are to those at
        once as pairs in which rows of this side were waiting are to those in which they were probing.
        """
        if told is None or told.met <= 0.0 or told.ahead <= 0.0 or self._ahead[side] <= 0.0:
            return max(1.0, waiting)
        probing, waited = max(probed[side], 1.0), max(probed[1 - side], 1.0)
        most = self._config.most_ahead
        ratio = min(most, max(1.0 / most, waited / probing))
        at_once = told.met / self._met[side]  # by a row that waits
        ahead = told.ahead / self._ahead[side]
        return max(1e-6, ratio * waiting * at_once / ahead)
