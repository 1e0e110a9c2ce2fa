"""Is this Spark one that Headgate can run on?"""

from __future__ import annotations

import re

from headgate.errors import MissingExtra, UnsupportedSpark

try:
    import pyarrow  # noqa: F401  (Spark's Python data sources need it)
    from pyspark.sql import DataFrame, SparkSession
except ImportError as error:
    raise MissingExtra(error.name or "pyspark", "spark") from error

__all__ = ["check_spark_version", "is_connect", "session_of"]

_OLDEST = (4, 3)


def check_spark_version(version: str) -> None:
    """Refuse a Spark older than 4.3."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < _OLDEST:
        raise UnsupportedSpark(
            f"Spark {version} cannot run a gate: Headgate needs Spark 4.3 or newer "
            "(pip install 'headgate[spark]')"
        )


def session_of(frame: DataFrame) -> SparkSession:
    """The frame's session, checked; classic and Connect alike."""
    spark = frame.sparkSession
    check_spark_version(spark.version)
    return spark


def is_connect(spark: SparkSession) -> bool:
    """Whether this session talks to a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")
