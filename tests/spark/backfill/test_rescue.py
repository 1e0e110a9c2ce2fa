"""After an outage the first batch takes all that piled up, and dies at every restart; or is rescued."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import headgate as hg
from headgate.spark.loop.loop import ControlLoop
from headgate.spark.worker_errors import said_by_worker
from headgate.store.ledger.audit import audit
from headgate.store.plans import PlanStore
from tests.harness.session_settings import with_settings
from tests.spark.conftest import forget_last_commit, records

SCHEMA = "id bigint"
PILED_UP, ROOM = 2000, 600


class Overwrites:
    """Replaces all that is there of the batch's number, and then runs out of room."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self.attempts: list[set[int]] = []

    def __call__(self, frame: DataFrame, batch: int) -> None:
        frame.write.mode("overwrite").parquet(str(self._folder / str(batch)))
        self.attempts.append(self.written(batch))
        if len(self.attempts[-1]) > ROOM:
            raise MemoryError(f"{len(self.attempts[-1])} rows do not fit")

    def written(self, batch: int) -> set[int]:
        return {row.id for row in self._spark.read.parquet(str(self._folder / str(batch))).collect()}


@pytest.mark.matrix
def test_a_batch_that_dies_at_every_restart_is_rescued(
    spark: SparkSession, file_stream: Any, each_batch: Any, control: Path, tmp_path: Path
) -> None:
    stream, sink = file_stream(SCHEMA), Overwrites(spark, tmp_path / "out")
    for start in range(0, PILED_UP, 500):
        stream.add([{"id": i} for i in range(start, start + 500)])

    def run(**rescue: Any) -> None:
        gate = hg.gate("g", rate=0.9, control=control, **rescue)
        each_batch(stream.frame(files_per_trigger=100).transform(gate), sink)

    def dies(**rescue: Any) -> None:
        with pytest.raises(StreamingQueryException, match="rows do not fit"):
            run(**rescue)

    # Without: Spark plans the range once, and every restart tries it again, whatever the limits say.
    dies()
    dies()
    assert sink.attempts[0] == sink.attempts[1]
    # With: the first pin counts as one attempt; one more runs whole, and the third keeps a quarter.
    rescue = {"rescue": hg.Rescue(sink="overwrites")}
    dies(**rescue)
    run(**rescue)
    *_, whole, rescued = sink.attempts
    assert whole == sink.attempts[0]
    assert rescued < whole
    assert 0 < len(rescued) <= ROOM
    (record,) = records(control, "g")
    assert (record.origin, record.attempt) == ("rescued", 3)
    assert (record.arrived, record.kept) == (PILED_UP, len(rescued))
    assert record.plan.default == pytest.approx(0.9 / 4)
    assert record.balanced
    assert not record.evidence.doubt
    assert audit(control)[0].complete
    # The driver died behind the write and before Spark's own: the batch runs again, as it was rescued.
    assert forget_last_commit(tmp_path / "checkpoint") == 0
    run(**rescue)
    assert len(sink.attempts) == 5
    assert sink.attempts[-1] == rescued == sink.written(0)
    assert audit(control)[0].complete
    # What it left out is repaid: exactly the complement of what is in the sink.
    reader = hg.file_rows(lambda paths: spark.read.schema(SCHEMA).json(paths), tmp_path / "checkpoint")
    repaid = [row.id for row in hg.backfill(spark, "g", control, reader).collect()]
    assert sorted([*repaid, *rescued]) == list(range(PILED_UP))


@pytest.fixture
def to_files(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[DataFrame], None]]:
    """Run a query to its end, into Spark's own file sink."""

    def run(frame: DataFrame) -> None:
        writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
            ControlLoop.of(spark).drain()

    yield run
    shutil.rmtree(tmp_path / "out", ignore_errors=True)


def _with_room(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    seen = list(batches)
    if sum(batch.num_rows for batch in seen) > ROOM:
        raise MemoryError("out of room")
    yield from seen


#: State of which each attempt has its own.
KEPT_APART = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}


