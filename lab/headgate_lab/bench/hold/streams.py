"""Frames for the process that runs queries: where rows come from, and what is asked of them.

pyspark alone, for the same reason as in `orders`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate_lab.bench.hold.orders import Query, Source

__all__ = ["ARRIVAL", "EVENT", "answers", "arrivals", "measured", "medians", "truth"]

#: When a row arrived, and its event time, which is the same in every run of a schedule.
ARRIVAL, EVENT = "timestamp", "at"
#: Copies of one row of the rate source are numbered below this.
_MOST_COPIES = 100_000


def arrivals(spark: SparkSession, source: Source, query: Query, metric: str) -> DataFrame:
    """A stream of `timestamp, value`, and `at` where results are wanted. What sheds stands here.

    What stands between the source and a gate is paid for rows that are shed, too, so `measured` makes
    the query's columns behind it. (Of a filter Spark knows that, and moves it.)

    `metric` is the name under which Spark reports how many `rows` there are and when they arrived. They
    are counted where a message still stands for all of its rows: a meter of the benchmark's that every
    row passes would take as long as a gate's own, and the time of it would be the gate's fault.
    """
    if source.kind == "rate":
        return _arrived(_multiplied(spark, source, metric), query)
    reader = spark.readStream
    if source.kind == "kafka":
        reader = reader.format("kafka").option("startingOffsets", "earliest")
        reader = reader.options(**_kafka(source))
        if source.cap is not None:
            reader = reader.option("maxOffsetsPerTrigger", source.cap)
        return _arrived(_unpacked(reader.load(), metric), query)
    if source.cap is not None:
        reader = reader.option("maxFilesPerTrigger", source.cap)
    return _arrived(_unpacked(reader.text(source.folder), metric), query)


def _kafka(source: Source) -> dict[str, str]:
    return {"kafka.bootstrap.servers": source.bootstrap, "subscribe": source.topic}


def _counted(units: DataFrame, metric: str, rows: Column) -> DataFrame:
    """Units that stand for so many rows each, with their sum and arrivals as a metric."""
    came = F.when(rows > 0, F.col(ARRIVAL))
    arrived = (
        F.unix_micros(F.min(came)).alias("oldest"),
        F.unix_micros(F.max(came)).alias("newest"),
    )
    return units.observe(metric, F.coalesce(F.sum(rows), F.lit(0)).alias("rows"), *arrived)


def _multiplied(spark: SparkSession, source: Source, metric: str) -> DataFrame:
    """The rate source's rows, each as often as the load of its instant says."""
    rows = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", source.rows_per_second)
        .option("numPartitions", 2)
        .load()
    )
    since = F.unix_micros(ARRIVAL) / F.lit(1e6) - F.lit(source.began)
    place = F.greatest(F.lit(1), F.least(F.lit(len(source.copies)), F.floor(since / source.tick_s) + 1))
    copies = F.element_at(F.array(*[F.lit(c) for c in source.copies]), place.cast("int"))
    units = rows.select(ARRIVAL, F.col("value").alias("first"), copies.alias("copies"))
    units = _counted(units, metric, F.col("copies"))
    each = F.when(F.col("copies") > 0, F.sequence(F.lit(1), F.col("copies")))
    numbered = units.select(ARRIVAL, "first", F.explode(each).alias("copy"))
    value = (F.col("first") * F.lit(_MOST_COPIES) + F.col("copy")).alias("value")
    return numbered.select(ARRIVAL, F.col(ARRIVAL).alias(EVENT), value)


def _unpacked(messages: DataFrame, metric: str | None = None) -> DataFrame:
    """The rows that messages stand for, counted where somebody names a metric."""
    parts = F.split(F.col("value").cast("string"), ",")
    read = messages.select(parts.alias("parts")).select(
        F.timestamp_millis(F.col("parts")[3].cast("long")).alias(ARRIVAL),
        F.timestamp_millis(F.col("parts")[2].cast("long")).alias(EVENT),
        F.col("parts")[0].cast("long").alias("first"),
        F.col("parts")[1].cast("long").alias("rows"),
    )
    if metric is not None:
        read = _counted(read, metric, F.col("rows"))
    ids = F.sequence(F.col("first"), F.col("first") + F.col("rows") - 1)
    return read.select(ARRIVAL, EVENT, F.explode(ids).alias("value"))


