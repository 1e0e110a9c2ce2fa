"""The demo's stream: speeds on some hundred roads, and their exact median over a sliding window.

A sliding exact median is a job that people really run and that Spark finds expensive: every row
belongs to five windows, and every group keeps all of its values. The rows come from Spark's own rate
source, which stamps each row with the instant at which it was due, however late it is read; so a
row's delay is known without a broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headgate.durations import Duration, seconds
from headgate.errors import BadArgument
from headgate.spark.session import check_session  # first: it says which extra is missing

# isort: split
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["ARRIVAL", "Workload"]

#: The column that says when a row arrived.
ARRIVAL = "timestamp"


@dataclass(frozen=True)
class Workload:
    """The same query on both sides of the comparison; only the gate in front of it differs."""

    roads: int = 300
    window: str = "10 seconds"
    slide: str = "2 seconds"
    watermark: str = "2 seconds"
    trigger: Duration = "1 second"
    partitions: int = 2

    def __post_init__(self) -> None:
        if self.roads < 1:
            raise BadArgument(f"roads={self.roads} is not a number of groups: give 1 or more")
        seconds(self.trigger, "trigger")

    @property
    def trigger_s(self) -> float:
        """The trigger's interval in seconds."""
        return seconds(self.trigger, "trigger")

    def arrivals(self, spark: SparkSession, rows_per_second: int) -> DataFrame:
        """A stream of `timestamp, value`; `value` numbers the rows, from 0. A gate stands here.

        What stands between the source and a gate is paid for rows that are shed, too, so the query
        makes its columns behind it.
        """
        check_session(spark)
        return (
            spark.readStream.format("rate")
            .option("rowsPerSecond", str(rows_per_second))
            .option("numPartitions", str(self.partitions))
            .load()
        )

    def _measured(self, rows: DataFrame) -> DataFrame:
        """A speed on a road, from any stream of `timestamp, value`."""
        return rows.select(
            ARRIVAL,
            F.pmod(F.xxhash64("value"), F.lit(self.roads)).cast("int").alias("road"),
            F.pmod(F.xxhash64("value", F.lit("speed")), F.lit(200)).cast("double").alias("speed"),
        )

    def medians(self, rows: DataFrame) -> DataFrame:
        """The query: the exact median speed of each road over the last window, every slide."""
        windows = F.window(ARRIVAL, self.window, self.slide)
        late = self._measured(rows).withWatermark(ARRIVAL, self.watermark)
        return late.groupBy(windows, "road").agg(F.median("speed").alias("speed"))

    def start(self, rows: DataFrame, checkpoint: Path) -> StreamingQuery:
        """Run the query on these rows; its results go nowhere."""
        writer = self.medians(rows).writeStream.format("noop").outputMode("update")
        writer = writer.option("checkpointLocation", str(checkpoint))
        return writer.trigger(processingTime=f"{round(1000 * self.trigger_s)} milliseconds").start()
