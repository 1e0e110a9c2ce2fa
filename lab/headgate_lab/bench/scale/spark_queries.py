"""Real queries of one Spark application, a gate each: what the control loop takes of the driver."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import headgate as hg
from headgate.demo.session import quiet_session
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger, queries_of
from headgate_lab.bench.year.gauges import rss_mb

__all__ = ["run_queries"]

_ROWS_S = 20


def run_queries(
    folder: Path, counts: tuple[int, ...], every_s: float, lasts_s: float
) -> list[dict[str, Any]]:
    """So many queries at a time, each with a batch every so many seconds, in one session."""
    with quiet_session(folder / "spark", name="headgate-scale") as spark:
        return [_measured(spark, folder / f"queries-{n}", n, every_s, lasts_s) for n in counts]


def _measured(spark: Any, folder: Path, count: int, every_s: float, lasts_s: float) -> dict[str, Any]:
    control = folder / "control"
    queries = []
    for number in range(count):
        rate = spark.readStream.format("rate").option("rowsPerSecond", _ROWS_S).load()
        gated = rate.transform(hg.gate(f"gate-{number}", hold="1 hour", control=control))
        writer = gated.writeStream.format("noop").trigger(processingTime=f"{every_s:g} seconds")
        queries.append(writer.option("checkpointLocation", str(folder / f"checkpoint-{number}")).start())
    loop = ControlLoop.of(spark)
    for query in queries:  # the first batch of each is Spark's warming up
        while query.lastProgress is None:
            time.sleep(0.1)
    cpu, began = time.process_time(), time.monotonic()
    time.sleep(lasts_s)
    cpu_s, took_s = time.process_time() - cpu, time.monotonic() - began
    with loop._lock:
        asked = time.perf_counter()
        loop._catch_up()
        asked_s = time.perf_counter() - asked
    threads = sum(t.name.startswith("headgate") for t in threading.enumerate())
    for query in queries:
        query.stop()
    loop.drain()
    books = audit(control)
    records = [
        record
        for number in range(count)
        for query in queries_of(control, f"gate-{number}")
        for record in Ledger(control, f"gate-{number}", query).records().values()
    ]
    return {
        "queries": count,
        "batches": len(records),
        "not_in_the_books": sum(not found.complete for found in books),
        "failed_open": sum(record.origin.startswith("fail") for record in records),
        "driver_cpu": cpu_s / took_s,
        "asking_all_ms": 1e3 * asked_s,
        "headgate_threads": threads,
        "rss_mb": rss_mb(),
    }