def _arrived(rows: DataFrame, query: Query) -> DataFrame:
    return rows.select(ARRIVAL, EVENT, "value") if query.results else rows.select(ARRIVAL, "value")


def measured(rows: DataFrame, query: Query) -> DataFrame:
    """With the demo's `road, speed`; where results are judged, speeds that differ by road and time."""
    rows = rows.withColumn("road", F.pmod(F.xxhash64("value"), F.lit(query.roads)).cast("int"))
    if query.results:
        return rows.withColumn("speed", _skewed())
    return rows.withColumn(
        "speed", F.pmod(F.xxhash64("value", F.lit("speed")), F.lit(200)).cast("double")
    )


def _skewed() -> Column:
    """Whole numbers, exponential beyond a least speed that is each road's own and swings in a minute."""
    luck = (F.pmod(F.xxhash64("value", F.lit("speed")), F.lit(999_983)) + 1) / F.lit(1_000_000.0)
    swing = F.sin(F.unix_millis(EVENT) / F.lit(60_000.0) * F.lit(6.283185))
    least = F.lit(30.0) + F.col("road") % 50 + F.lit(15.0) * swing
    return F.round(least - F.lit(30.0) * F.log(luck)).cast("double")


def medians(rows: DataFrame, query: Query) -> DataFrame:
    """The exact median speed of each road over the last window, every slide: the demo's query."""
    windows = F.window(ARRIVAL, query.window, f"{query.slide_s} seconds")
    late = rows.withWatermark(ARRIVAL, query.watermark)
    return late.groupBy(windows, "road").agg(F.median("speed").alias("speed"))


def answers(rows: DataFrame, query: Query, weight: Column) -> DataFrame:
    """Mean and exact median of each window and road, of rows that each stand for `weight` of them.

    One expression for all who are compared. Spark's percentile takes whole frequencies, so weights are
    hundredths there.
    """
    windows = F.window(EVENT, query.window, f"{query.slide_s} seconds")
    often = F.round(100 * weight).cast("long")
    return _asked(rows.withWatermark(EVENT, query.watermark), windows, weight, often)


def _asked(rows: DataFrame, windows: Column, weight: Column, often: Column) -> DataFrame:
    return rows.groupBy(windows.alias("window"), "road").agg(
        (F.sum(F.col("speed") * weight) / F.sum(weight)).alias("mean"),
        F.percentile("speed", F.lit(0.5), often).alias("median"),
        F.count(F.lit(1)).alias("rows"),
    )


def truth(spark: SparkSession, source: Source, query: Query) -> DataFrame:
    """What the query says of all that arrived.

    Counted by slide, road and speed first: a window is whole slides, and a row need not be taken into
    five of them one by one.
    """
    if source.kind == "kafka":
        messages = spark.read.format("kafka").options(**_kafka(source)).load()
    else:
        messages = spark.read.text(source.folder)
    slide_ms = 1000 * query.slide_s
    begin = F.timestamp_millis(F.floor(F.unix_millis(EVENT) / slide_ms) * slide_ms).alias(EVENT)
    rows = measured(_unpacked(messages), query)
    counted = rows.groupBy(begin, "road", "speed").agg(F.count(F.lit(1)).alias("often"))
    windows = F.window(EVENT, query.window, f"{query.slide_s} seconds")
    return counted.groupBy(windows.alias("window"), "road").agg(
        (F.sum(F.col("speed") * F.col("often")) / F.sum("often")).alias("mean"),
        F.percentile("speed", F.lit(0.5), F.col("often")).alias("median"),
        F.sum("often").alias("rows"),
    )
