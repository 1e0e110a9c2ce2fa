"""A link over a real broker: rows and what they are worth arrive, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import headgate as hg

SCHEMA = "at timestamp, id int, value double, _sic double"


@pytest.mark.matrix
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


def test_a_reader_may_start_before_anybody_has_written(
    kafka_spark: Any, broker: Any, topic: Any, tmp_path: Path
) -> None:
    spark = kafka_spark
    link = hg.KafkaLink(broker.bootstrap, f"{topic('early')}-later", SCHEMA)
    reader = link.read(spark).writeStream.format("memory").queryName("link_early").outputMode("append")
    query = reader.option("checkpointLocation", str(tmp_path / "in")).start()
    try:
        query.processAllAvailable()
        assert spark.table("link_early").count() == 0
        rows = spark.range(3).selectExpr("now() at", "int(id) id", "1.0D value", "0.1D _sic")
        rows.write.parquet(str(tmp_path / "rows"))
        stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "rows"))
        writer = link.write(stream).option("checkpointLocation", str(tmp_path / "out"))
        writer.trigger(availableNow=True).start().awaitTermination()
        query.processAllAvailable()
        assert spark.table("link_early").count() == 3
    finally:
        query.stop()


def test_a_broker_that_is_not_there(kafka_spark: Any) -> None:
    link = hg.KafkaLink("127.0.0.1:1", "t", SCHEMA, {"kafka.default.api.timeout.ms": "1000"})
    with pytest.raises(hg.BadArgument, match=r"topic 't' cannot be asked for at 127.0.0.1:1 .*servers="):
        link.read(kafka_spark)
