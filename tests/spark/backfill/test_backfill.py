"""Shed now, process later: the shed rows, each exactly once, from the source itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

import headgate as hg
from headgate.core.plan import KEEP_ALL
from headgate.spark.backfill.offsets import BatchOffsets
from headgate.spark.gate.pin.plan_source import PlanReader
from headgate.spark.gate.shape import GateShape
from headgate.spark.loop.loop import ControlLoop
from headgate.store.folder import write_json
from headgate.store.gate_files.begun import noted_batches
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import queries_of
from headgate.store.plans import PinnedPlan, PlanStore
from tests.spark.conftest import FileStream, records

N = 1500
SCHEMA = "id bigint, route string, fare double"


def _rows(start: int) -> list[dict[str, object]]:
    return [{"id": i, "route": f"r{i % 5}", "fare": 1.0} for i in range(start, start + N)]


@pytest.fixture(scope="module")
def shed_once(spark, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[int]]:
    """A query that has run: the folder with its files, checkpoint and control folder; the kept rows."""
    folder = tmp_path_factory.mktemp("shed")
    stream = FileStream(spark, folder / "in", SCHEMA)
    for batch in range(12):  # past the file log's first compaction
        stream.add(_rows(batch * N))
    gate = hg.gate("b", rate=0.3, keep="route = 'r0'", control=folder / "control")
    kept: set[int] = set()

    def take(frame: DataFrame, batch: int) -> None:
        kept.update(row.id for row in frame.select("id").collect())

    writer = stream.frame().where("fare > 0").transform(gate).writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    ControlLoop.of(spark).drain()
    return folder, kept


@pytest.fixture
def shed_stream(spark, shed_once: tuple[Path, set[int]], control: Path, tmp_path: Path):
    """What it left, as this test's own; the source's files are where they were."""
    folder, kept = shed_once
    shutil.copytree(folder / "control", control)
    shutil.copytree(folder / "checkpoint", tmp_path / "checkpoint")
    load = lambda paths: spark.read.schema(SCHEMA).json(paths)  # noqa: E731
    reader = hg.file_rows(load, tmp_path / "checkpoint", prepare=lambda f: f.where("fare > 0"))
    return set(kept), reader


@pytest.mark.matrix
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
    location = f"file://{tmp_path}/checkpoint"  # as Spark takes it
    (record,) = hg.recount(spark, "b", control, reader, checkpoint=location)
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


def _only_query(control: Path) -> Path:
    (query,) = queries_of(control, "b")
    return control / "gates" / "b" / "queries" / query


def _lose(control: Path, *batches: int) -> None:
    """As if a kill had swallowed these batches' reports."""
    path = _only_query(control) / "ledger" / "00000000.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(x for x in lines if json.loads(x)["batch"] not in batches))


