"""The process that runs the queries: a session that takes orders on standard input, one a line.

Run as ``python -m headgate_lab.bench.hold.child SCRATCH SETTINGS``. It knows pyspark and `hg.gate`, and
nothing else of Headgate, so that a release before can be on the path instead; and a session of its own
for each release is warm for as long as the other's.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from math import floor
from pathlib import Path
from typing import IO, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import headgate as hg
from headgate_lab.bench.hold.orders import Answer, RunOrder, TruthOrder, order_from, to_line
from headgate_lab.bench.hold.streams import ARRIVAL, answers, arrivals, measured, medians, truth

__all__ = ["GATE", "main"]

#: The gate's name.
GATE = "held"
_IN, _OUT, _TABLE = "bench.arrived", "bench.kept", "bench_answers"
_POLL_S = 0.1


def main(scratch: Path, settings: dict[str, str]) -> None:
    """Say who is here, then work through the orders until there are no more."""
    orders, answers_to = sys.stdin, _own_output(scratch / "spark.log")
    spark = SparkSession.builder.config(map=dict(settings)).getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    found = {"version": hg.__version__, "file": str(hg.__file__), "spark": spark.version}
    _say(answers_to, json.dumps(found))
    for line in orders:
        order = order_from(line)
        try:
            if isinstance(order, TruthOrder):
                answer = _truth(spark, order)
            else:
                answer = _run(spark, order, lambda: _until(orders, answers_to))
            _say(answers_to, to_line(answer))
        except Exception as error:  # whatever it was: the other process says it and ends
            _say(answers_to, json.dumps({"error": f"{type(error).__name__}: {error}"[:2000]}))
    spark.stop()


def _own_output(log: Path) -> IO[str]:
    """Standard output as it was; what the JVM and its workers print goes to a file from here on."""
    log.parent.mkdir(parents=True, exist_ok=True)
    kept = os.fdopen(os.dup(1), "w")
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    return kept


def _say(out: IO[str], line: str) -> None:
    out.write(line + "\n")
    out.flush()


def _until(orders: IO[str], answers_to: IO[str]) -> float:
    """Say that the query has started, and hear how long it shall run."""
    _say(answers_to, json.dumps({"started": time.time()}))
    return float(orders.readline())


def _run(spark: SparkSession, order: RunOrder, until: Callable[[], float]) -> Answer:
    query = _start(spark, order)
    try:
        seen = _Seen(query, order, time.time(), until())
        cut = seen.follow()
    finally:
        query.stop()
    ended = time.time()
    seen.take()
    if cut is not None and all(b["number"] != cut["number"] for b in seen.batches):
        seen.batches.append(cut)
    if order.query.results:
        _keep_answers(spark, order.query.results)
    return Answer(tuple(seen.batches), str(query.id), sum(b["arrived"] for b in seen.batches), ended)


def _start(spark: SparkSession, order: RunOrder) -> StreamingQuery:
    rows = arrivals(spark, order.source, order.query, _IN)
    kept, weight = _shed(rows, order), F.lit(1.0)
    if order.shedding.how == "gate":
        weight = F.col("_weight")
    kept = measured(kept, order.query).observe(_OUT, F.count(F.lit(1)).alias("rows"))
    asked = order.query
    if asked.results:
        writer = answers(kept, asked, weight).writeStream.format("memory").queryName(_TABLE)
    else:
        writer = medians(kept, asked).writeStream.format("noop")
    writer = writer.outputMode("update").option("checkpointLocation", order.checkpoint)
    return writer.trigger(processingTime=f"{round(1000 * asked.trigger_s)} milliseconds").start()


def _shed(rows: DataFrame, order: RunOrder) -> DataFrame:
    shedding = order.shedding
    if shedding.how == "gate":
        held = hg.gate(GATE, hold=shedding.hold_s, control=shedding.control, arrival=ARRIVAL)
        return rows.transform(held)
    if shedding.how == "filter":
        # By hand: a share of a hash's range, as one would write it without a library.
        parts = 1_000_000
        return rows.where(
            F.pmod(F.xxhash64("value", F.lit("filter")), F.lit(parts)) < round(shedding.rate * parts)
        )
    return rows


@dataclass
class _Seen:
    """The batches of a query, from its progress."""

    query: StreamingQuery
    order: RunOrder
    began: float
    until: float
    batches: list[dict[str, Any]] = field(default_factory=list)
    reports: set[tuple[int, str]] = field(default_factory=set)
    last: dict[str, Any] | None = None

    def follow(self) -> dict[str, Any] | None:
        """Until the time is up and the batch that runs has ended, or is over the target: that one."""
        waited_for: int | None = None
        while True:
            self.take()
            if self._enough():
                return None
            now = time.time()
            if now >= self.until:
                running = self.running(now)
                if running is not None and running["duration_s"] > self.order.target_s:
                    return running
                later = running is None or (waited_for is not None and running["number"] > waited_for)
                if later and self.batches:
                    return None
                waited_for = running["number"] if running is not None else waited_for
            time.sleep(_POLL_S)

    def _enough(self) -> bool:
        ended, long = self.order.enough_batches, time.time() >= self.began + self.order.least_s
        if ended is not None and long and len(self.batches) >= ended:
            return True
        wanted = self.order.enough_inside
        latest = self.batches[-wanted:] if wanted else []
        return len(latest) == wanted and all(b["duration_s"] <= self.order.target_s for b in latest)

    def take(self) -> None:
        """What has ended since; raises what the query died of."""
        if error := self.query.exception():
            raise error
        latest = self.query.lastProgress
        if latest is None or (latest.batchId, latest.timestamp) in self.reports:
            return
        # Reading all that Spark keeps takes a tenth of a second, so only where one may have been missed.
        known = int(self.last["batchId"]) if self.last is not None else -1
        missed = latest.batchId > known + 1
        for report in self.query.recentProgress if missed else [latest]:
            key = (report.batchId, report.timestamp)
            if key not in self.reports:
                self.reports.add(key)
                self._one(json.loads(report.json))

    def _one(self, progress: dict[str, Any]) -> None:
        metrics = progress.get("observedMetrics") or {}
        arrived = metrics.get(_IN)
        if "triggerExecution" not in progress["durationMs"] or not arrived or not arrived["rows"]:
            return
        self.last = progress
        started, duration = _times(progress)
        oldest, newest = int(arrived["oldest"]) / 1e6, int(arrived["newest"]) / 1e6
        self.batches.append(
            {
                "number": int(progress["batchId"]),
                "started_at": started,
                "duration_s": duration,
                "delay_s": max(0.0, started + duration - oldest),
                "arrived": int(arrived["rows"]),
                "kept": int((metrics.get(_OUT) or {"rows": 0})["rows"]),
                "until": newest,
                "running": False,
            }
        )

    def running(self, now: float) -> dict[str, Any] | None:
        """The batch that is running, as far as it has come; None between batches."""
        if not self.query.status["isTriggerActive"]:
            return None
        number, began, until = 0, self.began, self.began
        if self.last is not None:
            started, duration = _times(self.last)
            tick = (floor(started / self.order.query.trigger_s) + 1) * self.order.query.trigger_s
            number, began = int(self.last["batchId"]) + 1, max(started + duration, tick)
            until = self.batches[-1]["until"]
        return {
            "number": number,
            "started_at": began,
            "duration_s": max(0.0, now - began),
            "delay_s": max(0.0, now - until),
            "arrived": 0,
            "kept": 0,
            "until": until,
            "running": True,
        }


def _times(progress: dict[str, Any]) -> tuple[float, float]:
    started = datetime.fromisoformat(str(progress["timestamp"])).timestamp()
    return started, int(progress["durationMs"]["triggerExecution"]) / 1000.0


def _keep_answers(spark: SparkSession, path: str) -> None:
    """The last answer of each window and road: the one that had seen most rows."""
    last = (
        spark.table(_TABLE)
        .groupBy(_begin(), "road")
        .agg(F.max_by(F.struct("mean", "median", "rows"), "rows").alias("last"))
    )
    last.select("begin", "road", "last.*").coalesce(1).write.mode("overwrite").parquet(path)
    spark.catalog.dropTempView(_TABLE)


def _begin() -> Column:
    """When a window begins, in seconds of event time."""
    return (F.unix_millis("window.start") / 1000).alias("begin")


def _truth(spark: SparkSession, order: TruthOrder) -> Answer:
    found = truth(spark, order.source, order.query)
    flat = found.select(_begin(), "road", "mean", "median", "rows")
    flat.coalesce(1).write.mode("overwrite").parquet(order.query.results)
    return Answer(rows=spark.read.parquet(order.query.results).count(), ended_at=time.time())


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
