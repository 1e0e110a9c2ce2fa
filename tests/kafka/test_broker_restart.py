"""A broker that is killed under a gated query and comes back: nothing lost, nothing doubled."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import headgate as hg
from headgate.cli import main
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.testing.broker import ArtifactsUnavailable, Broker
from headgate.testing.bursts import Bursts, produce
from tests.eventually import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

N = 300


class Gated:
    """A gated query on a broker's topic, whose sink takes a batch twice without harm."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self._spark, self._bootstrap, self._folder = spark, bootstrap, folder
        self.kept: dict[int, list[str]] = {}
        #: Set when the second batch has begun and before it has read a row; it goes on when told.
        self.begun, self.go_on = threading.Event(), threading.Event()

    @contextmanager
    def running(self, **options: str) -> Iterator[Any]:
        topic = {"kafka.bootstrap.servers": self._bootstrap, "subscribe": "in"}
        reader = self._spark.readStream.format("kafka").options(**topic, **options)
        rows = reader.option("startingOffsets", "earliest").load()
        rows = rows.selectExpr("concat(partition, '/', offset) as id", "partition", "offset")
        gate = hg.gate("outlives", rate=0.5, identity="id", control=self._folder / "control")
        writer = rows.transform(gate).writeStream.foreachBatch(self._take)
        query = writer.option("checkpointLocation", str(self._folder / "checkpoint")).start()
        try:
            yield query
        finally:
            self.go_on.set()
            query.stop()
            ControlLoop.of(self._spark).drain()

    def _take(self, frame: DataFrame, batch: int) -> None:
        if batch == 1 and not self.begun.is_set():
            self.begun.set()
            assert self.go_on.wait(60)
        found: list[Any] = frame.select("id").collect()
        self.kept[batch] = [row.id for row in found]

    def arrived(self) -> int:
        found = audit(self._folder / "control", "outlives")
        return found[0].arrived if found else 0


@pytest.mark.long
def test_a_query_outlives_its_broker(kafka_spark: SparkSession, tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka", reason="pip install 'headgate[kafka]'")
    try:
        first = Broker.start(tmp_path / "broker")
    except ArtifactsUnavailable as unavailable:
        pytest.skip(f"no Kafka broker: {unavailable.reason}")
    gated = Gated(kafka_spark, first.bootstrap, tmp_path)
    with ExitStack() as block:
        block.enter_context(first).create_topic("in", 2)
        _produce(first, 1)
        query = block.enter_context(gated.running())
        eventually(lambda: gated.arrived() == N, "the first rows")
        _produce(first, 2)
        assert gated.begun.wait(60)
        first.kill()
        gated.go_on.set()
        second = block.enter_context(_again(first, tmp_path / "broker"))
        _produce(second, 3)
        eventually(lambda: gated.arrived() == 3 * N, "all rows of both brokers", within_s=120.0)
        assert query.exception() is None
        query.stop()  # while it has a broker: without one it waits for an answer
        done = hg.repay(kafka_spark, "outlives", tmp_path / "control", tmp_path / "late")
    assert done.complete, done.to_json()
    late = [row.id for row in kafka_spark.read.parquet(str(tmp_path / "late")).collect()]
    there = Counter([*late, *(row for rows in gated.kept.values() for row in rows)])
    assert there.total() == len(there) == 3 * N, "each row of both brokers once"
    (books,) = audit(tmp_path / "control", "outlives")
    assert (books.arrived, books.shed, books.repaid_rows) == (3 * N, len(late), len(late))
    assert books.complete, books.to_json()
    verified = CliRunner().invoke(main, ["ledger", "verify", str(tmp_path / "control")])
    assert verified.exit_code == 0, verified.output


def _produce(broker: Broker, seed: int) -> None:
    assert produce(broker.bootstrap, "in", Bursts(base_rate=20_000, total=N, seed=seed)) == N


def _again(dead: Broker, data: Path) -> Broker:
    """Its successor at the same port and with its data."""
    return Broker.start(data, int(dead.bootstrap.rsplit(":", 1)[1]))
