"""A gate joins a query that has a checkpoint and state without it, and leaves it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headgate as hg
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger
from tests.harness.session_settings import FEW_ROWS, with_settings
from tests.spark.conftest import FileStream

ROWS = 300


def test_a_gate_is_added_to_an_aggregation_that_runs_and_taken_away_again(
    spark: SparkSession, file_stream, control: Path, tmp_path: Path
) -> None:
    """To Spark it is a filter: the state of the aggregation goes on, with `weight=False`."""
    stream: FileStream = file_stream("id bigint, route string")
    totals: dict[str, int] = {}

    def run(gated: bool) -> None:
        frame = stream.frame()
        if gated:
            frame = frame.transform(hg.gate("late", rate=0.5, weight=False, control=control))
        counts = frame.groupBy("route").agg(F.count("*").alias("n"))

        def take(rows: DataFrame, batch: int) -> None:
            found: list[Any] = rows.collect()
            totals.update({row.route: row.n for row in found})

        writer = counts.writeStream.outputMode("update").foreachBatch(take)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        ControlLoop.of(spark).drain()

    with with_settings(spark, FEW_ROWS):
        for turn, gated in enumerate((False, True, False)):
            stream.add([{"id": turn * ROWS + i, "route": f"r{i % 3}"} for i in range(ROWS)])
            run(gated)
    (found,) = audit(control, "late")
    assert found.complete, found.to_json()
    records = Ledger(control, "late", found.query).records()
    assert list(records) == [1]
    assert records[1].arrived == ROWS
    assert 0 < records[1].kept < ROWS
    assert sum(totals.values()) == 2 * ROWS + records[1].kept, "state from before, during and after"
    assert set(totals) == {"r0", "r1", "r2"}
