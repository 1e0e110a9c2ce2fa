"""Shed now, process later: the shed rows, each exactly once, from the source itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import headgate as hg
from headgate.plan import KEEP_ALL
from headgate.spark.loop import ControlLoop
from headgate.store.audit import audit
from headgate.store.ledger import queries_of
from headgate.store.plans import PinnedPlan, PlanStore
from tests.spark.conftest import records

N = 1500
SCHEMA = "id bigint, route string, fare double"


def _rows(start: int) -> list[dict[str, object]]:
    return [{"id": i, "route": f"r{i % 5}", "fare": 1.0} for i in range(start, start + N)]


@pytest.fixture
def shed_stream(spark, file_stream, run_all, control: Path, tmp_path: Path):
    stream = file_stream(SCHEMA)
    for batch in range(12):  # past the file log's first compaction
        stream.add(_rows(batch * N))
    frame = stream.frame().where("fare > 0")
    kept = run_all(frame.transform(hg.gate("b", rate=0.3, keep="route = 'r0'", control=control)))
    load = lambda paths: spark.read.schema(SCHEMA).json(paths)  # noqa: E731
    reader = hg.file_rows(load, tmp_path / "checkpoint", prepare=lambda f: f.where("fare > 0"))
    return {row["id"] for row in kept}, reader


def test_backfill_gives_exactly_the_shed_rows(spark, shed_stream, control: Path) -> None:
    kept, reader = shed_stream
    shed = hg.backfill(spark, "b", control, reader).collect()
    ids = [row["id"] for row in shed]
    assert len(ids) == len(set(ids)), "each once"
    assert set(ids) | kept == set(range(12 * N))
    assert not set(ids) & kept
    by_batch = {r.batch: r.shed for r in records(control, "b")}
    assert by_batch == {b: sum(row["_batch"] == b for row in shed) for b in by_batch}


def test_backfill_of_some_batches(spark, shed_stream, control: Path) -> None:
    _, reader = shed_stream
    some = hg.backfill(spark, "b", control, reader, batches=[3, 4])
    expected = sum(r.shed for r in records(control, "b") if r.batch in (3, 4))
    assert some.count() == expected
    with pytest.raises(hg.BadArgument, match="not in the ledger"):
        hg.backfill(spark, "b", control, reader, batches=[99])
    with pytest.raises(hg.BadArgument, match="no gate"):
        hg.backfill(spark, "other", control, reader, query="x")


def test_a_gate_changed_since_backfills_what_it_shed_then(
    spark, file_stream, control: Path, tmp_path: Path
) -> None:
    stream = file_stream(SCHEMA)
    gates = [
        hg.gate("c", rate=0.3, identity="id", control=control),
        hg.gate("c", rate=0.3, identity=["id", "route"], seed=5, control=control),
    ]
    for turn, changed in enumerate(gates):
        stream.add(_rows(turn * N))
        writer = stream.frame().transform(changed).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(str(tmp_path / "kept")).awaitTermination()
        ControlLoop.of(spark).drain()
    kept = [row["id"] for row in spark.read.parquet(str(tmp_path / "kept")).collect()]
    reader = hg.file_rows(lambda paths: spark.read.schema(SCHEMA).json(paths), tmp_path / "checkpoint")
    shed = [row["id"] for row in hg.backfill(spark, "c", control, reader).collect()]
    assert sorted([*shed, *kept]) == list(range(2 * N))


@pytest.mark.parametrize(("lost", "later"), [(5, True), (11, False)])
def test_recount_settles_a_batch_whose_report_was_lost(
    spark, shed_stream, control: Path, tmp_path: Path, lost: int, later: bool
) -> None:
    _, reader = shed_stream
    before = records(control, "b")[lost]
    (query,) = queries_of(control, "b")
    path = control / "gates" / "b" / "queries" / query / "ledger" / "00000000.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:lost] + lines[lost + 1 :]))
    found = audit(control)[0]
    assert (found.unsettled if later else found.begun) == [lost]
    (record,) = hg.recount(spark, "b", control, reader, checkpoint=tmp_path / "checkpoint")
    assert (record.arrived, record.kept, record.shed) == (before.arrived, before.kept, before.shed)
    assert audit(control)[0].complete
    assert audit(control)[0].begun == []


def test_recount_leaves_a_batch_that_did_not_commit(
    spark, shed_stream, control: Path, tmp_path: Path
) -> None:
    _, reader = shed_stream
    (query,) = queries_of(control, "b")
    PlanStore(control, "b", query).pin(12, PinnedPlan(KEEP_ALL, "fail-open"))
    assert audit(control)[0].begun == [12]
    assert hg.recount(spark, "b", control, reader, checkpoint=tmp_path / "checkpoint") == []
    with pytest.raises(hg.BadArgument, match="no commits"):
        hg.recount(spark, "b", control, reader, checkpoint=tmp_path)
