"""What observed metrics say of a batch that is read more than once: the last pass, or all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.spark.versions.supported import SparkVersion, version_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["adds_up_passes"]

#: Spark's accumulators of observed metrics keep the last pass over each partition since then.
_LAST_PASS = SparkVersion(4, 3)


def adds_up_passes(spark: SparkSession) -> bool:
    """Whether the metrics of several passes over one batch are added up."""
    return version_of(spark) < _LAST_PASS
