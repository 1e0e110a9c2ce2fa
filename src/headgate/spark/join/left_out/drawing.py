"""Rows that a join takes in, drawn where they are packed; and what the task tells of those that came.

Packing is the first Python step, and a row that is left out here has cost its transfer and a score: it
is neither packed, shuffled nor stored. What decides is the pinned plan and the row alone, so a batch
that runs again keeps the same rows, however it is split into tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headgate.core.plan_parts import RowDraw
from headgate.joins.arrays import Floats
from headgate.joins.conditions import Condition
from headgate.joins.row_draw.chances import drawn
from headgate.joins.row_draw.scores import CLASSES, RowScores, classes_of
from headgate.spark.dropped.writing import DroppedRows
from headgate.spark.gate.pin.task_plan import TaskPlan, batch_of_task
from headgate.spark.join.block import rows_of
from headgate.spark.join.pack import CHANCE, COIN, HASH, OWN

__all__ = ["DrawnTask", "RowDrawer", "RowsTold"]


@dataclass(frozen=True, eq=False)
class RowsTold:
    """Of one side's rows: how many came and were kept, what they were expected to match, by class."""

    arrived: float = 0.0
    kept: float = 0.0
    #: Sums of what rows were expected to find, and of what was expected to find them.
    met: float = 0.0
    ahead: float = 0.0
    classes: Floats = field(default_factory=lambda: np.zeros(CLASSES))

    def __add__(self, other: RowsTold) -> RowsTold:
        return RowsTold.from_numbers(
            [a + b for a, b in zip(self.numbers(), other.numbers(), strict=True)]
        )

    def numbers(self) -> list[float]:
        """As the operator reports it."""
        return [self.arrived, self.kept, self.met, self.ahead, *map(float, self.classes)]

    @classmethod
    def from_numbers(cls, numbers: Iterable[float]) -> RowsTold:
        """What `numbers` gave."""
        arrived, kept, met, ahead, *classes = (float(number) for number in numbers)
        return cls(arrived, kept, met, ahead, np.array(classes))

    def to_bytes(self) -> bytes:
        """As it travels from the task that packed to the operator."""
        return np.array(self.numbers(), "<f8").tobytes()

    @classmethod
    def from_bytes(cls, value: bytes) -> RowsTold:
        """What `to_bytes` wrote."""
        return cls.from_numbers(np.frombuffer(value, "<f8").tolist())


@dataclass(frozen=True)
class RowDrawer:
    """What a packing task of one side needs to leave rows out."""

    #: None where the caller has the plan itself.
    plans: TaskPlan | None
    condition: Condition
    side: int
    seed: int
    #: The folder where rows go that are left out (`headgate.spark.dropped`); None where they only count.
    dropped: str | None = None

    def of_task(self) -> DrawnTask | None:
        """This task's draw; None outside a stream, and where the batch's plan takes every row."""
        here = batch_of_task()
        draw = None if here is None or self.plans is None else self.plans.of(*here).rows
        return None if draw is None else DrawnTask(self, draw)


class DrawnTask:
    """The draw of one task, and what it has seen (`seen`)."""

    def __init__(self, drawer: RowDrawer, draw: RowDraw) -> None:
        self._drawer, self._draw = drawer, draw
        self._scores = None if draw.items is None else RowScores.from_text(draw.items)
        self.seen = RowsTold()
        side = ("left", "right")[drawer.side]
        self._dropped = None if drawer.dropped is None else DroppedRows(drawer.dropped, side)

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are taken in, with the chance that each of them had."""
        odds = self._odds(batch)
        coin = batch.column(COIN if COIN in batch.schema.names else HASH).to_numpy()
        kept = drawn(coin, odds, self._drawer.seed, self._drawer.side)
        found = batch.append_column(CHANCE, pa.array(odds)).filter(pa.array(kept))
        self.seen += RowsTold(kept=float(found.num_rows))
        if self._dropped is not None:
            left_out = batch.filter(pa.array(~kept))
            own = [name for name in left_out.schema.names if name in OWN]
            self._dropped.add(left_out.drop_columns(own), ["left_out"] * left_out.num_rows)
        return found

    def files(self) -> list[str]:
        """The names of the files with the rows that were left out."""
        return [] if self._dropped is None else self._dropped.close()

    def _odds(self, batch: pa.RecordBatch) -> Floats:
        rows = float(batch.num_rows)
        if self._scores is None:
            self.seen += RowsTold(arrived=rows)
            return np.full(batch.num_rows, self._draw.share)
        side = self._drawer.side
        met, ahead = self._scores.expected(
            self._drawer.condition, rows_of(self._drawer.condition, batch, side), side
        )
        classes = classes_of(met + ahead)
        counts = np.bincount(classes, minlength=CLASSES).astype(np.float64)
        self.seen += RowsTold(rows, 0.0, float(met.sum()), float(ahead.sum()), counts)
        if not self._draw.chances:
            return np.full(batch.num_rows, self._draw.share)
        return np.asarray(self._draw.chances)[classes]

    def told(self) -> bytes | None:
        """What goes to the operator; None if no row came."""
        return self.seen.to_bytes() if self.seen.arrived else None
