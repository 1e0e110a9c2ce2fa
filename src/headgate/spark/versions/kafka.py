"""Which Kafka connector belongs to which Spark; as Maven coordinates, with no Spark imported."""

from __future__ import annotations

from headgate.spark.versions.supported import NEWEST, SparkVersion

__all__ = ["connector_of", "stand_in_of", "token_provider"]

_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_TOKENS = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
#: Where a repository lacks the very release: one of the same line, or the newest before it.
_STAND_INS = {(4, 0): "4.0.4", (4, 1): "4.1.3", (4, 2): "4.2.0"}


def connector_of(version: SparkVersion | None) -> str:
    """The connector of the very release; of the newest that is known where there is no PySpark.

    >>> connector_of(SparkVersion.read("4.1.4"))
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.4'
    """
    return f"{_CONNECTOR}:{_release(version)}"


def stand_in_of(version: SparkVersion | None) -> tuple[str, str]:
    """A connector and a token provider that serve, for mirrors that lag behind.

    >>> stand_in_of(SparkVersion.read("4.0.5"))[0]
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.4'
    """
    line = (version or NEWEST).major, (version or NEWEST).minor
    older = [known for known in _STAND_INS if known <= line]
    return f"{_CONNECTOR}:{_STAND_INS[max(older, default=min(_STAND_INS))]}", f"{_TOKENS}:4.0.0"


def token_provider(version: SparkVersion | None) -> str:
    """What the connector needs besides, of the same release."""
    return f"{_TOKENS}:{_release(version)}"


def _release(version: SparkVersion | None) -> str:
    """A whole version: a line alone means its first release."""
    given = str(version or NEWEST)
    return given if given.count(".") > 1 else f"{given}.0"
