"""Rows that a guard drops, from a topic of anything to a topic of theirs, on a real broker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headgate as hg
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.records import Ledger, queries_of
from headgate.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Key and value of records: some as they should be, and what else a topic may hold.
RECORDS: list[tuple[bytes | None, bytes | None]] = [
    *((b"k%d" % (n % 3), json.dumps({"id": n}).encode()) for n in range(60)),
    (b"\xff\xfe", b"\xc3\x28 is no text"),
    (None, None),
    (b"", b""),
    (b"k", b"[" * 5000),
    (b"k", b'{"id": NaN}'),
    (b"k", b'{"id": "\\ud800"}'),
    ("\u202e\x00\x1b[2J'; DROP TABLE x; --".encode(), b'{"id": 1e999}'),
    (b"x" * 900_000, b'{"id": 7}'),
]


def read_id(row: Any) -> dict[str, Any]:
    return {"id": int(json.loads(bytes(row.value))["id"])}


def test_what_is_dropped_of_a_topic_of_anything_fills_another_topic(
    kafka_spark: SparkSession, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    from confluent_kafka import Producer

    source, sink, aside = topic("in", 2), topic("dropped"), tmp_path / "aside"
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for key, value in RECORDS:
        producer.produce(source, value=value, key=key)
    producer.flush(30)
    servers = {"kafka.bootstrap.servers": broker.bootstrap}
    stream = kafka_spark.readStream.format("kafka").options(
        **servers, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="40"
    )
    guarded = hg.guard(
        stream.load(), read_id, schema="id bigint", key="key", arrival="timestamp", policy=0.3,
        target=hg.average("5 seconds"), name="ids", on_error="dead-letter",
        control=tmp_path / "control", dropped=aside,
    )  # fmt: skip
    kept: list[int] = []
    writer = guarded.writeStream.foreachBatch(lambda b, _: kept.extend(r.id for r in b.collect()))
    query = writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    ControlLoop.of(kafka_spark).drain()

    rows = hg.dropped(kafka_spark, aside, "ids")
    rows.selectExpr("key", "value").write.format("kafka").options(**servers, topic=sink).save()
    read = kafka_spark.read.format("kafka").options(**servers, subscribe=sink).load().collect()
    there = Counter((_bytes(r.key), _bytes(r.value)) for r in read)
    assert there == Counter((_bytes(r.key), _bytes(r.value)) for r in rows.collect())
    assert there.total() + len(kept) == len(RECORDS)
    assert not there - Counter(RECORDS), "each as it was, to the byte"
    left = Counter(RECORDS) - there
    assert Counter(json.loads(value)["id"] for _, value in left.elements() if value) == Counter(kept)
    control = tmp_path / "control"
    (one,) = queries_of(control, "ids")
    booked = Ledger(control, "ids", one).records().values()
    counted = Counter[str]()
    for record in booked:
        counted.update(record.found.groups)
    assert counted == Counter(r._reason for r in rows.collect())
    assert counted["dead_letter"] > 0


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
