"""The plan of a join's batch, made by whoever pins it from what the loop offered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.control.allowance import WorkBudget
from headgate.core.batch_size import BatchSize, Sizing
from headgate.core.plan import Plan
from headgate.core.row_budget import RowBudget
from headgate.errors import SnapshotError
from headgate.joins.row_draw.scores import CLASSES, RowScores
from headgate.spark.gate.pin.resolver import SizedBatches
from headgate.spark.join.left_out.offer import JoinOffer, JoinResolver, both_sources
from tests.spark.join.test_join_run import _report, _run

ROWS = RowBudget(1.6, 0.6, 1e-5, 5e-7, whole=100_000)
WORK = WorkBudget(1.84, 0.2, usual_s=1.0, late=1.1, seconds_per_comparison=1e-9, result_units=200.0)
CLASSED = [1.0 / CLASSES] * CLASSES


def test_rows_and_comparisons_follow_from_the_size():
    offer = JoinOffer(ROWS, WORK, Sizing(), CLASSED, RowScores().to_text())
    small, large = offer.plan(20_000), offer.plan(400_000)
    assert small.rows is None
    assert small.work is not None
    assert small.work.units == pytest.approx((1.84 - 1.1 * 0.81) / 1e-9)
    assert large.rows is not None
    assert large.rows.share == pytest.approx((1.6 - 0.6 - 0.2) / 1e-5 / 400_000)
    assert len(large.rows.chances) == CLASSES
    assert large.work is not None
    assert large.work.units == pytest.approx(0.2 / 1e-9)
    assert not large.keeps_everything
    assert Plan.from_json(json.loads(json.dumps(large.to_json()))) == large
    assert large.digest != small.digest


def test_an_offer_goes_through_json_and_a_broken_one_is_refused():
    offer = JoinOffer(ROWS, WORK, Sizing(), CLASSED, RowScores().to_text(), most_units=5e6)
    back = JoinOffer.from_json(json.loads(json.dumps(offer.to_json())))
    assert back.plan(400_000) == offer.plan(400_000)
    assert back.plan(10).work.units == 5e6  # type: ignore[union-attr]
    with pytest.raises(SnapshotError, match="offer"):
        JoinOffer.from_json({"rows": {}})


def test_both_streams_of_a_join_are_one_size():
    kafka = (BatchSize(100.0, "offsets"), BatchSize(50.0, "offsets"))
    assert both_sources(kafka) == (BatchSize(150.0, "offsets"),)
    mixed = (BatchSize(100.0, "offsets"), BatchSize(5e6, "bytes"))
    assert both_sources(mixed) == mixed


def test_whoever_pins_reads_the_size_from_the_checkpoint(tmp_path: Path):
    checkpoint = tmp_path / "cp"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"query"}')
    head = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n'
    for batch, (left, right) in enumerate(((0, 0), (300_000, 100_000))):
        (checkpoint / "offsets" / str(batch)).write_text(
            head + f'{{"a":{{"0":{left}}}}}\n{{"b":{{"0":{right}}}}}'
        )
    resolver = SizedBatches.from_text(JoinResolver(checkpoint=str(checkpoint)).to_text())
    offer = JoinOffer(ROWS, WORK, Sizing())
    found = resolver.resolve({"offer": offer.to_json()}, tmp_path, "query", 1)
    assert found.expected is not None
    assert found.expected.rows == 400_000
    assert found.plan == offer.plan(400_000)
    assert resolver.resolve({}, tmp_path, "query", 1).plan is None


def test_rows_that_were_left_out_are_in_the_record_and_not_learned_as_kept(tmp_path: Path):
    run = _run(tmp_path)
    record = run.handle(_report(0, 1000, 400, left=30.0, right=20.0, shed_left=10.0, shed_right=5.0))
    assert record is not None
    assert "15 of" in record.why
    assert record.found.measures["rows_shed"] == 15.0
