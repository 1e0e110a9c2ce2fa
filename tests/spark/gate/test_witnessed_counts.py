"""Spark's observed counts are those of the last pass over each partition; the source knows better."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

import headgate as hg
from headgate.spark.backfill.offsets import rows_between
from headgate.spark.gate.lineage import relation_to_source
from headgate.spark.versions.passes import adds_up_passes
from headgate.store.ledger.audit import audit
from headgate.store.plans import PlanStore
from tests.spark.conftest import records

N = 2000
SCHEMA = "id bigint, route string, fare double"


def _rows(start: int = 0, n: int = N) -> list[dict[str, object]]:
    return [{"id": i, "route": f"r{i % 5}", "fare": 1.0} for i in range(start, start + n)]


def _write(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _write_and_look(frame: DataFrame, batch: int) -> None:
    _write(frame)
    frame.isEmpty()


def _write_and_take(frame: DataFrame, batch: int) -> None:
    _write(frame)
    frame.take(5)


def _write_and_look_under_a_name(frame: DataFrame, batch: int) -> None:
    """A group of one's own: what runs from now on is not in the stream's."""
    _write(frame)
    frame.sparkSession.sparkContext.setJobGroup("nightly report", "a name of one's own")
    frame.isEmpty()


def _all_under_a_name(frame: DataFrame, batch: int) -> None:
    frame.sparkSession.sparkContext.setJobGroup("nightly report", "a name of one's own")
    _write(frame)
    frame.isEmpty()


def _look_and_write_under_a_name(frame: DataFrame, batch: int) -> None:
    frame.sparkSession.sparkContext.setJobGroup("nightly report", "a name of one's own")
    frame.isEmpty()
    _write(frame)


def _write_and_look_in_a_thread(frame: DataFrame, batch: int) -> None:
    """Spark does not know what a thread of one's own works for: its jobs are in no batch."""
    _write(frame)
    thread = threading.Thread(target=frame.isEmpty)
    thread.start()
    thread.join()


def _look_and_write(frame: DataFrame, batch: int) -> None:
    if not frame.isEmpty():
        _write(frame)


def _write_twice(frame: DataFrame, batch: int) -> None:
    _write(frame)
    _write(frame)


def _grouped(frame: DataFrame, batch: int) -> None:
    frame.groupBy("route").count().collect()
    _write(frame)


def _persisted(frame: DataFrame, batch: int) -> None:
    frame.persist()
    _write(frame)
    frame.isEmpty()
    frame.unpersist()


WHOLE = [_look_and_write, _write_twice, _persisted, _grouped, _look_and_write_under_a_name]
LOOKS = [_write_and_look, _write_and_take, _write_and_look_under_a_name, _all_under_a_name]


def _reader(spark: Any, tmp_path: Path, prepare: Any = None) -> Any:
    load = lambda paths: spark.read.schema(SCHEMA).json(paths)  # noqa: E731
    return hg.file_rows(load, tmp_path / "checkpoint", prepare)


@pytest.mark.matrix
@pytest.mark.parametrize("prepare", [None, lambda f: f.where("fare > 0")])
@pytest.mark.parametrize("act", LOOKS)
def test_a_look_after_the_write_is_doubtful_and_a_recount_repairs_it(
    spark, file_stream, each_batch, control: Path, tmp_path: Path, act: Any, prepare: Any
) -> None:
    stream = file_stream(SCHEMA)
    stream.add(_rows())
    frame = stream.frame() if prepare is None else prepare(stream.frame())
    kept: list[int] = []

    def acting(frame: DataFrame, batch: int) -> None:
        kept.extend(row.id for row in frame.select("id").collect())
        act(frame, batch)

    each_batch(frame.transform(hg.gate("w", rate=0.5, identity="id", control=control)), acting)
    (record,) = records(control, "w")
    if adds_up_passes(spark):
        assert record.arrived > N, "Spark added up what was read"
    else:
        assert record.arrived < 100, "Spark counted the look alone"
    assert "persist" in record.evidence.doubt
    found = audit(control)[0]
    assert found.doubtful == [0]
    assert not found.balanced

    reader = _reader(spark, tmp_path, prepare)
    with pytest.raises(hg.NotAsRecorded, match="recount settles it") as refused:
        hg.backfill(spark, "w", control, reader)
    assert list(refused.value.batches) == [0]
    (settled,) = hg.recount(spark, "w", control, reader, checkpoint=tmp_path / "checkpoint")
    assert (settled.arrived, settled.kept) == (N, len(kept))
    found = audit(control)[0]
    assert (found.verdict, found.repaired, found.arrived) == ("repaired", [0], N)
    shed = [row.id for row in hg.backfill(spark, "w", control, reader).collect()]
    assert sorted([*kept, *shed]) == list(range(N))


