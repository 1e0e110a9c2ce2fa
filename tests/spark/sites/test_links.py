"""Links over files, and bad use of both kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import headgate as hg
from headgate.errors import BadArgument, ControlFolderError, UnknownColumn, WrongKindOfFrame

SCHEMA = "at timestamp, id int, _sic double"


def _rows(spark: Any) -> Any:
    return spark.range(50).select(
        F.timestamp_micros(F.lit(1_700_000_000_000_001) + F.col("id")).alias("at"),
        F.col("id").cast("int").alias("id"),
        F.lit(1 / 3).alias("_sic"),
    )


def test_rows_and_their_worth_arrive_as_they_were(spark: Any, tmp_path: Path) -> None:
    rows = _rows(spark)
    rows.write.parquet(str(tmp_path / "in"))
    link = hg.FileLink(tmp_path / "link", SCHEMA)
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
    writer = link.write(stream).option("checkpointLocation", str(tmp_path / "out"))
    writer.trigger(availableNow=True).start().awaitTermination()
    reader = link.read(spark).writeStream.format("memory").queryName("file_link").outputMode("append")
    reader.trigger(availableNow=True).start().awaitTermination()
    came = spark.table("file_link")
    assert came.count() == 50
    assert came.exceptAll(rows).count() == 0


def test_what_is_no_row_is_worth_nothing(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "link").mkdir()
    lines = ["no json", '{"id":1,"_sic":"a lot"}', '{"id":2,"_sic":-5.0}', '{"id":3,"_sic":0.5}']
    (tmp_path / "link" / "a.txt").write_text("\n".join(lines) + "\n")
    came = hg.FileLink(tmp_path / "link", SCHEMA).read(spark)
    with hg.Site(spark, "links", control=tmp_path / "control") as site:
        gated = came.transform(site.gate("links-in", query="q"))
        writer = gated.writeStream.format("memory").queryName("bad_link").outputMode("append")
        writer.trigger(availableNow=True).start().awaitTermination()
    found = {row["id"]: row["_sic"] for row in spark.table("bad_link").collect()}
    assert found == {None: 0.0, 1: 0.0, 2: 0.0, 3: 0.5}


def test_a_frame_without_a_worth_cannot_be_sent(spark: Any, tmp_path: Path) -> None:
    rate = spark.readStream.format("rate").load()
    with pytest.raises(UnknownColumn, match="_sic"):
        hg.FileLink(tmp_path / "link", SCHEMA).write(rate)


@pytest.mark.parametrize("link", ["file", "kafka"])
@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (["at", "_sic"], "id int is missing"),
        (["at", "id", "_sic", "7 as more"], "more is not in the link's schema"),
        (["at", "id + 0L as id", "_sic"], "id is bigint and the link has int"),
    ],
)
def test_rows_that_do_not_fit_the_link_are_refused(
    spark: Any, tmp_path: Path, columns: list[str], says: str, link: str
) -> None:
    _rows(spark).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(_rows(spark).schema).parquet(str(tmp_path / "in"))
    to = hg.FileLink(tmp_path / "l", SCHEMA) if link == "file" else hg.KafkaLink("b:1", "t", SCHEMA)
    with pytest.raises(BadArgument, match=f"{says}.*schema="):
        to.write(stream.selectExpr(*columns))


def test_a_batch_frame_cannot_be_sent(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(WrongKindOfFrame, match="a link is for streams"):
        hg.FileLink(tmp_path / "link", SCHEMA).write(_rows(spark))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda p: hg.FileLink(p, "at timestamp"), "has no _sic"),
        (lambda p: hg.FileLink("", SCHEMA), "path=''"),
        (lambda p: hg.FileLink(None, SCHEMA), "path=None"),
        (lambda p: hg.FileLink(p, "no such type"), "is no list of columns"),
        (lambda p: hg.KafkaLink("broker", "t", SCHEMA), "host:9092"),
        (lambda p: hg.KafkaLink("broker:1", "a topic", SCHEMA), "as Kafka asks"),
    ],
)
def test_bad_use(make: Any, says: str, tmp_path: Path, spark: Any) -> None:
    with pytest.raises(BadArgument, match=says):
        make(tmp_path)


def test_a_folder_that_cannot_be(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ControlFolderError, match="cannot be used"):
        hg.FileLink(tmp_path / "file" / "link", SCHEMA).read(spark)
