"""One real broker for the whole run; where its jars cannot be had, these tests skip and say why."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headgate.testing.broker import ArtifactsUnavailable, Broker, connector_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    pytest.importorskip("confluent_kafka", reason="pip install 'headgate[kafka]'")
    try:
        running = Broker.start(tmp_path_factory.mktemp("broker"))
    except ArtifactsUnavailable as unavailable:
        pytest.skip(f"no Kafka broker: {unavailable.reason}")
    with running:
        yield running


@pytest.fixture(scope="session")
def kafka_spark(request: pytest.FixtureRequest) -> SparkSession:
    """The run's one Spark session, which must have been built with the connector's jars."""
    jars, reason = connector_jars()
    if jars is None:
        pytest.skip(f"no Kafka connector: {reason}")
    spark: SparkSession = request.getfixturevalue("spark")
    given = spark.sparkContext.getConf().get("spark.jars", "") or ""
    # By name: Spark may have turned the paths into file: addresses.
    if not {Path(jar).name for jar in jars} <= {Path(jar).name for jar in given.split(",")}:
        pytest.skip("the Spark session was built without the connector's jars (spark.jars)")
    return spark


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """``topic("in", partitions=2)`` creates a topic of this test's own and returns its name.

    Settings of a topic have dots: ``cleanup_policy="compact"`` is Kafka's ``cleanup.policy``.
    """
    serial = itertools.count()

    def create(label: str, partitions: int = 1, **settings: str) -> str:
        test = "".join(c if c.isalnum() else "-" for c in request.node.name)
        name = f"{test}-{next(serial)}-{label}"
        named = {key.replace("_", "."): value for key, value in settings.items()}
        broker.create_topic(name, partitions, settings=named)
        return name

    return create
