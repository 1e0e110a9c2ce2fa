"""Estimates that a backfill makes exact: the figure of a key, and its error bar."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import headgate as hg
from headgate.spark.loop.loop import ControlLoop
from tests.harness.session_settings import FEW_ROWS, with_settings
from tests.spark.conftest import FileStream

N, BATCHES = 600, 2
SCHEMA = "id bigint, route string, fare double"


@pytest.fixture(scope="module", autouse=True)
def _few_rows(spark) -> Iterator[None]:
    with with_settings(spark, FEW_ROWS):
        yield


@pytest.fixture(scope="module")
def folder(spark, _few_rows: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A query that leaves parts of its kept rows, each batch twice as if it had run again."""
    at = tmp_path_factory.mktemp("repaired")
    stream = FileStream(spark, at / "in", SCHEMA)
    for batch in range(BATCHES):
        ids = range(batch * N, (batch + 1) * N)
        stream.add([{"id": i, "route": None if i % 5 == 4 else f"r{i % 5}", "fare": i % 7} for i in ids])
    totals = hg.Repairable(by="route", sums="fare")

    def keep(frame: DataFrame, batch: int) -> None:
        frame.persist()  # older Sparks add up what two passes count
        for _ in range(2):
            totals.save(totals.kept(frame, batch), at / "parts", f"batch-{batch}")
        frame.unpersist()

    gated = stream.frame().transform(hg.gate("g", rate=0.4, control=at / "control"))
    writer = gated.writeStream.foreachBatch(keep)
    writer = writer.option("checkpointLocation", str(at / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    ControlLoop.of(spark).drain()
    return at


@pytest.mark.matrix
def test_the_exact_figure_replaces_the_estimate_as_batches_are_repaid(spark, folder: Path) -> None:
    totals = hg.Repairable(by="route", sums="fare")
    truth = {
        row.route: (row.n, row.f)
        for row in spark.read.schema(SCHEMA).json(str(folder / "in"))
        .groupBy("route").agg(F.count("id").alias("n"), F.sum("fare").alias("f")).collect()
    }  # fmt: skip

    def seen() -> dict[str | None, object]:
        parts = spark.read.parquet(str(folder / "parts"))
        done = hg.repaid_batches(folder / "control", "g")
        return {row.route: row for row in totals.result(parts, done).collect()}

    def repair(frame: DataFrame, slice_id: str) -> None:
        for _ in range(2):  # as if it had died after the first time
            totals.save(totals.shed(frame), folder / "parts", slice_id)

    before = seen()
    assert before.keys() == truth.keys(), "no value is a key, too"
    for route, row in before.items():
        assert not row.exact
        assert row.rows_stderr > 0
        assert abs(row.rows - truth[route][0]) < 5 * row.rows_stderr
        assert abs(row.fare - truth[route][1]) < 5 * row.fare_stderr
    hg.repay(spark, "g", folder / "control", repair, batches=[0])
    half = seen()
    for route, row in half.items():
        assert not row.exact
        assert 0 < row.rows_stderr < before[route].rows_stderr, "the error of the other batch is left"
    assert hg.repay(spark, "g", folder / "control", repair).complete
    for route, row in seen().items():
        assert row.exact
        assert (row.rows, row.fare) == truth[route]
        assert (row.rows_stderr, row.fare_stderr) == (0.0, 0.0)


def test_parts_of_a_batch_that_is_not_marked_do_not_count_twice(spark, folder: Path) -> None:
    """A slice that was written and not marked: its batch is still the estimate's."""
    totals = hg.Repairable(by="route")
    kept = spark.createDataFrame([("a", 2.0), ("a", 2.0)], "route string, _weight double")
    late = spark.createDataFrame([("a", 7), ("a", 7)], "route string, _batch int")
    parts = totals.kept(kept, 7).unionByName(totals.shed(late))
    (open_,) = totals.result(parts, []).collect()
    (done,) = totals.result(parts, [7]).collect()
    assert (open_.rows, open_.exact, done.rows, done.exact) == (4.0, False, 4.0, True)
    assert (open_.rows_stderr, done.rows_stderr) == (2.0, 0.0), "the root of 2 * w (w - 1)"


def test_what_cannot_be_is_said(spark) -> None:
    rows = spark.createDataFrame([("a",)], "route string")
    with pytest.raises(hg.UnknownColumn, match="_weight"):
        hg.Repairable(by="route").kept(rows, 0)
    with pytest.raises(hg.UnknownColumn, match="_batch"):
        hg.Repairable(by="route").shed(rows)
    with pytest.raises(hg.BadArgument, match="each column once"):
        hg.Repairable(by="route", sums="route")
    with pytest.raises(hg.BadArgument, match="rename yours"):
        hg.Repairable(by="route", sums="rows")
    with pytest.raises(hg.BadArgument, match="slice's id"):
        hg.Repairable(by="route").save(rows, "/x", "../up")
