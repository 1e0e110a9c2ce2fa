"""What a site's gate costs beside a uniform one, and what a noisy neighbour costs the others, on Spark.

Overhead, as ratios from one run: rows a second through the streaming plan of a site's gate (threshold
and worth from the plan, SIC summed behind it) and of a uniform gate; and the time of small batches of a
running query behind either.

The neighbour: four queries that share the cores of one application and send 2.5 times what these can
process, as measured beforehand, when the JVM is warm; then one of them sends ten times as much. The
others' SIC, after and before, with the agreement learned (the default) and with SIC as published, where
all that a source sends counts.
"""

from __future__ import annotations

import math
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from rich.progress import Progress

import headgate as hg
from headgate.core.plan import Plan
from headgate.demo.session import quiet_session
from headgate.fairness.jain import jain
from headgate.policies import Uniform
from headgate.settings import GateSettings
from headgate.spark.gate.frame import Gate
from headgate.spark.gate.pin.plan_source import PlanSource
from headgate.store.plans import PlanStore
from headgate_lab.bench.progress import bench_progress

__all__ = ["run"]

_QUERY = "bench"
_QUERIES = ("a", "b", "c", "noisy")
#: Cores that the four queries may use, of the two that there are.
_CORES = 1.2
#: How many times what the cores can process the four send together.
_OVERLOAD = 2.5
#: What is done to every row that is kept, a few hundred microseconds of it.
_SPENT = "aggregate(sequence(1, 5000), double(value), (s, i) -> sin(s) + i)"


def run(*, quick: bool) -> dict[str, Any]:
    """All ratios, by name."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    try:
        with bench_progress() as progress, quiet_session(folder / "spark") as spark:
            rows = 4_000_000 if quick else 20_000_000
            through = _throughput(spark, folder, rows, 3 if quick else 7, progress)
            batch = _per_batch(spark, folder, 10 if quick else 30, progress)
            before_s, after_s = (90.0, 80.0) if quick else (140.0, 120.0)
            per_row_s = _per_row(spark, progress)
            rate = max(1, round(_OVERLOAD * _CORES / (len(_QUERIES) * per_row_s)))
            spans = before_s, after_s
            learned = _neighbour(spark, folder / "learned", None, rate, spans, progress)
            published = _neighbour(spark, folder / "all", math.inf, rate, spans, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ratios = {
        "rows_per_second_site_vs_uniform": through["site"] / through["uniform"],
        "batch_site_vs_uniform": batch["site"] / batch["uniform"],
        "others_after_vs_before": learned["after"] / learned["before"],
        "others_after_vs_before_as_published": published["after"] / published["before"],
    }
    table = [
        {"agreement": name, **{k: v for k, v in found.items() if not isinstance(v, dict)}}
        for name, found in (("learned", learned), ("all counts", published))
    ]
    context = {
        "rows_per_second": through,
        "batch_s": batch,
        "core_seconds_per_row": per_row_s,
        "rows_per_second_of_each_query": rate,
        "neighbour": {"learned": learned, "as_published": published},
        "tables": {"the others' SIC before and after a neighbour sends ten times as much": table},
    }
    return {"bench": "site", "ratios": ratios, "context": context}


def _rows(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(0, rows, 1, 2).select(
        "id", (F.col("id") * 7).alias("value"), F.timestamp_micros("id").alias("timestamp")
    )


def _throughput(
    spark: SparkSession, folder: Path, rows: int, rounds: int, progress: Progress
) -> dict[str, float]:
    """Rows a second through both gates' streaming plans, in turn; the median."""
    spark.dataSource.register(PlanSource)
    gates = {}
    for name, sic in (("uniform", None), ("site", "source")):
        store = PlanStore(folder, name, _QUERY)
        store.beat()
        store.publish(Plan(0.5, sic=1e-6 if sic else None))
        gates[name] = Gate(
            name=name, settings=GateSettings(rate=0.5), control=folder, policy=Uniform(),
            controller=None, arrival=None, identity=None, start=1.0, seed=7, sic=sic,
        )  # fmt: skip
    found: dict[str, list[float]] = {name: [] for name in gates}
    task = progress.add_task("rows a second", total=rounds + 1)
    for turn in range(rounds + 1):
        for name, built in gates.items():
            frame = _rows(spark, rows)
            started = time.perf_counter()
            gated = built.planned(spark, frame, built.shape(frame), [])
            gated.write.format("noop").mode("overwrite").save()
            if turn:  # the first pays for compiling
                found[name].append(rows / (time.perf_counter() - started))
        progress.advance(task)
    return {name: statistics.median(values) for name, values in found.items()}


