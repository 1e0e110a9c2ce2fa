"""What a gate notes of how its rows are made, and what is followed again: nothing that could do harm."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import headgate as hg
from headgate.spark.loop.loop import ControlLoop
from headgate.spark.recipe.options import keepable
from headgate.spark.recipe.reader import _loader, reader_of
from headgate.spark.recipe.recipe import Recipe, recipe_of
from headgate.spark.recipe.steps import Step, follow
from tests.eventually import eventually
from tests.spark.conftest import records

SCHEMA = "id bigint, route string, fare double, at timestamp, tags array<string>"


@pytest.fixture
def stream(spark, tmp_path: Path):
    (tmp_path / "in").mkdir()
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))


def _plain(frame: Any) -> Any:
    frame = frame.where("fare > 0 and route like 'r%'").withColumn("far", F.col("fare") * 2 > 7)
    frame = frame.withWatermark("at", "1 hour").selectExpr(
        "id", "upper(route) as `the route`", "cast(fare as decimal(10,2)) fare", "tags[0] as first",
        "case when id in (1, 2) then 'it''s' else concat(route, '\\\\x') end as word", "far",
        "to_timestamp('2020-01-02', 'yyyy-MM-dd') as t",
    )  # fmt: skip
    return frame.withColumn("j", F.from_json(F.col("word"), "a int, `b c` array<string>")).select(
        "*", F.col("j.a").alias("a")
    )


def test_plain_steps_are_noted_and_make_the_same_rows(spark, stream) -> None:
    recipe = recipe_of(_plain(stream))
    assert recipe is not None
    assert (recipe.source, recipe.unknown) == ("json", "")
    rows = [(i, f"r{i % 3}" if i % 4 else None, i - 2.0, None, ["a", "b"]) for i in range(12)]
    rows += [(99, "r1", 5.0, None, None)]
    batch = spark.createDataFrame(rows, SCHEMA)
    followed = follow(batch, recipe.steps, "g")
    assert followed.schema == _plain(batch).schema
    assert sorted(map(str, followed.collect())) == sorted(map(str, _plain(batch).collect()))


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (lambda f: f.withColumn("x", F.udf(lambda v: v, "bigint")("id")), "PythonUDF"),
        (lambda f: f.dropDuplicates(["id"]), "Deduplicate"),
        (lambda f: f.withColumn("tag", F.explode("tags")), "no plain step"),
        (lambda f: f.selectExpr("*", "reflect('java.lang.Math', 'abs', 1) x"), "CallMethodViaReflect"),
        (lambda f: f.alias("e").where("e.id > 3"), "alias"),
        (lambda f: f.unionByName(f), "brings several frames together"),
    ],
)  # fmt: skip
def test_a_step_that_cannot_be_noted_asks_for_prepare(spark, stream, step: Any, why: str) -> None:
    recipe = recipe_of(step(stream))
    if recipe is None:  # two sources: nothing is known
        assert why.startswith("brings several")
        return
    assert why in recipe.unknown
    assert recipe.steps == ()
    with pytest.raises(hg.BadArgument, match="give prepare="):
        reader_of(spark, "g", recipe, checkpoint="/nowhere")


def test_secrets_are_never_noted(spark) -> None:
    given = {
        "kafka.bootstrap.servers": "b:9092", "subscribe": "t", "includeHeaders": "true",
        "startingOffsets": "earliest", "kafka.sasl.jaas.config": "password='hunter2'",
        "kafka.ssl.keystore.password": "hunter3", "kafka.isolation.level": "read_committed",
    }  # fmt: skip
    kept, asked = keepable("kafka", given)
    assert "hunter" not in json.dumps(kept)
    assert asked == ["kafka.sasl.jaas.config", "kafka.ssl.keystore.password"]
    assert kept["includeheaders"] == "true"
    assert "startingoffsets" not in kept
    assert keepable("json", {"path": "s3a://key:secret@bucket/x"}) == ({}, ["path"])
    recipe = Recipe("kafka", kept, tuple(asked))
    with pytest.raises(hg.BadArgument, match=r"keystore.password, kafka.bootstrap.servers"):
        reader_of(spark, "g", recipe, options={"kafka.sasl.jaas.config": "x"})
    # Whoever brings a password says whom it is for, whatever the store says.
    with pytest.raises(hg.BadArgument, match=r"kafka.bootstrap.servers"):
        reader_of(spark, "g", replace(recipe, asked=()), options={"kafka.sasl.jaas.config": "x"})


PLANTED = "java_method('java.lang.System', 'setProperty', 'headgate.recipe', 'yes') is null"


def test_what_somebody_planted_in_the_store_is_not_run(spark, control: Path) -> None:
    batch = spark.range(3)
    for step in (Step(where=PLANTED), Step(select=((PLANTED, "x"),)), Step(where="id in (select 1)")):
        with pytest.raises(hg.SnapshotError, match="harmless on its face"):
            follow(batch, [step], "g")
    assert spark._jvm.java.lang.System.getProperty("headgate.recipe") is None
    for recipe, says in (
        (Recipe("jdbc", {}), "source 'jdbc'"),
        (Recipe("kafka", {"kafka.sasl.jaas.config": "x"}), "kafka.sasl.jaas.config"),
    ):
        recipe.save(control, "g")
        with pytest.raises(hg.SnapshotError, match=says):
            Recipe.load(control, "g", recipe.digest)
    udt = {"type": "udt", "pyClass": "os.system", "sqlType": "long"}
    schema = {"type": "struct", "fields": [{"name": "x", "type": udt, "nullable": True, "metadata": {}}]}
    with pytest.raises(hg.SnapshotError, match="user-defined type"):
        Recipe("json", schema=schema).read_schema()
    with pytest.raises(hg.BadArgument, match="no path of a Delta table"):
        reader_of(spark, "g", Recipe("delta", table="x; DROP TABLE y"))


def test_a_recipe_that_was_changed_is_noticed(spark, stream, control: Path) -> None:
    recipe = recipe_of(_plain(stream))
    assert recipe is not None
    recipe.save(control, "g")
    assert Recipe.load(control, "g", recipe.digest) == recipe
    path = control / "gates" / "g" / "recipes" / f"{recipe.digest}.json"
    path.write_text(path.read_text().replace("fare", "fate"))
    with pytest.raises(hg.SnapshotError, match="somebody changed it"):
        Recipe.load(control, "g", recipe.digest)


def test_a_session_that_makes_other_rows_of_the_same_steps_is_refused(spark, stream) -> None:
    recipe = recipe_of(_plain(stream))
    assert recipe is not None
    assert all(recipe.settings.values()), "what holds, set or not"
    other = replace(recipe, settings={**recipe.settings, "spark.sql.session.timeZone": "Asia/Tokyo"})
    with pytest.raises(
        hg.BadArgument, match=r"spark.conf.set\('spark.sql.session.timeZone', 'Asia/Tokyo'"
    ):
        reader_of(spark, "g", other, checkpoint="/nowhere")


@pytest.mark.parametrize("kind", ["csv", "json", "orc", "parquet", "text", "xml"])
def test_files_of_every_format_are_read_as_the_stream_read_them(
    spark, tmp_path: Path, kind: str
) -> None:
    rows = spark.createDataFrame([(1, "a"), (2, None), (3, "c;d")], "id bigint, word string")
    options = {"header": "true", "sep": ";"} if kind == "csv" else {}
    if kind == "xml":
        options = {"rowTag": "row"}
    if kind == "text":
        rows = rows.selectExpr("concat(id, coalesce(word, '')) as value")
    else:
        rows = rows.withColumn("day", F.col("id") % 2)
    writer = rows.coalesce(1).write.format(kind).options(**options)
    folder = tmp_path / "in"
    (writer if kind == "text" else writer.partitionBy("day")).save(str(folder))
    schema = "value string" if kind == "text" else "id bigint, word string, day bigint"
    frame = spark.readStream.format(kind).schema(schema).options(**options).load(str(folder))
    recipe = recipe_of(frame)
    assert recipe is not None
    files = [str(f) for f in folder.rglob("part-*")]
    again = _loader(spark, recipe, recipe.options)(files)
    assert sorted(map(str, again.collect())) == sorted(map(str, rows.select(again.columns).collect()))


@pytest.mark.parametrize("kind", ["rate", "rate-micro-batch"])
def test_a_rate_source_is_made_again(spark, control: Path, tmp_path: Path, kind: str) -> None:
    options = {"rowsPerSecond": 300} if kind == "rate" else {"rowsPerBatch": 200, "startTimestamp": 5000}
    frame = (
        spark.readStream.format(kind).options(**options).load().selectExpr("value as id", "timestamp")
    )
    kept: list[int] = []

    def take(frame: Any, batch: int) -> None:
        kept.extend(row.id for row in frame.collect())

    writer = frame.transform(hg.gate("r", rate=0.5, control=control)).writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    eventually(lambda: len(kept) > 250, "two batches or more")
    query.stop()
    ControlLoop.of(spark).drain()
    late: list[int] = []
    done = hg.repay(spark, "r", control, lambda f, slice_id: late.extend(r.id for r in f.collect()))
    assert done.left_open == {}, "timestamps are part of the fingerprint, too"
    assert done.rows == len(late) > 0
    recorded = sum(record.arrived for record in records(control, "r"))
    assert set(late) & set(kept) == set()
    assert set(range(recorded)) <= {*kept, *late}, "the last batch may have been stopped in the middle"
    assert len(set(late)) == len(late)
