"""Where a gate stands: behind an aggregation, twice in a query, in front of two frames."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import headgate as hg
from headgate.spark.gate.upstream import Upstream
from headgate.spark.loop.loop import ControlLoop
from headgate.spark.worker_errors import said_by_worker
from headgate.store.ledger.records import queries_of
from tests.spark.conftest import records


@pytest.fixture
def stream(spark):
    return spark.readStream.format("rate").load()


@pytest.mark.matrix
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


def _halves(file_stream, control: Path, **other: Any) -> DataFrame:
    stream = file_stream()
    stream.add([{"id": i, "route": "r", "fare": 1.0} for i in range(500)])
    even, odd = (stream.frame().where(f"id % 2 = {i}") for i in (0, 1))
    gate = {"rate": 0.5, "control": control, "identity": "id"}
    return even.transform(hg.gate("g", **gate)).union(odd.transform(hg.gate("g", **gate | other)))


@pytest.mark.matrix
@pytest.mark.parametrize(
    "other", [{}, {"keep": "fare > 0"}, {"policy": hg.ConceptDriven("route")}], ids=lambda o: str([*o])
)
def test_two_gates_of_one_name_in_a_union_are_refused_in_our_words(
    file_stream, run_all, control: Path, caplog: pytest.LogCaptureFixture, spark, other
) -> None:
    with pytest.raises(StreamingQueryException) as error:
        run_all(_halves(file_stream, control, **other))
    said = said_by_worker(error.value) or ""
    assert said.startswith("gate 'g' is twice in query"), error.value
    assert "Give each gate its own name, or put one gate behind the union" in said
    ControlLoop.of(spark).drain()
    assert "gate 'g' is twice in query" in caplog.text
    assert not queries_of(control, "g") or not records(control, "g"), "nothing was recorded"


def test_two_gates_of_one_name_on_the_two_sides_of_a_join_are_refused(
    spark, file_stream, run_all, control: Path
) -> None:
    left, right = file_stream(name="a"), file_stream(name="b")
    for source in (left, right):
        source.add([{"id": i, "route": "r", "fare": 1.0} for i in range(100)])
    gate = hg.gate("g", rate=0.5, control=control)
    one, other = left.frame().transform(gate), right.frame().transform(gate).drop("_weight")
    with pytest.raises(StreamingQueryException) as error:
        run_all(one.join(other, "id"))
    assert (said_by_worker(error.value) or "").startswith("gate 'g' is twice in query"), error.value


def test_one_gate_behind_a_union_runs(file_stream, run_all, control: Path) -> None:
    left, right = file_stream(name="a"), file_stream(name="b")
    for source in (left, right):
        source.add([{"id": i, "route": "r", "fare": 1.0} for i in range(500)])
    both = left.frame().union(right.frame())
    kept = run_all(both.transform(hg.gate("g", rate=0.5, control=control, identity="id")))
    assert sum(r.arrived for r in records(control, "g")) == 1000
    assert 380 < len(kept) < 620


def test_a_plans_text_without_a_tree_says_nothing() -> None:
    found = Upstream.read([])
    assert not found.aggregated
    assert not found.metrics
