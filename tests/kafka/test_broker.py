"""The broker, the connector and the producer together, before any gate stands between them."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from headgate.errors import BadArgument
from headgate.testing import artifacts
from headgate.testing import broker as brokers
from headgate.testing.broker import (
    KAFKA_VERSION,
    ArtifactsUnavailable,
    Broker,
    BrokerFailed,
    connector,
    connector_jars,
)
from headgate.testing.bursts import Bursts, produce
from headgate.testing.kafka_cli import kafka
from tests.eventually import eventually

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _read(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    rows = reader.option("subscribe", topic).load()
    return rows.selectExpr(
        "from_json(cast(value as string), "
        "'id long, route string, fare double, priority string, sent long') row"
    ).select("row.*")


def test_rows_go_from_topic_to_topic(
    kafka_spark: SparkSession, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, sink = topic("in", 2), topic("out", 2)
    before = int(time.time() * 1000)
    schedule = Bursts(base_rate=2_000, factor=5, every_s=0.5, length_s=0.2, total=3_000, seed=11)
    assert produce(broker.bootstrap, source, schedule) == 3_000

    stream = (
        kafka_spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        stream.select("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("topic", sink)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert sum(p.numInputRows for p in query.recentProgress) == 3_000

    rows = _read(kafka_spark, broker, sink).collect()
    assert sorted(row.id for row in rows) == list(range(3_000))
    assert {row.priority for row in rows} == {"high", "low"}
    assert all(before <= row.sent <= time.time() * 1000 for row in rows)


def test_the_broker_and_the_connector_speak_the_same_kafka() -> None:
    try:
        found = connector()
    except ArtifactsUnavailable as unavailable:
        pytest.skip(unavailable.reason)
    assert any(Path(jar).name == f"kafka-clients-{KAFKA_VERSION}.jar" for jar in found.jars)
    assert found.spark_conf()["spark.jars"].split(",") == list(found.jars)


def test_a_topic_that_exists_is_left_as_it_is(broker: Broker, topic: Callable[..., str]) -> None:
    from confluent_kafka.admin import AdminClient

    name = topic("twice", partitions=2)
    assert not broker.create_topic(name, 5)
    found = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(name, timeout=20)
    assert len(found.topics[name].partitions) == 2


def test_a_topic_that_kafka_refuses_is_a_clear_error(broker: Broker) -> None:
    with pytest.raises(BrokerFailed, match=r"topic 'no spaces' was not created: .*invalid"):
        broker.create_topic("no spaces")


def test_the_start_command_takes_a_topic_that_exists(
    broker: Broker, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic("again")
    with monkeypatch.context() as patch:
        patch.setattr(Broker, "start", lambda *_: nullcontext(broker))
        patch.setattr("headgate.testing.kafka_cli.signal.signal", lambda *_: None)
        patch.setattr(Broker, "running", False)  # so that the command ends by itself
        result = CliRunner().invoke(kafka, ["start", "--data", str(tmp_path), "--topic", name])
    assert f"topic {name} is there already" in result.stderr
    assert "ended by itself" in result.stderr
    assert result.stdout == f"{broker.bootstrap}\n"


def test_a_taken_port_is_named(broker: Broker, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BrokerFailed, match=str(port)):
            Broker.start(tmp_path, port)


def test_a_broker_that_dies_shows_its_log(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = brokers._properties

    def broken(data: Path, port: int, controller: int) -> str:
        return working(data, port, controller) + "log.segment.bytes=1\n"

    monkeypatch.setattr(brokers, "_properties", broken)
    with pytest.raises(BrokerFailed, match=r"log\.segment\.bytes"):
        Broker.start(tmp_path)


@pytest.mark.parametrize("port", [-1, 70_000])
def test_an_illegal_port_is_refused(tmp_path: Path, port: int) -> None:
    with pytest.raises(BadArgument, match="65535"):
        Broker.start(tmp_path, port)


def test_offline_with_an_empty_cache_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_CACHE", str(tmp_path))
    monkeypatch.setenv("HEADGATE_OFFLINE", "1")
    monkeypatch.setattr(artifacts, "_failures", {})
    jars, reason = connector_jars()
    assert jars is None
    assert "HEADGATE_OFFLINE=1" in reason
    with pytest.raises(ArtifactsUnavailable):
        Broker.start(tmp_path / "data")


def test_a_cache_whose_jars_are_gone_is_not_believed(tmp_path: Path) -> None:
    jar, stamp = tmp_path / "a.jar", tmp_path / "set.json"
    jar.touch()
    stamp.write_text(f'["{jar}"]')
    assert artifacts._stamped(stamp) == (str(jar),)
    jar.unlink()
    assert artifacts._stamped(stamp) == ()


def test_a_missing_release_and_a_missing_repository_are_told_apart(tmp_path: Path) -> None:
    unresolved = "\t\t:: org.apache.spark#spark-x_2.13;9.9: not found\n"
    answered = "\tfound org.apache.kafka#kafka-clients;3.9.2 in public\n" + unresolved
    assert artifacts._why(answered, ["a:b:1"], tmp_path).repository_answers
    assert not artifacts._why(unresolved, ["a:b:1"], tmp_path).repository_answers
    assert "org.apache.spark:spark-x_2.13:9.9" in artifacts._why(answered, ["a:b:1"], tmp_path).reason


_STARTER = """
import sys, time
from headgate.testing.broker import Broker
broker = Broker.start(sys.argv[1])
broker.create_topic("kept", 3)
print(broker.bootstrap, flush=True)
time.sleep(600)
"""


def test_a_run_that_is_killed_leaves_no_broker_behind(broker: Broker, tmp_path: Path) -> None:
    """And another one opens its topics again."""
    # Asking for `broker` first means this skips, like the rest, where the jars cannot be had.
    from confluent_kafka.admin import AdminClient

    starter = subprocess.Popen(
        [sys.executable, "-c", _STARTER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    with starter.stdout:
        host, port = starter.stdout.readline().strip().split(":")
    starter.kill()
    starter.wait()

    def gone() -> bool:  # the port is taken for as long as the broker's process is there
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) != 0

    eventually(gone, "that the broker ends with the process that started it")
    with Broker.start(tmp_path) as second:
        topics = AdminClient({"bootstrap.servers": second.bootstrap}).list_topics(timeout=20).topics
        assert len(topics["kept"].partitions) == 3
    assert not second.running
