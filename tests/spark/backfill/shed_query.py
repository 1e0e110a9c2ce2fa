"""A query that has shed rows behind plain steps, and what is left of it: files, checkpoint, control
store.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import headgate as hg
from headgate.spark.loop.loop import ControlLoop
from tests.spark.conftest import FileStream

GATE, ROWS, BATCHES = "late", 400, 6
SCHEMA = "id bigint, route string, fare double"


@dataclass(frozen=True)
class ShedQuery:
    """Where its files are, and the ids that it kept."""

    folder: Path
    kept: tuple[int, ...]

    @property
    def control(self) -> Path:
        return self.folder / "control"

    def copied_to(self, folder: Path) -> ShedQuery:
        """The same with a control store of its own; the checkpoint is where it was."""
        shutil.copytree(self.control, folder / "control")
        return ShedQuery(folder, self.kept)

    def missing(self, repaid: list[int]) -> tuple[Counter[int], Counter[int]]:
        """Ids that neither were kept nor are repaid, and those that are there too often."""
        there = Counter(self.kept) + Counter(repaid)
        wanted = Counter(range(BATCHES * ROWS))
        return wanted - there, there - wanted


def between(frame: DataFrame) -> DataFrame:
    """What stands between its source and its gate."""
    return frame.where("fare > 0.0").selectExpr("id", "upper(route) as route", "fare * 2 as twice")


def shed_query(spark: SparkSession, folder: Path) -> ShedQuery:
    """Run it over a file a batch."""
    stream = FileStream(spark, folder / "in", SCHEMA)
    for batch in range(BATCHES):
        ids = range(batch * ROWS, (batch + 1) * ROWS)
        stream.add([{"id": i, "route": f"r{i % 5}", "fare": 1.0} for i in ids])
    gate = hg.gate(GATE, rate=0.3, keep="route = 'R0'", control=folder / "control")
    kept: list[int] = []

    def take(frame: DataFrame, batch: int) -> None:
        kept.extend(row.id for row in frame.select("id").collect())

    writer = between(stream.frame()).transform(gate).writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    ControlLoop.of(spark).drain()
    return ShedQuery(folder, tuple(kept))


def ids_in(spark: SparkSession, to: Path) -> list[int]:
    """What readers of the sink see."""
    if not any(to.glob("headgate_slice=*")):
        return []
    rows: list[Any] = spark.read.parquet(str(to)).select("id").collect()
    return [row.id for row in rows]
