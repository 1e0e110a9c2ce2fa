"""An identity that changes when a batch runs again, or is read again, is refused at the call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import headgate as hg
from headgate.spark.gate.lineage import require_stable
from headgate.spark.loop.loop import ControlLoop

SCHEMA = "id bigint, route string"


def _any_number() -> Any:
    return F.udf(lambda x: 4, "int").asNondeterministic()


#: Made when a session is there.
CHANGING = {
    "uuid": lambda: F.expr("uuid()"),
    "seeded": lambda: F.rand(7),
    "randn": lambda: F.randn(),
    "counter": lambda: F.monotonically_increasing_id(),
    "now": lambda: F.current_timestamp(),
    "today": lambda: F.current_date(),
    "local": lambda: F.localtimestamp(),
    "epoch": lambda: F.expr("unix_timestamp()"),
    "inside": lambda: F.concat(F.col("route"), F.date_format(F.expr("now()"), "HH")),
    "shuffled": lambda: F.shuffle(F.array(F.lit(1), F.lit(2))),
    "partition": lambda: F.spark_partition_id(),
    "udf": lambda: _any_number()(F.col("id")),
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", CHANGING)
def test_a_column_that_changes_is_refused_as_part_of_the_identity(
    file_stream, control: Path, name: str
) -> None:
    frame = file_stream(SCHEMA).frame().withColumn("odd", CHANGING[name]())
    with pytest.raises(
        hg.BadArgument, match=r"the column `odd` is made by .*give identity=, the columns"
    ):
        frame.transform(hg.gate("g", rate=0.5, control=control))
    deeper = frame.where("id > 1").selectExpr("id", "struct(odd) as s")
    with pytest.raises(hg.BadArgument, match="the column `s` is made by"):
        deeper.transform(hg.gate("g", rate=0.5, control=control))
    deeper.transform(hg.gate("g", rate=0.5, identity="id", control=control))


def test_a_generated_or_united_column_that_changes_is_refused(spark, file_stream, control: Path) -> None:
    frame = file_stream(SCHEMA).frame()
    made = frame.selectExpr("id", "explode(array(rand(), 1.0)) as x")
    with pytest.raises(hg.BadArgument, match="the column `x`"):
        made.transform(hg.gate("g", rate=0.5, control=control))
    both = frame.select("id").union(frame.selectExpr("cast(rand() * 9 as bigint) id"))
    with pytest.raises(hg.BadArgument, match="the column id"):
        both.transform(hg.gate("g", rate=0.5, identity="id", control=control))


@pytest.mark.matrix
def test_columns_that_stay_are_taken(file_stream, control: Path) -> None:
    frame = file_stream(SCHEMA).frame()
    more = frame.selectExpr(
        "*",
        "input_file_name() file",
        "'rand() now()' as text",
        "timestamp '2026-01-01' as t",
        "hash(id) h",
    )
    more.transform(hg.gate("g", rate=0.5, control=control))
    pure = F.udf(lambda x: x, "bigint")
    frame.withColumn("p", pure("id")).transform(hg.gate("g", rate=0.5, control=control))


def test_a_predicate_by_chance_is_refused_and_one_by_date_is_not(file_stream, control: Path) -> None:
    frame = file_stream(SCHEMA).frame()
    with pytest.raises(hg.BadArgument, match="decided by chance"):
        frame.transform(hg.gate("g", rate=0.5, keep="rand() < 0.1", control=control))
    require_stable(frame, "g", ["id"], ["year(current_date()) = 2020"])


def test_the_time_of_a_batch_is_the_same_when_it_runs_again(
    spark, file_stream, control: Path, tmp_path: Path
) -> None:
    """Spark keeps it in the offset log; but nobody who reads the batch later knows it."""
    stream = file_stream(SCHEMA)
    stream.add([{"id": 1, "route": "r"}])
    seen: list[Any] = []
    broken = [True, False]

    def note(frame: DataFrame, batch: int) -> None:
        seen.append(frame.collect()[0].now)
        if broken.pop(0):
            raise RuntimeError("the sink is away")

    for attempt in range(2):
        writer = stream.frame().withColumn("now", F.current_timestamp()).writeStream.foreachBatch(note)
        query = (
            writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
        )
        if attempt == 0:
            with pytest.raises(StreamingQueryException):
                query.awaitTermination()
        else:
            query.awaitTermination()
    assert seen[0] == seen[1]
    ControlLoop.of(spark).drain()