def test_unsettled_batches_are_not_left_out_without_a_word(
    spark, shed_stream, control: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, reader = shed_stream
    _lose(control, 5)
    with pytest.raises(hg.NotAsRecorded, match="batch 5 has no record; recount settles it") as refused:
        hg.backfill(spark, "b", control, reader)
    assert list(refused.value.batches) == [5]
    some = hg.backfill(spark, "b", control, reader, on_mismatch="skip")
    assert 5 not in {row["_batch"] for row in some.select("_batch").distinct().collect()}
    assert "left batches out: batch 5" in caplog.text
    assert hg.backfill(spark, "b", control, reader, batches=[4, 6]).count() > 0


def test_recount_knows_old_batches_from_the_records_beside_them(
    spark, shed_stream, control: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark keeps the offsets of a hundred batches; the ledger has the others'."""
    _, reader = shed_stream
    before = {r.batch: r for r in records(control, "b")}
    _lose(control, 2, 4, 5, 8)
    for batch in range(7):
        (tmp_path / "checkpoint" / "offsets" / str(batch)).unlink()
        (tmp_path / "checkpoint" / "commits" / str(batch)).unlink()
    settled = hg.recount(spark, "b", control, reader, checkpoint=tmp_path / "checkpoint")
    assert [r.batch for r in settled] == [2, 8]
    for record in settled:
        then = before[record.batch]
        assert (record.arrived, record.kept, record.evidence.fingerprint) == (
            then.arrived, then.kept, then.evidence.fingerprint,
        )  # fmt: skip
        assert record.evidence.repaired
    assert "batch 4 cannot be settled" in caplog.text
    assert "batch 5 cannot be settled" in caplog.text
    assert audit(control)[0].unsettled == [4, 5], "and verify goes on naming them"


def test_recount_settles_what_it_can_where_the_source_lost_another_batch(
    spark, shed_stream, control: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, reader = shed_stream
    _lose(control, 3, 8)

    def lost(offsets: BatchOffsets) -> DataFrame:
        if offsets.batch == 3:
            return spark.read.schema(SCHEMA).json(str(tmp_path / "gone"))
        return reader(offsets)

    (settled,) = hg.recount(spark, "b", control, lost, checkpoint=tmp_path / "checkpoint")
    assert settled.batch == 8
    assert settled.started_at > 0.0, "when its plan was pinned"
    assert "batch 3 cannot be settled" in caplog.text
    assert audit(control)[0].unsettled == [3]


def test_a_driver_that_starts_notes_what_killed_ones_left(
    spark, shed_once: tuple[Path, set[int]], shed_stream, control: Path, tmp_path: Path
) -> None:
    """Two batches side by side have no record; they are settled though Spark has forgotten them."""
    _, reader = shed_stream
    before = {r.batch: r for r in records(control, "b")}
    _lose(control, 4, 5)
    gate = hg.gate("b", rate=0.3, keep="route = 'r0'", control=control)
    again = FileStream(spark, shed_once[0] / "in", SCHEMA).frame().where("fare > 0").transform(gate)
    writer = again.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    ControlLoop.of(spark).drain()
    assert noted_batches(_only_query(control)) == {4, 5}
    for batch in range(7):
        (tmp_path / "checkpoint" / "offsets" / str(batch)).unlink()
    settled = hg.recount(spark, "b", control, reader, checkpoint=tmp_path / "checkpoint")
    assert [(r.batch, r.arrived, r.kept) for r in settled] == [
        (batch, before[batch].arrived, before[batch].kept) for batch in (4, 5)
    ]
    assert audit(control)[0].complete
    assert noted_batches(_only_query(control)) == set()


PLANTED = "java_method('java.lang.System', 'setProperty', 'headgate.planted', 'yes') is null"


def _planted(spark) -> object:
    return spark._jvm.java.lang.System.getProperty("headgate.planted")


def test_a_predicate_planted_in_the_control_folder_is_not_run(spark, shed_stream, control: Path) -> None:
    _, reader = shed_stream
    record = records(control, "b")[0]
    path = control / "gates" / "b" / "shapes" / f"{record.shape}.json"
    value = json.loads(path.read_text())
    path.write_text(json.dumps({**value, "classes": [PLANTED]}))
    with pytest.raises(hg.SnapshotError, match="somebody changed it"):
        hg.backfill(spark, "b", control, reader)
    # Whoever can write the folder can write a digest, too.
    shape = GateShape(tuple(value["identity"]), value["seed"], classes=(PLANTED,))
    shape.save(control, "b")
    ledger = _only_query(control) / "ledger" / "00000000.jsonl"
    ledger.write_text(ledger.read_text().replace(record.shape, shape.digest))
    with pytest.raises(hg.BadArgument, match="it calls java_method"):
        hg.backfill(spark, "b", control, reader)
    with pytest.raises(hg.BadArgument, match="give the predicates that the gate had"):
        hg.backfill(spark, "b", control, reader, keep="route = 'r0'")
    assert _planted(spark) is None


def test_what_depended_on_packing_is_refused(
    spark, file_stream, run_all, control: Path, tmp_path: Path
) -> None:
    stream = file_stream(SCHEMA)
    stream.add(_rows(0))
    policy = hg.ConceptDriven(by="route", counts="partition")
    run_all(stream.frame().transform(hg.gate("p", rate=0.3, policy=policy, control=control)))
    reader = hg.file_rows(lambda paths: spark.read.schema(SCHEMA).json(paths), tmp_path / "checkpoint")
    with pytest.raises(hg.BadArgument, match="counts='partition'"):
        hg.backfill(spark, "p", control, reader)


@pytest.mark.matrix
def test_rows_drawn_by_their_groups_are_compared_too(
    spark, file_stream, run_all, control: Path, tmp_path: Path
) -> None:
    stream = file_stream(SCHEMA)
    stream.add(_rows(0))
    policy = hg.ConceptDriven(by="route")
    kept = run_all(stream.frame().transform(hg.gate("d", rate=0.3, policy=policy, control=control)))
    (record,) = records(control, "d")
    assert record.evidence.fingerprint
    reader = hg.file_rows(lambda paths: spark.read.schema(SCHEMA).json(paths), tmp_path / "checkpoint")
    shed = hg.backfill(spark, "d", control, reader).collect()
    assert sorted([r.id for r in kept] + [r.id for r in shed]) == list(range(N))


def test_a_folder_of_the_same_name_that_is_another_one_is_noticed(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    write_json(here / ".trial-1", {"trial": ".trial-1"})
    assert PlanReader._trial(here, ".trial-1").keeps_everything
    with pytest.raises(OSError, match="another one here than on the driver"):
        PlanReader._trial(there, ".trial-1")
