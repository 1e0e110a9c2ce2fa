"""Backfill as an operation on a real topic: transactions, headers, partitions that are new, ranges
gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headgate as hg
from headgate.spark.loop.loop import ControlLoop
from headgate.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _send(broker: Broker, topic: str, values: range, *, commit: bool) -> None:
    """One transaction with a header on each record."""
    kafka: Any = pytest.importorskip("confluent_kafka")
    producer = kafka.Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic}-{values.start}"}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    for i in values:
        text = json.dumps({"id": i, "route": f"r{i % 3}"})
        producer.produce(topic, text, headers=[("trace", str(i % 7).encode())], partition=i % 2)
    producer.flush(60)
    if commit:
        producer.commit_transaction(60)
    else:
        producer.abort_transaction(60)


@pytest.mark.matrix
def test_committed_rows_with_their_headers_are_repaid_and_ranges_that_are_gone_stay_open(
    kafka_spark: SparkSession, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    admin_of: Any = pytest.importorskip("confluent_kafka.admin")
    kafka: Any = pytest.importorskip("confluent_kafka")
    source, control = topic("in", 2), tmp_path / "control"
    options = {
        "kafka.bootstrap.servers": broker.bootstrap, "subscribe": source, "includeHeaders": "true",
        "startingOffsets": "earliest", "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "false",
    }  # fmt: skip
    raw = kafka_spark.readStream.format("kafka").options(**options).load()
    rows = raw.selectExpr(
        "from_json(cast(value as string), 'id bigint, route string') row", "headers", "partition"
    ).selectExpr("row.*", "headers", "partition")
    kept: list[int] = []

    def take(frame: DataFrame, batch: int) -> None:
        kept.extend(row.id for row in frame.collect())

    for turn in range(2):
        first = 1000 * turn
        _send(broker, source, range(first, first + 200), commit=True)
        _send(broker, source, range(first + 200, first + 250), commit=False)
        writer = rows.transform(hg.gate("tx", rate=0.4, control=control)).writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert writer.trigger(availableNow=True).start().awaitTermination(180)
        ControlLoop.of(kafka_spark).drain()
    admin = admin_of.AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([admin_of.NewPartitions(source, 4)])[source].result(30)
    late: list[Any] = []
    last = hg.repay(
        kafka_spark, "tx", control, lambda frame, slice_id: late.extend(frame.collect()), batches=[1]
    )
    assert last.left_open == {}
    gone = admin.delete_records([kafka.TopicPartition(source, 0, 20)])
    for done in gone.values():
        done.result(30)
    rest = hg.repay(kafka_spark, "tx", control, tmp_path / "late")
    assert list(rest.left_open) == [0]
    assert "cannot be read any more" in rest.left_open[0]
    assert rest.before == 1
    ids = [row.id for row in late]
    assert sorted([*ids, *(i for i in kept if i >= 1000)]) == list(range(1000, 1200)), "none aborted"
    assert all(row.headers[0].value == str(row.id % 7).encode() for row in late)