def test_a_look_by_another_thread_is_not_taken_for_a_whole_pass(
    file_stream, each_batch, control: Path
) -> None:
    stream = file_stream(SCHEMA)
    stream.add(_rows())
    each_batch(
        stream.frame().transform(hg.gate("t", rate=0.5, control=control)), _write_and_look_in_a_thread
    )
    (record,) = records(control, "t")
    assert record.arrived < 100, "Spark counted the look alone"
    assert "rows were counted, and the source handed out" in record.evidence.doubt


@pytest.mark.matrix
@pytest.mark.parametrize("act", WHOLE)
@pytest.mark.parametrize("filtered", [True, False])
def test_whole_passes_are_not_doubtful(
    spark, file_stream, each_batch, control: Path, act: Any, filtered: bool
) -> None:
    """But where Spark adds passes up, more than one is."""
    stream = file_stream(SCHEMA)
    stream.add(_rows())
    frame = stream.frame().where("id >= 100") if filtered else stream.frame()
    each_batch(frame.transform(hg.gate("p", rate=0.5, identity="id", control=control)), act)
    (record,) = records(control, "p")
    if adds_up_passes(spark) and act is not _persisted:
        assert "persist" in record.evidence.doubt
        assert audit(control)[0].doubtful == [0]
        return
    assert (record.evidence.doubt, record.arrived) == ("", N - 100 * filtered)
    assert audit(control)[0].complete


@pytest.mark.matrix
def test_one_of_two_partitions_looked_at_again_is_doubtful(
    spark, file_stream, each_batch, control: Path
) -> None:
    stream = file_stream(SCHEMA)
    stream.add(_rows())
    stream.add(_rows(N))
    frame = stream.frame(files_per_trigger=2)
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "64kb")
    try:
        each_batch(frame.transform(hg.gate("t", rate=0.5, control=control)), _write_and_look)
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", before)
    (record,) = records(control, "t")
    assert record.arrived != 2 * N
    assert record.evidence.doubt


@pytest.mark.matrix
def test_a_streaming_limit_is_doubtful(file_stream, run_all, control: Path) -> None:
    stream = file_stream(SCHEMA)
    stream.add(_rows())
    gated = stream.frame().transform(hg.gate("limited", rate=0.5, control=control))
    assert len(run_all(gated.limit(10))) == 10
    (record,) = records(control, "limited")
    assert record.arrived < 100
    assert "limit" in record.evidence.doubt
    assert audit(control)[0].doubtful == [0]


def test_doubtful_counts_do_not_reach_the_controller(file_stream, each_batch, control: Path) -> None:
    stream = file_stream(SCHEMA)
    stream.add(_rows())
    gated = stream.frame().transform(hg.gate("h", hold="1 ms", control=control))
    each_batch(gated, _write_and_look)
    (record,) = records(control, "h")
    assert record.evidence.doubt
    plan = PlanStore(control, "h", record.query).current()
    assert plan is not None
    assert plan.keeps_everything, "a whole batch over the target would have made it shed"


def test_a_plain_sink_is_confirmed_by_its_source(file_stream, run_all, control: Path) -> None:
    stream = file_stream(SCHEMA)
    for start in (0, N):
        stream.add(_rows(start))
    frame = stream.frame().selectExpr("*", "fare * 2 as twice")
    run_all(frame.transform(hg.gate("plain", rate=0.5, control=control)))
    found = records(control, "plain")
    assert [(r.arrived, r.evidence.witness, r.evidence.handed_out, r.evidence.doubt) for r in found] == [
        (N, "rows", N, "")
    ] * 2
    assert audit(control)[0].witnessed == 2


