"""Compacted topics: what is still there is repaid, and what was compacted away stays open, in words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headgate as hg
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.testing.broker import Broker
from tests.eventually import eventually
from tests.harness.session_settings import FEW_ROWS, with_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The segment that is written to is never cleaned: each is closed by the first record that comes later.
SEGMENT_MS = 50
TO_BE_COMPACTED = {"segment_ms": str(SEGMENT_MS), "min_cleanable_dirty_ratio": "0.01"}


def _send(broker: Broker, topic: str, keys: Iterable[str], value: bytes | None) -> None:
    kafka: Any = pytest.importorskip("confluent_kafka")
    time.sleep(2 * SEGMENT_MS / 1000)
    producer = kafka.Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for key in keys:
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0


def _compact(broker: Broker, topic: str) -> None:
    admin: Any = pytest.importorskip("confluent_kafka.admin")
    policy = admin.ConfigEntry(
        "cleanup.policy", "compact", incremental_operation=admin.AlterConfigOpType.SET
    )
    of = admin.ConfigResource(admin.ResourceType.TOPIC, topic, incremental_configs=[policy])
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in client.incremental_alter_configs([of]).values():
        done.result(30)


def _offsets(broker: Broker, topic: str) -> list[int]:
    """Of the records that the topic still has."""
    kafka: Any = pytest.importorskip("confluent_kafka")
    consumer = kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": topic, "enable.partition.eof": True}
    )
    found = []
    try:
        consumer.assign([kafka.TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(30)) is not None and message.error() is None:
            found.append(message.offset())
    finally:
        consumer.close()
    return found


def _columns(raw: DataFrame) -> DataFrame:
    return raw.selectExpr("offset", "cast(key as string) key", "value is null gone")


class Gated:
    """A gate on the topic, over what is there; of a hundred records a batch if `limited`."""

    def __init__(
        self, spark: SparkSession, broker: Broker, topic: str, folder: Path, name: str, *, limited: bool
    ) -> None:
        self._spark, self._folder, self._name = spark, folder, name
        self.options = {
            "kafka.bootstrap.servers": broker.bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
        } | ({"maxOffsetsPerTrigger": "100"} if limited else {})
        self.kept: dict[int, list[int]] = {}

    def run(self) -> None:
        rows = _columns(self._spark.readStream.format("kafka").options(**self.options).load())
        gate = hg.gate(self._name, rate=0.5, control=self._folder / "control")
        writer = rows.transform(gate).writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", str(self._folder / self._name))
        assert writer.trigger(availableNow=True).start().awaitTermination(180)
        ControlLoop.of(self._spark).drain()

    def _take(self, frame: DataFrame, batch: int) -> None:
        self.kept[batch] = [row.offset for row in frame.collect()]


@pytest.fixture
def few_rows(kafka_spark: SparkSession) -> Iterator[SparkSession]:
    with with_settings(kafka_spark, FEW_ROWS):
        yield kafka_spark


def test_what_was_compacted_away_stays_open_and_all_else_is_repaid(
    few_rows: SparkSession, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, control = topic("in", **TO_BE_COMPACTED), tmp_path / "control"
    live = Gated(few_rows, broker, source, tmp_path, "live", limited=True)
    _send(broker, source, (f"a{i}" for i in range(100)), b"first")
    _send(broker, source, (f"b{i}" for i in range(100)), b"first")
    _send(broker, source, (f"a{i}" for i in range(40)), b"second")
    _send(broker, source, (f"a{i}" for i in range(40, 60)), None)
    live.run()
    _compact(broker, source)
    _send(broker, source, ["end"], b"closes the segment before it")
    left = list(range(60, 261))
    eventually(lambda: _offsets(broker, source) == left, "that 60 records are compacted away")

    done = hg.repay(few_rows, "live", control, tmp_path / "late")
    late = few_rows.read.parquet(str(tmp_path / "late")).select("offset", "_batch").collect()
    assert {row._batch for row in late} == {1, 2}
    there = sorted([*(row.offset for row in late), *live.kept[1], *live.kept[2]])
    assert there == list(range(100, 260)), "each row of what is whole, once"
    assert list(done.left_open) == [0]
    said = done.left_open[0]
    assert "has 40 rows" in said
    assert "100 arrived" in said
    assert "compacted" in said
    (books,) = audit(control, "live")
    assert (books.arrived, books.complete) == (260, True), "what came, and was kept and shed, is known"
    assert (sorted(books.repaid), books.repaid_rows) == ([1, 2], len(late)), "and batch 0 is not repaid"
    read = hg.kafka_rows(few_rows, live.options, _columns, checkpoint=tmp_path / "live")
    with pytest.raises(hg.NotAsRecorded, match="compacted"):
        hg.backfill(few_rows, "live", control, read)

    later = Gated(few_rows, broker, source, tmp_path, "later", limited=False)
    later.run()
    (books,) = audit(control, "later")
    assert (books.arrived, books.complete) == (len(left), True), "gaps between offsets are no doubt"
    assert hg.repay(few_rows, "later", control, tmp_path / "later-late").complete
    late = few_rows.read.parquet(str(tmp_path / "later-late")).select("offset").collect()
    assert sorted([*(row.offset for row in late), *later.kept[0]]) == left
