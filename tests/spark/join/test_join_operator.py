"""The stateful operator without a JVM: what packing tasks told comes back in the batch's report."""

from __future__ import annotations

import base64
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from headgate.core.plan import Plan
from headgate.core.plan_parts import RowDraw, WorkLimit
from headgate.spark.join.left_out.drawing import DrawnTask, RowDrawer
from headgate.spark.join.left_out.rows_seen import RowsSeen, draw_of
from headgate.spark.join.meter import ITEMS_REPORT, ROWS_REPORT, SHARD_REPORT, WINDOW_REPORT, _report
from headgate.spark.join.operator import JoinOperator
from headgate.spark.join.pack import HASH, KEY, TIME, Grid, Packer
from headgate.spark.join.terms import JoinTerms
from headgate.spark.join.work import JoinWork
from tests.spark.join.left_out.test_rows_left_out import CONDITION, _batch

NAMES = (TIME, HASH, KEY, "id")
GRID = Grid.of(2, False)


class Value:
    """A value of Spark's state."""

    def __init__(self) -> None:
        self.held: Any = None

    def get(self) -> Any:
        return self.held

    def update(self, value: Any) -> None:
        self.held = value


class Map(dict[Any, Any]):
    """A map of Spark's state."""

    getValue = dict.__getitem__
    updateValue = dict.__setitem__
    removeKey = dict.__delitem__


class Handle:
    """What Spark hands to an operator, of one shard."""

    def __init__(self) -> None:
        self.states: dict[str, Any] = {}

    def getValueState(self, name: str, _: str) -> Value:
        return self.states.setdefault(name, Value())

    def getMapState(self, name: str, *_: str) -> Map:
        return self.states.setdefault(name, Map())


class NoWatermark:
    def getCurrentWatermarkInMs(self) -> int:
        return 0


def _packed(batch: pa.RecordBatch, side: int, draw: RowDraw) -> list[dict[str, Any]]:
    class Here(RowDrawer):
        def of_task(self) -> DrawnTask:
            return DrawnTask(self, draw)

    drawer = Here(None, CONDITION, side, 5)
    packer = Packer(side, GRID, NAMES, batch.schema, (0, 1), drawer)
    plain = batch.rename_columns([f"c{i}" for i in range(len(NAMES))])
    return [row for out in packer([plain]) for row in out.to_pylist()]


def _progress(rows: list[pd.DataFrame]) -> Any:
    """What `observe` would gather."""
    found = pd.concat(rows)

    def of(what: int) -> pd.DataFrame:
        return found[found["what"] == what]

    numbered = {
        name: [[float(b), *n] for b, n in zip(of(what)["bucket"], of(what)["numbers"], strict=True)]
        for name, what in (("windows", WINDOW_REPORT), ("rows", ROWS_REPORT))
    }
    items = [base64.b64encode(p).decode() for p in of(ITEMS_REPORT)["payload"]]
    values = {"shards": list(of(SHARD_REPORT)["numbers"]), "items": items, **numbered}
    progress = {"id": "q", "batchId": 1, "timestamp": "2026-01-01T00:00:00.000Z"}
    return _report({**progress, "durationMs": {"triggerExecution": 900}}, values)


def test_rows_arrived_kept_and_left_out_add_up_over_shards():
    plan = Plan(1.0, work=WorkLimit(1e12, 100.0), rows=RowDraw(0.5))
    terms = JoinTerms(CONDITION, (2000, 2000), 500, seed=5, shards=2)
    operators = []
    for _ in range(2):
        operator = JoinOperator(JoinWork(terms), GRID, None, plan, "pairs")
        operator.init(Handle())  # type: ignore[arg-type]
        operators.append(operator)
    seen, draw = RowsSeen((GRID.copies(0), GRID.copies(1))), RowDraw(0.5)
    for number in range(4):
        rows = [
            row
            for side in (0, 1)
            for row in _packed(_batch(300, 20 + number, 1000 * number, side), side, draw)
        ]
        out: list[pd.DataFrame] = []
        for shard, operator in enumerate(operators):
            frame = pd.DataFrame([row for row in rows if row["place"] == shard])
            out += operator.handleInputRows((shard,), iter([frame]), NoWatermark())  # type: ignore[arg-type]
        report = _progress(out)
        assert report.spent.arrived_rows == 600
        assert report.spent.kept_rows == sum(told.kept for told in report.told.values())
        assert report.spent.kept_rows == pytest.approx(300, abs=70)
        assert report.sample.arrived > report.sample.kept, "the full join of all rows, and of those kept"
        assert report.sums["left_out"] > 0.0
        share, error = report.share
        assert share == pytest.approx(0.25 if number < 2 else share, abs=0.15)
        assert error > 0.0
        sums = report.sums
        seen.learn(
            report.told,
            report.items,
            (sums["probed_left"], sums["probed_right"]),
            (sums["left"], sums["right"]),
        )
        draw = draw_of(seen.classes, seen.items, 0.5)
    assert draw.chances, "after some batches rows are told apart"
    assert share > 0.4, "and more of their pairs are found"