def _per_batch(spark: SparkSession, folder: Path, batches: int, progress: Progress) -> dict[str, float]:
    """Seconds of a small batch of a running query behind either gate, in turn; the median."""
    found: dict[str, list[float]] = {"uniform": [], "site": []}
    task = progress.add_task("time of a batch", total=4)
    for turn in range(4):
        name = ("uniform", "site")[turn % 2]
        scratch = folder / f"batch-{turn}"
        stream = spark.readStream.format("rate").option("rowsPerSecond", "1000").load()
        site = None
        if name == "site":
            site = hg.Site(spark, "bench", control=scratch / "control", hold="30 seconds")
            gated = stream.transform(site.gate(f"g{turn}", query="q", source="s"))
        else:
            gated = stream.transform(
                hg.gate(f"g{turn}", hold="30 seconds", control=str(scratch / "control"))
            )
        query = (
            gated.withWatermark("timestamp", "1 second")
            .groupBy(F.window("timestamp", "1 second"))
            .agg(F.avg("value"))
            .writeStream.format("noop")
            .outputMode("append")
            .option("checkpointLocation", str(scratch / "checkpoint"))
            .trigger(processingTime="400 milliseconds")
            .start()
        )
        found[name] += _durations(query, batches + 5)[5:]
        query.stop()
        if site is not None:
            site.stop()
        progress.advance(task)
    return {name: statistics.median(values) for name, values in found.items()}


def _durations(query: StreamingQuery, batches: int) -> list[float]:
    until = time.monotonic() + 5.0 * batches
    while time.monotonic() < until:
        time.sleep(0.5)
        done = [p for p in query.recentProgress if "addBatch" in p.durationMs]
        if len(done) >= batches:
            break
    return [p.durationMs["triggerExecution"] / 1000.0 for p in done[:batches]]


def _per_row(spark: SparkSession, progress: Progress) -> float:
    """Core-seconds that a row takes, once the JVM has compiled what there is to do."""
    rows, rounds = 20_000, 8
    task = progress.add_task("the price of a row", total=rounds)
    found = []
    for _ in range(rounds):
        started = time.perf_counter()
        some = spark.range(0, rows, 1, 1).select(F.col("id").alias("value"))
        some.where(F.expr(_SPENT) > F.lit(-1e300)).write.format("noop").mode("overwrite").save()
        found.append((time.perf_counter() - started) / rows)
        progress.advance(task)
    return statistics.median(found[rounds // 2 :])


def _neighbour(
    spark: SparkSession,
    folder: Path,
    agreed: float | None,
    rate: int,
    spans: tuple[float, float],
    progress: Progress,
) -> dict[str, Any]:
    """SIC of four queries; in the second of the two spans one of them sends ten times as much."""
    before_s, after_s = spans
    title = "a noisy neighbour" + ("" if agreed is None else ", as published")
    task = progress.add_task(title, total=before_s + after_s)
    site = hg.Site(
        spark, "bench", control=folder / "control", hold="4 seconds", stw="40 seconds", cores=_CORES
    )
    begin = time.time()
    jump = begin + before_s
    streams = [_start(spark, site, folder, name, agreed, rate, jump) for name in _QUERIES]
    seen: list[tuple[float, dict[str, float]]] = []
    try:
        while (passed := time.time() - begin) < before_s + after_s:
            time.sleep(1.0)
            progress.update(task, completed=passed)
            seen.append((passed, site.sic))
            for stream in streams:
                if not stream.isActive:
                    raise RuntimeError(f"a stream ended: {stream.exception()}")
        batches = [p for s in streams[:-1] for p in s.recentProgress if "addBatch" in p.durationMs]
        late = [p.durationMs["triggerExecution"] > 4000 for p in batches]
    finally:
        for stream in streams:
            stream.stop()
        site.stop()
    settled = before_s - 30.0, before_s, before_s + after_s - 40.0
    before = _means([s for at, s in seen if settled[0] <= at < settled[1]])
    after = _means([s for at, s in seen if at >= settled[2]])
    return {
        "before": statistics.fmean(before[q] for q in _QUERIES[:-1]),
        "after": statistics.fmean(after[q] for q in _QUERIES[:-1]),
        "noisy_after": after["noisy"],
        "jain_before": jain(list(before.values())),
        "jain_after": jain(list(after.values())),
        "others_late": sum(late) / max(1, len(late)),
        "sic_before": before,
        "sic_after": after,
    }


def _means(samples: list[dict[str, float]]) -> dict[str, float]:
    def mean(query: str) -> float:
        values = [s[query] for s in samples if query in s and not math.isnan(s[query])]
        return statistics.fmean(values) if values else 0.0

    return {query: mean(query) for query in _QUERIES}


def _start(
    spark: SparkSession,
    site: hg.Site,
    folder: Path,
    name: str,
    agreed: float | None,
    rate: int,
    jump: float,
) -> StreamingQuery:
    """`rate` costly rows a second; of the noisy one ten times that from `jump` on."""
    times = 10 if name == "noisy" else 1
    rows = spark.readStream.format("rate").option("rowsPerSecond", str(rate * times)).load()
    if times > 1:
        loud = F.col("timestamp") >= F.timestamp_seconds(F.lit(jump))
        rows = rows.where(loud | (F.col("value") % times == 0))
    gate = site.gate(name, query=name, source=f"{name}-rows", agreed=agreed, start=0.1)
    results = (
        rows.transform(gate)
        .where(F.expr(_SPENT) > F.lit(-1e300))
        .withWatermark("timestamp", "1 second")
        .groupBy(F.window("timestamp", "1 second"))
        .agg(F.avg("value"), hg.sic.total())
        .transform(site.result(name))
    )
    return (
        results.writeStream.format("noop")
        .outputMode("append")
        .option("checkpointLocation", str(folder / "checkpoints" / name))
        .trigger(processingTime="4 seconds")
        .start()
    )
