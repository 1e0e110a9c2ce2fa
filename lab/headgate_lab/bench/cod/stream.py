"""The same rides as a stream: a sliding exact median with its state, without a gate and behind one."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headgate as hg
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger, queries_of
from headgate_lab.bench.cod.trips import SCHEMA, SLIDE, WINDOW

__all__ = ["STATE", "STREAMED", "StreamCase"]

#: No gate; a uniform one; a concept-driven one that counts over the batch, or in each partition.
STREAMED = ("none", "uniform", "batch", "partition")
#: Where the windows' state is kept.
STATE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
#: The first batches of a query compile, and have no state yet.
_SETTLED = 3


@dataclass(frozen=True)
class StreamCase:
    """A folder of ride files, each a micro-batch."""

    spark: SparkSession
    rides: Path
    scratch: Path
    rate: float = 0.02

    def measure(self, rounds: int, advance: Callable[[], None]) -> dict[str, Any]:
        """Median batch times by design over the rounds, and the shares kept.

        Whole queries run in turn, as a query's state is part of its cost.
        """
        seconds: dict[str, list[float]] = {}
        kept = {}
        for number in range(rounds):
            for design in STREAMED if number % 2 == 0 else STREAMED[::-1]:
                name = f"{design}-{number}"
                seconds.setdefault(design, []).append(statistics.median(self._batches(design, name)))
                advance()
                if design != "none":
                    kept[design] = self._kept(name)
        balanced = all(found.balanced for found in audit(self.scratch / "control"))
        return {"batch_s": seconds, "kept": kept, "balanced": balanced}

    def _batches(self, design: str, name: str) -> list[float]:
        """Run a query over all files; the durations of its settled batches."""
        frame = self._gated(design, name).withWatermark("dropoff", SLIDE)
        medians = frame.groupBy(F.window("dropoff", WINDOW, SLIDE), "route").agg(F.median("fare"))
        writer = medians.writeStream.format("noop").outputMode("append")
        writer = writer.option("checkpointLocation", str(self.scratch / "checkpoints" / name))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        ControlLoop.of(self.spark).drain()
        took = [p.durationMs["triggerExecution"] / 1000 for p in query.recentProgress if p.numInputRows]
        return took[_SETTLED:] or took[-1:]

    def _gated(self, design: str, name: str) -> DataFrame:
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        frame = reader.parquet(str(self.rides))
        if design == "none":
            return frame
        policy = None
        if design != "uniform":
            policy = hg.ConceptDriven(
                by="route", window=WINDOW, slide=SLIDE, time="dropoff", counts=design
            )
        control = self.scratch / "control"
        return frame.transform(
            hg.gate(name, rate=self.rate, identity="id", control=control, policy=policy)
        )

    def _kept(self, name: str) -> float:
        """The share of rows kept, as the ledger has it."""
        control = self.scratch / "control"
        (query,) = queries_of(control, name)
        records = Ledger(control, name, query).records().values()
        return sum(r.kept for r in records) / max(1, sum(r.arrived for r in records))
