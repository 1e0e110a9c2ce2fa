"""The soak's four queries: a gate, a guard, a join and a site, in batches as short as can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headgate as hg

__all__ = ["JOBS", "Job"]

#: Records are kept for so long in the soak: a bound that is reached while it runs.
RETENTION_S = 300.0
#: A query ready to be started, from the session and a control folder of its own.
Job = Callable[[SparkSession, Path], DataFrame]

_ROWS = 50


def _events(spark: SparkSession) -> DataFrame:
    """A batch as soon as the one before is over, each a second of event time later."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", _ROWS)
    frame = source.option("advanceMillisPerBatch", 1000).option("numPartitions", 2).load()
    return frame.withColumn("route", F.col("value") % 7)


def gate(spark: SparkSession, control: Path) -> DataFrame:
    """A target that is far away, and value classes; then an aggregation, so that there is state."""
    calm = _events(spark).transform(
        hg.gate("soak-gate", hold="10 seconds", control=control, keep="route = 0", retention=RETENTION_S)
    )
    calm = calm.withWatermark("timestamp", "5 seconds")
    return calm.groupBy(F.window("timestamp", "5 seconds"), "route").agg(F.sum("_weight"))


def guard(spark: SparkSession, control: Path) -> DataFrame:
    """A cheap function; what a guard learns and records is the same as for a dear one."""
    return hg.guard(
        _events(spark), lambda row: {"value": row.value}, schema="value bigint", key="route",
        arrival="timestamp", target=hg.average("1000000 hours"), name="soak-guard", control=control,
        retention=RETENTION_S,
    )  # fmt: skip


def join(spark: SparkSession, control: Path) -> DataFrame:
    """Ten seconds of two streams, on a key."""
    left, right = (_events(spark).withWatermark("timestamp", "2 seconds") for _ in range(2))
    return hg.join(
        left, right, on=hg.equal("value"), within="10 seconds", time="timestamp", name="soak-join",
        hold="10 seconds", control=control, retention=RETENTION_S,
    )  # fmt: skip


def site(spark: SparkSession, control: Path) -> DataFrame:
    """One query of a site."""
    at = hg.Site(spark, "soak", control=control, hold="10 seconds")
    trips = _events(spark).transform(
        at.gate("soak-site", query="trips", source="all", retention=RETENTION_S)
    )
    return trips.groupBy().agg(F.count("*").alias("n"), hg.sic.total()).transform(at.result("trips"))


JOBS: Mapping[str, tuple[Job, str]] = {
    "gate": (gate, "append"),
    "guard": (guard, "append"),
    "join": (join, "append"),
    "site": (site, "complete"),
}