def test_what_offsets_say_of_rows() -> None:
    kafka = {"description": "KafkaV2[Subscribe[t]]", "startOffset": {"t": {"0": 5}}}
    assert rows_between({**kafka, "endOffset": {"t": {"0": 15, "1": 7}}}) == 17, (
        "a partition that is new"
    )
    assert rows_between({**kafka, "startOffset": None, "endOffset": {"t": {"0": 15}}}) is None
    text = {**kafka, "startOffset": '{"t":{"0":5}}', "endOffset": '{"t":{"0":6}}'}
    assert rows_between(text) == 1, "as Connect has it"
    rate = "RateStreamV2[rowsPerSecond=10, rampUpTimeSeconds=0, numPartitions=2"
    assert rows_between({"description": rate, "startOffset": 3, "endOffset": 5}) == 20
    files = {"description": "FileStreamSource[x]", "startOffset": {"logOffset": 1}}
    assert rows_between({**files, "endOffset": {"logOffset": 2}}) is None


@pytest.mark.matrix
def test_what_stands_between_source_and_gate(spark, file_stream) -> None:
    frame = file_stream(SCHEMA + ", at timestamp").frame()
    same = frame.withColumn("x", frame.id + 1).withWatermark("at", "1 minute").repartition(2)
    assert relation_to_source(same) == "equal"
    assert relation_to_source(frame.where("id > 1").select("id")) == "at most"
    assert relation_to_source(same.dropDuplicates(["id", "at"])) == "at most"
    assert relation_to_source(frame.selectExpr("explode(array(1, 2)) x")) == "unknown"
    assert relation_to_source(frame.union(frame)) == "unknown"
    assert relation_to_source(frame.join(spark.range(3), "id")) == "unknown"


def test_a_batch_without_gate_is_missed(file_stream, each_batch, control: Path) -> None:
    stream = file_stream(SCHEMA)
    gate = hg.gate("out", rate=0.5, control=control)
    for turn in range(3):
        stream.add(_rows(turn * N, 50))
        frame = stream.frame() if turn == 1 else stream.frame().transform(gate)
        each_batch(frame, lambda frame, batch: _write(frame))
    assert [r.batch for r in records(control, "out")] == [0, 2]
    found = audit(control)[0]
    assert (found.missing, found.verdict) == ([1], "missing")


def test_a_file_that_was_written_again_is_noticed(
    spark, file_stream, run_all, control: Path, tmp_path: Path
) -> None:
    stream = file_stream(SCHEMA)
    for start in (0, 500):
        stream.add(_rows(start, 500))
    run_all(stream.frame().transform(hg.gate("f", rate=0.5, control=control)))
    reader = _reader(spark, tmp_path)
    path = tmp_path / "in" / "000001.json"
    before, rows = path.stat(), _rows(500, 500)
    rows[7]["fare"] = 2.0
    rows[8]["fare"] = 3.0
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(hg.NotAsRecorded, match="written again") as refused:
        hg.backfill(spark, "f", control, reader)
    assert list(refused.value.batches) == [1]
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    rest = hg.backfill(spark, "f", control, reader, on_mismatch="skip", batches=[0]).collect()
    assert {row["_batch"] for row in rest} == {0}


def test_other_kept_rows_are_noticed_by_their_fingerprint(
    spark, file_stream, run_all, control: Path, tmp_path: Path
) -> None:
    stream = file_stream(SCHEMA)
    for start in (0, 500):
        stream.add(_rows(start, 500))
    rows = {
        row.id: row for row in run_all(stream.frame().transform(hg.gate("k", rate=0.5, control=control)))
    }
    kept = [i for i in range(500, 1000) if i in rows]
    shed = [i for i in range(500, 1000) if i not in rows]
    path = tmp_path / "in" / "000001.json"
    before = path.stat()
    text = path.read_text()
    # One kept row in the place of another: as many arrive, and as many are kept.
    twin = json.dumps({"id": kept[0], "route": f"r{kept[0] % 5}", "fare": 1.0})
    lines = [twin if json.loads(line)["id"] == kept[1] else line for line in text.splitlines()]
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    reader = _reader(spark, tmp_path)
    with pytest.raises(hg.NotAsRecorded, match="keeps others now than were kept then") as refused:
        hg.backfill(spark, "k", control, reader)
    assert list(refused.value.batches) == [1]
    rest = hg.backfill(spark, "k", control, reader, on_mismatch="skip").collect()
    assert {row["_batch"] for row in rest} == {0}
    blind = hg.backfill(spark, "k", control, reader, check=False).collect()
    assert sorted(r.id for r in blind if r["_batch"] == 1) == shed
