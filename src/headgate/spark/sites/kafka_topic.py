"""A link's topic, made where it is not there yet: a reader may start before anybody has written.

Spark's source asks the broker for the partitions of its topic when it starts, and ends if there are
none. The broker is asked as Spark asks it, with the connector's own client and the same options.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from headgate.errors import BadArgument
from headgate.spark.session import is_connect

# isort: split
from pyspark.sql import SparkSession

__all__ = ["ensure_topic"]

_WAIT_MS = "10000"


def ensure_topic(spark: SparkSession, servers: str, topic: str, options: Mapping[str, Any]) -> None:
    """Create the topic with the broker's defaults if it is missing; over Connect it must exist."""
    if is_connect(spark):
        return
    jvm: Any = spark.sparkContext._jvm
    admin_class = jvm.org.apache.kafka.clients.admin.AdminClient
    if type(admin_class).__name__ == "JavaPackage":  # py4j found no such class
        raise BadArgument(
            f"topic {topic!r}: Spark's Kafka connector is not there; start Spark with "
            "spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13 of its version"
        )
    given = jvm.java.util.Properties()
    given.put("default.api.timeout.ms", _WAIT_MS)
    given.put("request.timeout.ms", _WAIT_MS)
    given.put("bootstrap.servers", servers)
    for name, value in options.items():
        if name.startswith("kafka."):
            given.put(name.removeprefix("kafka."), str(value))
    try:
        admin = admin_class.create(given)
    except Exception as error:
        raise _failed(servers, topic, "cannot be asked for", error) from error
    try:
        _ask(jvm, admin, servers, topic)
    finally:
        with contextlib.suppress(Exception):
            admin.close()


def _ask(jvm: Any, admin: Any, servers: str, topic: str) -> None:
    try:
        there = topic in set(admin.listTopics().names().get())
    except Exception as error:
        raise _failed(servers, topic, "cannot be asked for", error) from error
    if there:
        return
    empty = jvm.java.util.Optional.empty()
    new = jvm.org.apache.kafka.clients.admin.NewTopic(topic, empty, empty)
    asked = jvm.java.util.ArrayList()
    asked.add(new)
    try:
        admin.createTopics(asked).all().get()
    except Exception as error:
        if "TopicExistsException" in str(error):  # the other site was faster
            return
        raise _failed(servers, topic, "is not there and cannot be made", error) from error


def _failed(servers: str, topic: str, what: str, error: Exception) -> BadArgument:
    java = getattr(error, "java_exception", None)
    said = str(java.getMessage()) if java is not None else str(error)
    return BadArgument(
        f"topic {topic!r} {what} at {servers} ({said.strip().splitlines()[0]}): check servers= and "
        "options=, or make the topic"
    )
