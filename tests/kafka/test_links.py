"""A link over a real broker: rows and what they are worth arrive, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import headgate as hg

SCHEMA = "at timestamp, id int, value double, _sic double"


def test_rows_and_their_worth_go_through_a_topic(
    kafka_spark: Any, broker: Any, topic: Any, tmp_path: Path
) -> None:
    spark = kafka_spark
    source = tmp_path / "in"
    rows = spark.range(100).select(
        F.timestamp_seconds(F.col("id") / 7).alias("at"),
        F.col("id").cast("int").alias("id"),
        (F.col("id") / 3).alias("value"),
        F.lit(0.01).alias("_sic"),
    )
    rows.write.parquet(str(source))
    stream = spark.readStream.schema(rows.schema).parquet(str(source))
    link = hg.KafkaLink(broker.bootstrap, topic("rows"), SCHEMA)
    for _ in range(2):  # the second time there is nothing new
        writer = link.write(stream).option("checkpointLocation", str(tmp_path / "out"))
        writer.trigger(availableNow=True).start().awaitTermination()
    reader = link.read(spark).writeStream.format("memory").queryName("link_rows").outputMode("append")
    reader.trigger(availableNow=True).start().awaitTermination()
    came = spark.table("link_rows")
    assert came.count() == 100
    assert came.exceptAll(rows).count() == 0
    assert came.agg(F.sum("_sic")).first()[0] == pytest.approx(1.0)
