"""Where a gate stands: behind an aggregation, twice in a query, in front of two frames."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

import headgate as hg
from headgate.spark.upstream import Upstream
from tests.spark.conftest import records


@pytest.fixture
def stream(spark):
    return spark.readStream.format("rate").load()


def test_a_target_behind_an_aggregation_is_refused_with_the_next_step(stream, control: Path) -> None:
    counts = stream.groupBy("value").count().where("count > 1")
    for target in ({"hold": "1 second"}, {"delay": "1 second", "arrival": "at"}):
        late = counts.withColumn("at", F.current_timestamp())
        with pytest.raises(hg.BadArgument, match=r"behind an aggregation.*in front of it.*groupBy"):
            late.transform(hg.gate("g", control=control, **target))
    assert not (control / "gates" / "g").exists(), "nothing is left behind by a call that failed"


def test_a_fixed_share_of_results_is_told_and_done(
    stream, control: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "headgate"):
        stream.groupBy("value").count().transform(hg.gate("g", rate=0.5))
    assert "keeps that share of its result rows" in caplog.text


def test_a_sample_of_a_batchs_results_is_a_plain_thing(spark, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "headgate"):
        spark.range(100).groupBy("id").count().transform(hg.gate("g", rate=0.5)).collect()
    assert "aggregation" not in caplog.text


def test_behind_what_only_picks_or_pairs_rows_a_gate_is_legal(stream, spark, control: Path) -> None:
    marked = stream.withWatermark("timestamp", "1 minute")
    other = marked.selectExpr("timestamp as other", "value as v")
    frames = {
        "distinct": marked.dropDuplicates(["value"]),
        "within": marked.dropDuplicatesWithinWatermark(["value"]),
        "join": marked.join(other, F.expr("value = v and other = timestamp")),
        "static": marked.join(spark.range(3).withColumnRenamed("id", "value"), "value"),
        "limit": stream.limit(5),
        "table": stream.join(spark.range(3).groupBy(F.col("id").alias("value")).count(), "value"),
    }
    for name, frame in frames.items():
        assert "_weight" in frame.transform(hg.gate(name, rate=0.5)).columns


def test_one_gate_twice_in_a_chain_is_refused_without_weights_too(stream, control: Path) -> None:
    gated = stream.transform(hg.gate("g", rate=0.5, control=control, weight=False))
    with pytest.raises(hg.BadArgument, match="'g' is already in this query"):
        gated.transform(hg.gate("g", rate=0.5, control=control, weight=False))


def test_two_gates_of_one_name_in_a_union_are_told_before_spark_refuses_them(
    stream, control: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "headgate"):
        even = stream.where("value % 2 = 0").transform(hg.gate("g", rate=0.5, control=control))
        assert "two different DataFrames" not in caplog.text
        odd = stream.where("value % 2 = 1").transform(hg.gate("g", rate=0.5, control=control))
    assert "gate 'g' is in front of two different DataFrames" in caplog.text
    assert "put one gate behind the union" in caplog.text
    with pytest.raises(AnalysisException, match="DUPLICATED_METRICS_NAME"):
        even.union(odd).writeStream.format("noop").start()


def test_the_same_cell_run_again_is_no_namesake(
    spark, control: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = []
    with caplog.at_level(logging.WARNING, "headgate"):
        for _ in range(2):
            frame = spark.readStream.format("rate").load().where("value > 1")
            kept.append(frame.transform(hg.gate("g", rate=0.5, control=control)))
    assert "two different DataFrames" not in caplog.text


def test_one_gate_behind_a_union_runs(file_stream, run_all, control: Path) -> None:
    left, right = file_stream(name="a"), file_stream(name="b")
    for source in (left, right):
        source.add([{"id": i, "route": "r", "fare": 1.0} for i in range(500)])
    both = left.frame().union(right.frame())
    kept = run_all(both.transform(hg.gate("g", rate=0.5, control=control, identity="id")))
    assert sum(r.arrived for r in records(control, "g")) == 1000
    assert 380 < len(kept) < 620


def test_a_plans_text_without_a_tree_says_nothing() -> None:
    found = Upstream.read("")
    assert not found.aggregated
    assert not found.metrics