def test_files_and_state_of_a_failed_attempt_are_as_if_it_had_not_been(
    spark: SparkSession, file_stream: Any, to_files: Any, control: Path, tmp_path: Path
) -> None:
    """It fails behind its state: an attempt that met what it left would take every row for known."""
    stream = file_stream(SCHEMA)
    stream.add([{"id": i} for i in range(1000)])
    gate: Any = {"rate": 1.0, "control": control, "rescue": hg.Rescue("files", keep=0.5, whole=1)}

    def run() -> None:
        with with_settings(spark, KEPT_APART):
            once = stream.frame().transform(hg.gate("g", **gate)).dropDuplicates(["id"])
            to_files(once.repartition(1).mapInArrow(_with_room, "id bigint, _weight double"))

    def written() -> list[int]:
        return sorted(row.id for row in spark.read.parquet(str(tmp_path / "out")).collect())

    with pytest.raises(StreamingQueryException, match="out of room"):
        run()
    run()
    first = written()
    (record,) = records(control, "g")
    assert (record.attempt, record.kept, record.arrived) == (2, len(first), 1000)
    assert 0 < len(first) <= ROOM
    # Duplicates of what was kept are known; what was shed was never seen.
    stream.add([{"id": i} for i in range(500)])
    run()
    assert written() == sorted({*first, *range(500)})
    last = records(control, "g")[-1]
    assert (last.batch, last.attempt, last.plan.default) == (1, 1, 1.0), "the batch after it is whole"


def test_a_batch_that_the_sink_has_from_before_is_no_attempt(
    spark: SparkSession, file_stream: Any, to_files: Any, control: Path, tmp_path: Path
) -> None:
    """Spark does not know that it is there, and the sink does not run it: or the pin would change."""
    stream = file_stream(SCHEMA)
    stream.add([{"id": i} for i in range(100)])
    for _ in range(2):
        gate = hg.gate("g", rate=0.9, control=control, rescue=hg.Rescue("files", whole=1))
        to_files(stream.frame().transform(gate))
        forget_last_commit(tmp_path / "checkpoint")
    (record,) = records(control, "g")
    pin = PlanStore(control, "g", record.query).pinned(0)
    assert pin is not None
    assert (pin.attempt, pin.plan.default) == (record.attempt, record.plan.default) == (1, 0.9)
    assert spark.read.parquet(str(tmp_path / "out")).count() == record.kept


def test_a_query_with_state_is_refused_at_its_first_batch(
    spark: SparkSession, file_stream: Any, to_files: Any, control: Path
) -> None:
    stream = file_stream(SCHEMA)
    stream.add([{"id": 1}])
    gate = hg.gate("g", rate=1.0, control=control, rescue=hg.Rescue("files"))
    with pytest.raises(StreamingQueryException) as refused:
        to_files(stream.frame().transform(gate).dropDuplicates(["id"]))
    assert "keeps state" in (said_by_worker(refused.value) or "")


def test_another_sink_than_people_said_ends_the_query_at_its_first_batch(
    spark: SparkSession, file_stream: Any, each_batch: Any, control: Path
) -> None:
    stream, met = file_stream(SCHEMA), []
    stream.add([{"id": 1}])
    gate = hg.gate("g", rate=1.0, control=control, rescue=hg.Rescue("files"))
    with pytest.raises(StreamingQueryException) as refused:
        each_batch(stream.frame().transform(gate), lambda frame, _: met.append(frame.collect()))
    assert met == []
    said = said_by_worker(refused.value) or ""
    assert "Rescue(sink='files')" in said
    assert "writes to ForeachBatchSink" in said


def test_where_no_batch_runs_again_or_rates_do_not_decide_it_is_refused_at_the_call(
    spark: SparkSession, file_stream: Any, control: Path
) -> None:
    stream, rescue = file_stream(SCHEMA), hg.Rescue("files")
    with pytest.raises(hg.BadArgument, match="in front of a batch DataFrame"):
        spark.range(3).transform(hg.gate("g", rate=0.5, control=control, rescue=rescue))
    with pytest.raises(hg.BadArgument, match="has no control="):
        stream.frame().transform(hg.gate("g", rate=0.5, rescue=rescue))
    by_group = hg.ConceptDriven(by="id")
    with pytest.raises(hg.BadArgument, match="ConceptDriven draws rows by the groups"):
        stream.frame().transform(hg.gate("g", rate=0.5, control=control, policy=by_group, rescue=rescue))
