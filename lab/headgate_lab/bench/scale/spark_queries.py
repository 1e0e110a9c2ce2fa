"""``headgate bench scale-queries``: real queries of one Spark application, a gate each.

So many streaming queries run in one session, each with a small batch every so many seconds, without
gates and then with one each, all in one control folder. What is looked at: how long tasks take
to pin a plan (in the Python workers themselves), what the driver holds and takes, in Python and in its
JVM, whether every query's ledger balances, and how long ``headgate status`` takes meanwhile.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import headgate as hg
from headgate.demo.session import quiet_session
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger, queries_of
from headgate_lab.bench.progress import bench_progress
from headgate_lab.bench.scale.clients import percentile
from headgate_lab.bench.scale.jvm import JvmGauges
from headgate_lab.bench.scale.loop import status_s
from headgate_lab.bench.scale.timed_workers import SETTINGS, pins_noted, timing_into
from headgate_lab.bench.year.gauges import rss_mb

__all__ = ["Queries", "run", "run_queries"]

_ROWS_S = 20
_GROWS = ("pin_p99_ms", "python_cpu", "status_s", "headgate_threads", "python_mb", "jvm_heap_mb")


@dataclass(frozen=True)
class Queries:
    """How many at a time, how often each has a batch, and for how long all are looked at."""

    counts: tuple[int, ...] = (1, 10, 100)
    every_s: float = 20.0
    lasts_s: float = 120.0


#: What ``--quick`` leaves of it.
QUICK = Queries((1, 5), every_s=5.0, lasts_s=15.0)


def run(*, quick: bool, queries: Queries | None = None) -> dict[str, Any]:
    """Without gates and with, from few queries to many."""
    queries = queries or (QUICK if quick else Queries())
    with tempfile.TemporaryDirectory(prefix="headgate-queries-") as scratch, bench_progress() as bar:
        task = bar.add_task("queries on Spark", total=2 * len(queries.counts))
        rows = run_queries(Path(scratch), queries, lambda: bar.advance(task))
    gated = [row for row in rows if row["gates"]]
    most, least = gated[-1], gated[0]
    ratios = {
        f"{name} of {most['queries']} vs {least['queries']} queries": most[name] / least[name]
        for name in _GROWS
        if least[name]
    }
    load = f"load average of the machine at the end: {os.getloadavg()[0]:.1f}, cores: {os.cpu_count()}"
    title = f"queries of one session, a batch every {queries.every_s:g} s each"
    context = {"tables": {title: rows}, "remarks": [load]}
    return {"bench": "scale-queries", "ratios": ratios, "context": context}


def run_queries(folder: Path, queries: Queries, done: Any = lambda: None) -> list[dict[str, Any]]:
    """One session for all of it; those without gates first: there is no control loop yet."""
    pins, rows = folder / "pins", []
    timing_into(pins)
    with quiet_session(folder / "spark", name="headgate-scale", more=SETTINGS) as spark:
        for gates in (False, True):
            for count in queries.counts:
                one = _Application(spark, folder / f"{count}-{gates}", pins, queries)
                rows.append({"queries": count, "gates": gates, **one.measured(count, gates)})
                done()
    return rows


class _Application:
    """So many queries, from their start to their end."""

    def __init__(self, spark: Any, folder: Path, pins: Path, queries: Queries) -> None:
        self._spark, self._folder, self._pins, self._queries = spark, folder, pins, queries
        self._control = folder / "control"

    def measured(self, count: int, gates: bool) -> dict[str, Any]:
        """Start them, let them run for a while, look at them meanwhile, and stop them."""
        spark, began = self._spark, time.monotonic()
        running = [self._started(number, gates) for number in range(count)]
        for query in running:  # the first batch of each is Spark's warming up
            while query.lastProgress is None and query.isActive:
                time.sleep(0.1)
        up_s, lasts_s = time.monotonic() - began, self._queries.lasts_s
        jvm, cpu, began = JvmGauges.of(spark), time.process_time(), time.monotonic()
        time.sleep(lasts_s)
        took_s, cpu_s = time.monotonic() - began, time.process_time() - cpu
        after = JvmGauges.of(spark)
        found = {
            "up_s": up_s,
            "python_cpu": cpu_s / took_s,
            "jvm_cpu": (after.cpu_s - jvm.cpu_s) / took_s,
            "jvm_heap_mb": JvmGauges.of(spark, collect=True).heap_mb,
            "jvm_threads": after.threads,
            "python_mb": rss_mb(),
        }
        if gates:
            found |= self._of_gates(count, began)
        told = [report for query in running for report in query.recentProgress]
        took = [report["batchDuration"] / 1e3 for report in told if report["numInputRows"]]
        found |= {
            "ended": sum(not query.isActive for query in running),
            "batch_s": percentile(took, 0.5),
            "batch_p99_s": percentile(took, 0.99),
        }
        for query in running:
            query.stop()
        return found | (self._books(count, running) if gates else {})

    def _started(self, number: int, gates: bool) -> Any:
        frame = self._spark.readStream.format("rate").option("rowsPerSecond", _ROWS_S).load()
        if gates:
            frame = frame.transform(hg.gate(f"gate-{number}", hold="1 hour", control=self._control))
        every = f"{self._queries.every_s:g} seconds"
        writer = frame.writeStream.format("noop").trigger(processingTime=every)
        place = str(self._folder / f"checkpoint-{number}")
        return writer.option("checkpointLocation", place).start()

    def _of_gates(self, count: int, began: float) -> dict[str, Any]:
        """While the queries run."""
        loop = ControlLoop.of(self._spark)
        with loop._lock:
            asked = time.perf_counter()
            loop._catch_up()
            asked_s = time.perf_counter() - asked
        pins = pins_noted(self._pins, began)
        return {
            "pins": len(pins),
            "pin_ms": 1e3 * percentile(pins, 0.5),
            "pin_p99_ms": 1e3 * percentile(pins, 0.99),
            "asking_all_ms": 1e3 * asked_s,
            "headgate_threads": sum(t.name.startswith("headgate") for t in threading.enumerate()),
            "status_s": status_s(self._control),
        }

    def _books(self, count: int, running: list[Any]) -> dict[str, Any]:
        """Behind their end: every batch that Spark reported, of every query, and what became of it."""
        loop = ControlLoop.of(self._spark)
        loop.drain()
        audits = audit(self._control)
        records = [
            record
            for number in range(count)
            for query in queries_of(self._control, f"gate-{number}")
            for record in Ledger(self._control, f"gate-{number}", query).records().values()
        ]
        told = ((str(query.id), p) for query in running for p in query.recentProgress)
        reported = {(query, p["batchId"]) for query, p in told if p["numInputRows"]}
        return {
            "batches": len(records),
            "not_in_the_books": len(reported - {(r.query, r.batch) for r in records}),
            "not_complete": count - sum(found.complete for found in audits),
            "cut_off_at_the_end": sum(len(found.begun) for found in audits),
            "failed_open": sum(record.origin.startswith("fail") for record in records),
        }
