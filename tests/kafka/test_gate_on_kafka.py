"""The gate and the ledger from topic to topic, on a real broker."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headgate as hg
from headgate.core.row_budget import RowBudget
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger, Record, queries_of
from headgate.testing.broker import Broker
from headgate.testing.bursts import Bursts, produce
from tests.eventually import eventually
from tests.spark.conftest import forget_last_commit
from tests.spark.thinks_in_rows import ThinksInRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW = "id long, route string, fare double, priority string, sent long"


def _options(broker: Broker, topic: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **more}


def _parse(raw: DataFrame) -> DataFrame:
    rows = raw.selectExpr(f"from_json(cast(value as string), '{ROW}') row", "timestamp")
    return rows.selectExpr("row.*", "timestamp")


def _to_topic(frame: DataFrame, broker: Broker, topic: str, folder: Path) -> Any:
    written = frame.selectExpr("cast(id as string) key", "to_json(struct(*)) value").writeStream
    written = written.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    return written.option("topic", topic).option("checkpointLocation", str(folder / "checkpoint"))


def _records(control: Path, gate: str) -> list[Record]:
    (query,) = queries_of(control, gate)
    return list(Ledger(control, gate, query).records().values())


def _read(spark: SparkSession, broker: Broker, topic: str) -> list[Any]:
    raw = spark.read.format("kafka").options(**_options(broker, topic)).load()
    row = ROW + ", _weight double"
    return raw.selectExpr(f"from_json(cast(value as string), '{row}') row").select("row.*").collect()


@pytest.mark.matrix
def test_topic_to_topic_the_ledger_counts_what_both_topics_hold(
    kafka_spark: SparkSession, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, sink, control = topic("in", 2), topic("out"), tmp_path / "control"
    produce(broker.bootstrap, source, Bursts(base_rate=20_000, total=6_000, seed=3))
    options = _options(broker, source, startingOffsets="earliest", maxOffsetsPerTrigger="2500")
    rows = _parse(kafka_spark.readStream.format("kafka").options(**options).load())
    gate = hg.gate("trips", rate=0.3, keep="priority = 'high'", arrival="timestamp", control=control)
    writer = _to_topic(rows.transform(gate), broker, sink, tmp_path).trigger(availableNow=True)
    assert writer.start().awaitTermination(180)
    ControlLoop.of(kafka_spark).drain()

    kept = _read(kafka_spark, broker, sink)
    records = _records(control, "trips")
    assert sum(r.arrived for r in records) == 6_000
    assert sum(r.kept for r in records) == len(kept)
    assert all(a.complete for a in audit(control))
    assert all(row._weight == 1.0 for row in kept if row.priority == "high")
    left = [6_000 - taken for taken in itertools.accumulate(r.arrived for r in records)]
    assert [r.backlog for r in records] == left, "what the cap left in the topic"
    assert left[0] > 0

    read = hg.kafka_rows(kafka_spark, options, _parse, checkpoint=tmp_path / "checkpoint")
    shed = [row.id for row in hg.backfill(kafka_spark, "trips", control, read).collect()]
    assert sorted([*shed, *(row.id for row in kept)]) == list(range(6_000)), "each row once"

    last = forget_last_commit(tmp_path / "checkpoint")
    assert records[last].kept > 100
    assert writer.start().awaitTermination(180)
    ControlLoop.of(kafka_spark).drain()
    twice = Counter(row.id for row in _read(kafka_spark, broker, sink)) - Counter(r.id for r in kept)
    assert set(twice.values()) == {1}, "a topic as a sink takes a batch again"
    assert len(twice) == records[last].kept
    assert twice.keys() <= {row.id for row in kept}, "the same rows, and no other"


@pytest.mark.matrix
def test_the_size_of_every_batch_is_known_before_it_runs(
    kafka_spark: SparkSession, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """From the very first batch on: ends minus starts, over all partitions."""
    source, control = topic("in", 3), tmp_path / "control"
    produce(broker.bootstrap, source, Bursts(base_rate=20_000, total=5_000, seed=4))
    options = _options(broker, source, startingOffsets="earliest", maxOffsetsPerTrigger="2000")
    rows = _parse(kafka_spark.readStream.format("kafka").options(**options).load())
    fits = RowBudget(aim_s=1.0, per_kept_s=0.001, whole=1200)
    gate = hg.gate(
        "sized", hold="1 minute", identity="id", control=control, controller=ThinksInRows(fits)
    )
    writer = rows.transform(gate).writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(180)
    ControlLoop.of(kafka_spark).drain()
    records = _records(control, "sized")
    assert [r.size.expected_rows for r in records] == [r.arrived for r in records]
    assert {r.size.size_known_by for r in records} == {"offsets"}
    assert sum(r.arrived for r in records) == 5_000
    assert [r.plan.default for r in records] == [pytest.approx(fits.keep(r.arrived)) for r in records]
    assert [r.shed > 0 for r in records] == [True, True, False], "more than fits, but for the last"


def test_a_partition_that_is_new_and_a_range_that_is_gone(
    kafka_spark: SparkSession, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Batches from before a topic grew are read as they were; what retention took is named."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    pytest.importorskip("confluent_kafka.admin")
    source, control = topic("in", 1), tmp_path / "control"
    options = _options(broker, source, startingOffsets="earliest", failOnDataLoss="false")
    rows = _parse(kafka_spark.readStream.format("kafka").options(**options).load())
    gated = rows.transform(hg.gate("grown", rate=0.5, identity="id", control=control))
    for turn in range(2):
        produce(broker.bootstrap, source, Bursts(base_rate=20_000, total=300, seed=turn))
        writer = gated.writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert writer.trigger(availableNow=True).start().awaitTermination(180)
        ControlLoop.of(kafka_spark).drain()
    records = _records(control, "grown")
    assert [r.evidence.witness for r in records][1:] == ["offsets"]
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    grown = admin.create_partitions([confluent_kafka.admin.NewPartitions(source, 3)])
    grown[source].result(30)
    read = hg.kafka_rows(kafka_spark, options, _parse, checkpoint=tmp_path / "checkpoint")
    shed = hg.backfill(kafka_spark, "grown", control, read).count()
    assert shed == sum(r.shed for r in records)
    gone = admin.delete_records([confluent_kafka.TopicPartition(source, 0, 350)])
    for done in gone.values():
        done.result(30)
    with pytest.raises(hg.NotAsRecorded, match="cannot be read any more") as refused:
        hg.backfill(kafka_spark, "grown", control, read)
    assert sorted(refused.value.batches) == [0, 1]


@pytest.mark.long
def test_a_burst_is_shed_and_shedding_ends_with_it(
    kafka_spark: SparkSession, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """By the clock, so that it takes as long as the machine is busy; above it is by sizes alone."""
    source, sink, control = topic("in", 2), topic("out"), tmp_path / "control"
    options = _options(broker, source, startingOffsets="earliest")
    rows = _parse(kafka_spark.readStream.format("kafka").options(**options).load())
    calm = rows.transform(hg.gate("burst", hold="4 seconds", arrival="timestamp", control=control))
    # 200 comparisons a row: slow enough that a burst cannot be kept whole on any machine.
    slow = calm.selectExpr("*", "size(filter(sequence(1, 40000), x -> x % 7 = id % 7)) work")
    query = _to_topic(slow, broker, sink, tmp_path).trigger(processingTime="500 milliseconds").start()
    try:
        produce(broker.bootstrap, source, Bursts(base_rate=200, total=400, seed=1))
        _wait_for_rows(kafka_spark, control, 400, query)
        produce(broker.bootstrap, source, Bursts(base_rate=10_000, total=60_000, seed=2))
        _wait_for_rows(kafka_spark, control, 60_400, query)
        sent = 60_400
        for wave in range(40):
            produce(broker.bootstrap, source, Bursts(base_rate=200, total=100, seed=10 + wave))
            sent += 100
            _wait_for_rows(kafka_spark, control, sent, query)
            if _records(control, "burst")[-1].shed == 0 and wave > 2:
                break
    finally:
        query.stop()
    ControlLoop.of(kafka_spark).drain()
    records = _records(control, "burst")
    assert all(a.complete for a in audit(control))
    assert sum(r.kept for r in records) == len(_read(kafka_spark, broker, sink))
    assert max(r.arrived for r in records) > 5_000, "the burst came in few batches"
    assert any(r.shed for r in records), "the burst was more than fits"
    assert records[-1].shed == 0, "when the burst is over nothing is shed"


def _arrived(spark: SparkSession, control: Path) -> int:
    ControlLoop.of(spark).drain()
    return sum(r.arrived for r in _records(control, "burst")) if queries_of(control, "burst") else 0


def _wait_for_rows(spark: SparkSession, control: Path, rows: int, query: Any) -> None:
    def look() -> bool:
        assert query.isActive, query.exception()
        return _arrived(spark, control) >= rows

    eventually(look, f"{rows:,} rows in the ledger", within_s=180.0)
