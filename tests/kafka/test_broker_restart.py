"""A broker that is killed under a gated query and comes back: nothing lost, nothing doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headgate as hg
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.testing.broker import ArtifactsUnavailable, Broker, BrokerFailed
from headgate.testing.bursts import Bursts, produce
from tests.eventually import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

N = 400


@pytest.mark.long
def test_a_query_outlives_its_broker(kafka_spark: SparkSession, tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka", reason="pip install 'headgate[kafka]'")
    try:
        first = Broker.start(tmp_path / "broker")
    except ArtifactsUnavailable as unavailable:
        pytest.skip(f"no Kafka broker: {unavailable.reason}")
    control, kept = tmp_path / "control", dict[int, list[str]]()
    with first:
        first.create_topic("in", 2)
        produce(first.bootstrap, "in", Bursts(base_rate=20_000, total=N, seed=1))
        topic = {"kafka.bootstrap.servers": first.bootstrap, "subscribe": "in"}
        raw = kafka_spark.readStream.format("kafka").options(**topic, startingOffsets="earliest").load()
        rows = raw.selectExpr("concat(partition, '/', offset) as id", "partition", "offset")
        gated = rows.transform(hg.gate("outlives", rate=0.5, identity="id", control=control))

        def take(frame: DataFrame, batch: int) -> None:
            found: list[Any] = frame.select("id").collect()
            kept[batch] = [row.id for row in found]

        writer = gated.writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.start()
        try:
            eventually(lambda: len(kept) >= 1, "the first batch")
            first.kill()
            again = eventually(lambda: _again(first, tmp_path / "broker"), "that its port is free")
            with again as second:
                assert second.bootstrap == first.bootstrap
                produce(second.bootstrap, "in", Bursts(base_rate=20_000, total=N, seed=2))
                arrived: Callable[[], bool] = lambda: _arrived(control) == 2 * N  # noqa: E731
                eventually(arrived, "all rows of both brokers", within_s=120.0)
                assert query.exception() is None
                query.stop()
                ControlLoop.of(kafka_spark).drain()
                done = hg.repay(kafka_spark, "outlives", control, tmp_path / "late")
        finally:
            query.stop()
    assert done.complete, done.to_json()
    late = [row.id for row in kafka_spark.read.parquet(str(tmp_path / "late")).select("id").collect()]
    there = Counter([*late, *(row for rows in kept.values() for row in rows)])
    assert there.total() == len(there) == 2 * N, "each row of both brokers once"
    (found,) = audit(control, "outlives")
    assert found.complete, found.to_json()


def _again(dead: Broker, data: Path) -> Broker | None:
    """Its successor at the same port; None while the one that was killed is not quite gone."""
    try:
        return Broker.start(data, int(dead.bootstrap.rsplit(":", 1)[1]))
    except BrokerFailed as failed:
        if "is taken" not in str(failed):
            raise
        return None


def _arrived(control: Path) -> int:
    found = audit(control, "outlives")
    return found[0].arrived if found else 0
