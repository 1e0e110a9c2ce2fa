"""Rows left out in front of a join: the same ones again, by expected matches, and honestly estimated."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from headgate.core.plan import KEEP_ALL, Plan
from headgate.core.plan_parts import RowDraw, WorkLimit
from headgate.joins.conditions import overlap
from headgate.joins.row_draw.scores import CLASSES
from headgate.spark.join.left_out.drawing import DrawnTask, RowDrawer, RowsTold
from headgate.spark.join.left_out.items_told import ItemsTold
from headgate.spark.join.left_out.rows_seen import RowsSeen, draw_of
from headgate.spark.join.pack import CHANCE, HASH, KEY, ROWS_TOLD, TIME, Grid, Packer, packed, unpacked
from headgate.spark.join.terms import JoinTerms
from headgate.spark.join.work import NO_WATERMARK, JoinWork
from tests.spark.join.test_join_work import Memory

CONDITION = overlap("items", at_least=2)


def _batch(rows: int, seed: int, first: int = 0, side: int = 0, span: int = 1000) -> pa.RecordBatch:
    """Rows with sets of popular and of rare items."""
    random = np.random.default_rng([seed, side])
    items = np.floor(60 * random.random((rows, 4)) ** 3).astype(np.int64)
    return pa.RecordBatch.from_pydict(
        {
            TIME: pa.array(first + np.sort(random.integers(0, span, rows))),
            HASH: pa.array(random.integers(0, 1 << 62, rows)),
            KEY: pa.array([sorted(set(row)) for row in items.tolist()], pa.list_(pa.int64())),
            "id": pa.array(np.arange(rows)),
        }
    )


def _drawn(batch: pa.RecordBatch, draw: RowDraw, side: int, seed: int) -> pa.RecordBatch:
    task = DrawnTask(RowDrawer(None, CONDITION, side, seed), draw)
    return task.kept(batch)


def _draw_that_scores(share: float, seed: int = 1) -> RowDraw:
    """What a join that has seen two batches draws by."""
    work = JoinWork(JoinTerms(CONDITION, (2000, 2000), 500, seed=1))
    memory, seen, told = Memory(work), RowsSeen((1, 1)), {}
    for number in range(2):
        sides = [_batch(400, 50 + number, 1000 * number, side) for side in (0, 1)]
        plan = Plan(1.0, work=WorkLimit(1e12))
        done = memory.batch([(s, packed(b)) for s, b in enumerate(sides)], plan=plan, number=number)
        assert done.items is not None
        if seen.items is not None:
            for side in (0, 1):
                task = DrawnTask(RowDrawer(None, CONDITION, side, seed), RowDraw(1.0, (), seen.items))
                task.kept(sides[side])
                told[side] = task.seen
        items = [ItemsTold.from_bytes(done.items.to_bytes())]
        seen.learn(told, items, (done.probed[0], done.probed[1]), (400.0, 400.0))
    return draw_of(seen.classes, seen.items, share)


def _full(batches: list[list[pa.RecordBatch]]) -> float:
    memory = Memory(JoinWork(JoinTerms(CONDITION, (2000, 2000), 500, seed=1)))
    return sum(
        memory.batch([(s, packed(b)) for s, b in enumerate(sides)], number=n).total("found")
        for n, sides in enumerate(batches)
    )


@pytest.mark.parametrize(
    ("by_score", "work"),
    [
        (False, None),
        (True, 60_000.0),
        pytest.param(False, 60_000.0, marks=pytest.mark.long),
        pytest.param(True, None, marks=pytest.mark.long),
    ],
)
def test_the_estimate_of_all_pairs_is_unbiased_and_its_error_honest(by_score, work):
    """Drawn again and again, the mean of the estimates is the truth, and their spread what they say."""
    batches = [[_batch(300, n, 1000 * n, side) for side in (0, 1)] for n in range(2)]
    truth = _full(batches)
    draw = _draw_that_scores(0.5) if by_score else RowDraw(0.5)
    plan = KEEP_ALL if work is None else Plan(1.0, work=WorkLimit(work))
    estimates, variances = [], []
    for seed in range(120):
        memory = Memory(JoinWork(JoinTerms(CONDITION, (2000, 2000), 500, seed=seed)))
        whole = variance = 0.0
        for number, sides in enumerate(batches):
            arrived = [(s, packed(_drawn(b, draw, s, seed))) for s, b in enumerate(sides)]
            done = memory.batch(arrived, plan=plan, number=number)
            whole += sum(done.total(name) for name in ("found", "missed", "left_out"))
            variance += done.total("variance") + done.shared
        estimates.append(whole)
        variances.append(variance)
    error = np.std(estimates) / math.sqrt(len(estimates))
    assert abs(np.mean(estimates) - truth) <= 3.5 * error
    # Batches have rows in common, so a little more than what each of them says is right.
    assert 0.8 * np.std(estimates) <= math.sqrt(2.0 * np.mean(variances))
    assert math.sqrt(np.mean(variances)) <= 2.0 * np.std(estimates)


def test_rows_that_match_more_are_kept_first():
    sides = [_batch(2000, 7, 2000, side) for side in (0, 1)]
    draw = _draw_that_scores(0.3)
    assert len(draw.chances) == CLASSES

    def pairs(how: RowDraw) -> tuple[float, int]:
        memory = Memory(JoinWork(JoinTerms(CONDITION, (2000, 2000), 500, seed=3)))
        kept = [_drawn(b, how, s, 3) for s, b in enumerate(sides)]
        done = memory.batch([(s, packed(b)) for s, b in enumerate(kept)])
        return done.total("found"), sum(b.num_rows for b in kept)

    (by_score, rows), (at_random, others) = pairs(draw), pairs(RowDraw(0.3))
    assert rows == pytest.approx(1200, rel=0.15)
    assert others == pytest.approx(1200, rel=0.15)
    assert by_score > 2.5 * at_random


def test_a_batch_that_is_split_otherwise_keeps_the_same_rows():
    batch, draw = _batch(500, 9), _draw_that_scores(0.4)
    whole = _drawn(batch, draw, 0, 5).column("id").to_pylist()
    parts = [
        _drawn(batch.slice(at, 50), draw, 0, 5).column("id").to_pylist() for at in range(0, 500, 50)
    ]
    assert [row for part in parts for row in part] == whole
    other = _drawn(batch, draw, 1, 5).column("id").to_pylist()
    assert other != whole, "the same rows in the other stream have coins of their own"


def test_packing_tells_what_came_and_keeps_chances():
    names = (TIME, HASH, KEY, "id")
    batch, draw = _batch(600, 11), RowDraw(0.25)

    class Here(RowDrawer):
        def of_task(self):
            return DrawnTask(self, draw)

    drawer = Here(None, CONDITION, 1, 5)
    packer = Packer(1, Grid.of(2, False), names, batch.schema, (0, 1), drawer)
    rows = [
        row
        for out in packer([batch.rename_columns([f"c{i}" for i in range(4)])])
        for row in out.to_pylist()
    ]
    told = RowsTold.from_bytes(rows[-1]["payload"])
    assert rows[-1]["side"] == ROWS_TOLD + 1
    payloads = [unpacked(row["payload"]) for row in rows[:-1]]
    assert (told.arrived, told.kept) == (600, sum(p.num_rows for p in payloads))
    assert all(set(p.column(CHANCE).to_pylist()) == {0.25} for p in payloads)


def test_blocks_of_all_rows_and_of_drawn_ones_go_together():
    """A state that began before any row was left out, with rows that came after."""
    memory = Memory(JoinWork(JoinTerms(CONDITION, (2000, 2000), 500, seed=1)))
    first = [_batch(40, 1, 0, side) for side in (0, 1)]
    memory.batch([(s, packed(b)) for s, b in enumerate(first)])
    later = [_drawn(_batch(40, 2, 400, side), RowDraw(0.5), side, 1) for side in (0, 1)]
    done = memory.batch([(s, packed(b)) for s, b in enumerate(later)], number=1)
    assert done.total("left_out") > 0.0
    assert done.total("full") > done.wanted
    assert any(s.weight is not None and s.weight > s.n for s in memory.index.blocks)


def test_without_rows_left_out_nothing_is_estimated():
    memory = Memory(JoinWork(JoinTerms(CONDITION, (2000, 2000), 500, seed=1)))
    sides = [_batch(40, 1, 0, side) for side in (0, 1)]
    done = memory.batch([(s, packed(b)) for s, b in enumerate(sides)], NO_WATERMARK)
    assert done.total("left_out") == done.total("variance") == done.shared == 0.0
    assert done.total("full") == done.wanted
