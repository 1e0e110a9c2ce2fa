"""Follow a running query: its batches as they end, and the one that is running."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from headgate.demo.batches import Batch
from headgate.demo.workload import ARRIVAL
from headgate.run.gate_report import BatchReport
from headgate.spark.gate.meter import reports_in
from headgate.spark.loop.progress import last_batch, recent_reports

__all__ = ["GATE", "Watch", "batch_in", "counted"]

#: The gate's name in the demo.
GATE = "demo"
_METRIC = "demo.rows"


def counted(rows: DataFrame) -> DataFrame:
    """The rows, counted where the gate would be: the side with a gate has the gate's own meter there."""
    oldest = F.unix_micros(F.min(ARRIVAL))
    return rows.observe(_METRIC, F.count(F.lit(1)).alias("rows"), oldest.alias("oldest"))


def batch_in(progress: Mapping[str, Any], rows_per_second: int | None) -> Batch | None:
    """The batch of a progress event; None for one without rows.

    Its rows are those that `counted` saw, or the gate's own meter where that is alone in the query.
    With `rows_per_second`, they are checked against the source's offsets, which are whole seconds since
    the stream began: so many seconds must have brought so many rows.
    """
    gated = reports_in(progress).get(GATE)
    arrived, oldest = _arrived(progress, gated)
    if not arrived or oldest is None:
        return None
    source = progress["sources"][0]
    span = int(source["endOffset"]) - int(source["startOffset"] or 0)
    started = datetime.fromisoformat(str(progress["timestamp"])).timestamp()
    duration = int(progress["durationMs"]["triggerExecution"]) / 1000.0
    exact = rows_per_second is None or arrived == span * rows_per_second
    return Batch(
        number=int(progress["batchId"]),
        started_at=started,
        duration_s=duration,
        delay_s=max(0.0, started + duration - oldest),
        arrived=arrived,
        kept=arrived if gated is None else gated.sample.kept,
        until=oldest + span,
        counted=exact and (gated is None or gated.sample.arrived == arrived),
    )


def _arrived(progress: Mapping[str, Any], gated: BatchReport | None) -> tuple[int, float | None]:
    """How many rows came, and when the oldest of them arrived."""
    metric = (progress.get("observedMetrics") or {}).get(_METRIC)
    if metric:
        return int(metric["rows"]), None if metric["oldest"] is None else int(metric["oldest"]) / 1e6
    return (0, None) if gated is None else (gated.sample.arrived, gated.sample.oldest_arrival)


class Watch:
    """The batches of one query, read from its progress."""

    def __init__(
        self, query: StreamingQuery, trigger_s: float, rows_per_second: int | None = None
    ) -> None:
        self._query, self._trigger_s, self._rate = query, trigger_s, rows_per_second
        self._began = time.time()
        self._seen = -1
        self._last: Mapping[str, Any] | None = None
        self.batches: list[Batch] = []

    def poll(self) -> list[Batch]:
        """The batches that ended since the last call; raises what the query died of."""
        if error := self._query.exception():
            raise error
        if last_batch(self._query) <= self._seen:
            return []
        fresh = []
        for report in recent_reports(self._query):
            progress = json.loads(report)
            if int(progress["batchId"]) <= self._seen:
                continue
            self._seen, self._last = int(progress["batchId"]), progress
            if batch := batch_in(progress, self._rate):
                fresh.append(batch)
        self.batches += fresh
        return fresh

    def running(self, now: float) -> Batch | None:
        """The batch that is running, as far as it has come; None between batches."""
        if not self._query.status["isTriggerActive"]:
            return None
        if self._last is None:
            return _so_far(0, self._began, self._began, now)
        started = datetime.fromisoformat(str(self._last["timestamp"])).timestamp()
        ended = started + int(self._last["durationMs"]["triggerExecution"]) / 1000.0
        # The next batch begins at the next multiple of the interval, or at once if that is over.
        tick = (math.floor(started / self._trigger_s) + 1) * self._trigger_s
        began = max(ended, tick)
        until = self.batches[-1].until if self.batches else began
        return _so_far(self._seen + 1, began, until, now)


def _so_far(number: int, began: float, oldest: float, now: float) -> Batch:
    return Batch(
        number=number,
        started_at=began,
        duration_s=max(0.0, now - began),
        delay_s=max(0.0, now - oldest),
        arrived=0,
        kept=0,
        until=oldest,
        running=True,
    )
