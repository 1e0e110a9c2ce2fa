"""What a gate inside ``foreachBatch`` counted, kept until Spark reports the batch that it belongs to.

A frame inside ``foreachBatch`` is a batch frame: what is observed in it is in no progress event. The
gate counts what arrives in its first pass; what it keeps, the first action on its result counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from headgate.core.groups import Strata
from headgate.policies.by_group.allocation import Allocation
from headgate.run.gate_report import BatchReport, Drawn
from headgate.spark.gate.fingerprint import fingerprint_columns, fingerprint_in
from headgate.spark.gate.meter import sample_of

__all__ = ["Tally", "running_batch"]


def running_batch(spark: SparkSession) -> tuple[str, int] | None:
    """The query and the batch whose ``foreachBatch`` function is running in this thread, if any."""
    try:
        context = spark.sparkContext
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
    except Exception:  # Spark Connect has no context here
        return None
    return None if query is None or batch is None else (query, int(batch))


@dataclass
class Tally:
    """One batch through one gate. `arrived` is None where nothing was shed: all that came is kept."""

    arrived: int | None = None
    strata: int = 0
    yielded: int = 0
    #: The rows that were to be kept, where that is known.
    planned: int | None = None
    #: How many fewer may be kept by chance.
    slack: float = 0.0
    #: The number of the gate's spec.
    spec: int = 0
    _kept: Observation | None = None

    @classmethod
    def of(cls, allocation: Allocation, by_chance: bool) -> Tally:
        """The tally of a batch that was drawn from; coins keep a number that varies."""
        planned = allocation.kept
        return cls(
            arrived=int(allocation.counts.sum()),
            strata=len(allocation.counts),
            yielded=len(allocation.yielded),
            planned=planned,
            slack=4.0 * math.sqrt(planned) if by_chance else 0.05 * planned,
        )

    def watch(self, frame: DataFrame, hashed: Column) -> DataFrame:
        """The frame, whose rows the first action on it will count; `hashed` decided their fate."""
        self._kept = Observation()
        return frame.observe(self._kept, F.count(F.lit(1)).alias("kept"), *fingerprint_columns(hashed))

    def report(self, progress: Mapping[str, Any]) -> BatchReport | None:
        """The batch's report, now that Spark has reported it; None if no action ran on the frame."""
        counted = self._counted()
        if counted is None:
            return None
        kept, fingerprint = int(counted["kept"]), fingerprint_in(counted)
        looked = kept
        arrived = kept if self.arrived is None else self.arrived
        if self.planned is not None and kept < self.planned - self.slack:
            kept = self.planned  # the first action only looked: isEmpty, take
        elif self.arrived is None and kept < 0.01 * int(progress.get("numInputRows") or 0):
            arrived = kept = int(progress["numInputRows"])
        sample, parts, offsets = sample_of(progress, {"arrived": arrived}, kept=kept)
        return BatchReport(
            query=str(progress["id"]), sample=sample, parts_ms=parts, offsets=offsets,
            drawn=Drawn(Strata(self.strata), self.yielded) if self.strata else None,
            fingerprint=fingerprint if kept == looked else "", spec=self.spec,
        )  # fmt: skip

    def _counted(self) -> Mapping[str, Any] | None:
        watched = self._kept
        if watched is None or watched._jo is None or not watched._jo.future().isCompleted():
            return None
        return dict(watched.get)
