"""Real-time mode: which PySpark can ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.spark.versions.supported import SparkVersion, require, version_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["require_real_time"]

#: ``trigger(realTime=...)``. Spark 4.1 has the mode, but only Scala can ask for it.
_REAL_TIME = SparkVersion(4, 2)


def require_real_time(spark: SparkSession) -> None:
    """Refuse a session whose queries cannot be started in real-time mode from Python."""
    instead = "use trigger(processingTime=...), or upgrade PySpark (pip install 'pyspark>=4.2,<5')"
    require(version_of(spark), _REAL_TIME, "real-time mode, trigger(realTime=...),", instead)
