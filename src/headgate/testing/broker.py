"""A real Kafka broker and Spark's Kafka connector, from Maven artifacts (`headgate.testing.artifacts`).

Where the jars cannot be had, `ArtifactsUnavailable` says why; tests turn that into a skip.
"""

from __future__ import annotations

import base64
import os
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from headgate.errors import BadArgument, HeadgateError, MissingExtra
from headgate.spark.versions.kafka import connector_of, stand_in_of, token_provider
from headgate.spark.versions.supported import installed
from headgate.testing.artifacts import ArtifactsUnavailable, cache_dir, java_server, resolve
from headgate.testing.kafka_client import client_settings
from headgate.testing.tied_server import ServerFailed, TiedServer, free_ports, tail

__all__ = [
    "CONNECTOR",
    "KAFKA_VERSION",
    "Artifacts",
    "ArtifactsUnavailable",
    "Broker",
    "BrokerFailed",
    "cache_dir",
    "connector",
    "connector_jars",
    "packages_conf",
]

#: The connector that belongs to the PySpark installed here.
CONNECTOR = connector_of(installed())

#: The kafka-clients of Spark 4.3, so the broker's version too; every Spark 4 is built with a 3.9.
KAFKA_VERSION = "3.9.2"

_CLIENT = (
    f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}",
    "org.apache.commons:commons-pool2:2.13.1",
)
#: What the connector needs and Spark does not ship; each jar alone, so nothing Spark has comes twice.
_MATCHING = (CONNECTOR, token_provider(installed()), *_CLIENT)
#: Used, and said so, only where the repository answers but lacks the matching release: mirrors lag.
_STAND_IN = (*stand_in_of(installed()), *_CLIENT)
_BROKER = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36")


class BrokerFailed(HeadgateError):
    """The broker did not start (the message ends with the tail of its log), or refused a request."""


@dataclass(frozen=True)
class Artifacts:
    """Resolved jars. ``stand_in`` is empty, or says which release is missing and what replaces it."""

    jars: tuple[str, ...]
    stand_in: str = ""

    def spark_conf(self) -> dict[str, str]:
        """The settings a session must be BUILT with; a running one cannot take the connector."""
        return {"spark.jars": ",".join(self.jars)}


def packages_conf() -> dict[str, str]:
    """The settings with which Spark resolves the connector by itself, as a deployed job would."""
    return {"spark.jars.packages": CONNECTOR, "spark.jars.ivy": str(cache_dir() / "spark-ivy")}


def connector(timeout: float = 120.0) -> Artifacts:
    """Spark's Kafka connector; the matching release, or a stand-in that its ``stand_in`` names."""
    deadline = time.monotonic() + timeout
    try:
        return Artifacts(resolve("connector", _MATCHING, deadline, transitive=False))
    except ArtifactsUnavailable as missing:
        if not missing.repository_answers:
            raise
        jars = resolve("connector-stand-in", _STAND_IN, deadline, transitive=False)
        return Artifacts(jars, f"{missing.reason}; using {_STAND_IN[0]} with {_STAND_IN[1]} instead")


def connector_jars(timeout: float = 120.0) -> tuple[list[str] | None, str]:
    """The connector's jars and a remark, or None and the reason; never raises, bounded in time.

    Call it before a session is built: ``spark.jars`` cannot be added to a running one.
    """
    try:
        found = connector(timeout)
    except ArtifactsUnavailable as error:
        return None, error.reason
    return list(found.jars), found.stand_in


class Broker(TiedServer):
    """One KRaft node, broker and controller in one, that listens on 127.0.0.1 only.

    ``Broker.start(folder)`` returns when the node takes requests. The node ends with the process that
    started it, even if that is killed. A folder that already holds a
    node's data is opened again with its topics, so a crash can be played.
    """

    called = "broker"
    failure = BrokerFailed

    def __init__(self, command: list[str], bootstrap: str, log: Path) -> None:
        super().__init__(command, log)
        self.bootstrap = bootstrap

    @classmethod
    def start(cls, data_dir: str | Path, port: int = 0, *, timeout: float = 60.0) -> Self:
        """Format ``data_dir`` if it is new, start the node on ``port`` (0: any free one)."""
        if not 0 <= port <= 65535:
            raise BadArgument(f"port={port} is outside [0, 65535]: give 0 for any free port")
        jars = resolve("broker", _BROKER, time.monotonic() + 300.0, transitive=True)
        folder = Path(data_dir).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            port, controller = free_ports(port)
        except ServerFailed as taken:
            raise BrokerFailed(str(taken)) from None
        properties = folder / "server.properties"
        properties.write_text(_properties(folder / "data", port, controller))
        log = folder / "broker.log"
        jvm = [*java_server("64m", "256m"), "-cp", os.pathsep.join(jars)]
        with log.open("wb") as sink:
            if not (folder / "data" / "meta.properties").exists():
                cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
                # With an equals sign: an id may begin with a dash.
                chosen = [f"--cluster-id={cluster}", f"--config={properties}"]
                storage = ["kafka.tools.StorageTool", "format", *chosen]
                done = subprocess.run([*jvm, *storage], check=False, stdout=sink, stderr=sink)
                if done.returncode != 0:
                    raise BrokerFailed(f"cannot format {folder / 'data'}:\n{tail(log)}")
        broker = cls([*jvm, "kafka.Kafka", str(properties)], f"127.0.0.1:{port}", log)
        broker.await_ready(lambda: broker.has_said("Kafka Server started"), timeout)
        return broker

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        settings: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> bool:
        """Create a topic and wait until it is there; False, and nothing done, if it was before.

        `settings` are the topic's own, by Kafka's names, such as ``{"cleanup.policy": "compact"}``.
        """
        if partitions < 1:
            raise BadArgument(f"partitions={partitions} of topic {name!r}: give 1 or more")
        try:
            from confluent_kafka import KafkaError, KafkaException
            from confluent_kafka.admin import AdminClient
            from confluent_kafka.cimpl import NewTopic
        except ImportError:
            raise MissingExtra("confluent-kafka", "kafka") from None
        heard: list[str] = []
        admin = AdminClient(client_settings(self.bootstrap, heard))
        try:
            topic = NewTopic(name, partitions, 1, config=dict(settings or {}))
            admin.create_topics([topic])[name].result(timeout)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise BrokerFailed(f"topic {name!r} was not created: {error.args[0].str()}") from error
        except TimeoutError as error:
            admin.poll(0)  # what it has to say waits for this
            raise BrokerFailed(
                f"topic {name!r} was not created: no answer in {timeout:g} s"
                f"{''.join(f' ({one})' for one in heard)}; see {self.log}"
            ) from error
        return True


def _properties(data: Path, port: int, controller: int) -> str:
    """The smallest configuration of a node alone: one replica of everything, few threads."""
    # A node that is started again waits until its controller takes its former self for dead (Kafka 3.9):
    # by default 9 s, for nothing, as there is no other node.
    again = (data / "meta.properties").exists()
    settings = {
        "broker.session.timeout.ms": "2000" if again else "9000",
        "broker.heartbeat.interval.ms": "500" if again else "2000",
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        # Compacted topics are cleaned as soon as there is something to clean; by default after 15 s.
        "log.cleaner.backoff.ms": "500",
        "num.io.threads": "2",
        "num.network.threads": "2",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())
