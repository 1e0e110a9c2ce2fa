"""The session of a frame, classic or Connect."""

from __future__ import annotations

from headgate.errors import MissingExtra
from headgate.spark.versions.supported import version_of

try:
    import pyarrow  # noqa: F401  (Spark's Python data sources need it)
    from pyspark.sql import DataFrame, SparkSession
except ImportError as error:
    raise MissingExtra(error.name or "pyspark", "spark") from error

__all__ = ["check_session", "is_connect", "session_of"]


def check_session(spark: SparkSession) -> None:
    """Refuse a Spark that Headgate cannot run on."""
    version_of(spark)


def session_of(frame: DataFrame) -> SparkSession:
    """The frame's session, checked; classic and Connect alike."""
    spark = frame.sparkSession
    check_session(spark)
    return spark


def is_connect(spark: SparkSession) -> bool:
    """Whether this session talks to a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")
