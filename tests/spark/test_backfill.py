"""Shed now, process later: the shed rows, each exactly once, from the source itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import headgate as hg
from headgate.store.audit import audit
from headgate.store.ledger import queries_of
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


def test_recount_settles_a_batch_whose_report_was_lost(
    spark, shed_stream, control: Path, tmp_path: Path
) -> None:
    _, reader = shed_stream
    before = records(control, "b")
    (query,) = queries_of(control, "b")
    path = control / "gates" / "b" / "queries" / query / "ledger" / "00000000.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:5] + lines[6:]))
    assert audit(control)[0].unsettled == [5]
    (record,) = hg.recount(spark, "b", control, reader, checkpoint=tmp_path / "checkpoint")
    lost = before[5]
    assert (record.arrived, record.kept, record.shed) == (lost.arrived, lost.kept, lost.shed)
    assert audit(control)[0].complete
