"""What a gate costs: rows a second against no gate and against ``rand()``, time a batch, idle.

Every figure is a ratio of two things measured in turn in one run: machines differ, and other work
on them comes and goes. The plan under test is the one that streams run (plan source, meters, filter,
weight); the rows come from `spark.range`, the fastest source there is, so the gate cannot hide
behind a slow scan.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.progress import Progress

from headgate.core.plan import Plan, threshold
from headgate.demo.session import quiet_session
from headgate.demo.workload import Workload
from headgate.policies import Grouping, Policy, Uniform
from headgate.settings import GateSettings
from headgate.spark.gate.call import gate
from headgate.spark.gate.frame import Gate
from headgate.spark.gate.identity import named_keys
from headgate.spark.gate.pin.plan_source import PlanSource
from headgate.store.plans import PlanStore
from headgate_lab.bench.progress import bench_progress

__all__ = ["run"]

_QUERY = "bench"
#: Exceptions of the plans under test, and the share that is kept where the price of shed rows is asked.
_ENTRIES = (0, 100, 10_000)
_FEW = 0.02


class _Groups(Policy):
    """Groups by column whose rates the bench publishes itself."""

    def plan(self, budget: Any, groups: Any) -> Plan:
        """Not asked for: the bench writes the plans."""
        raise AssertionError("the bench publishes its own plans")

    @property
    def grouping(self) -> Grouping:
        """Groups by the values of one column."""
        return Grouping(columns=("route",))


def run(*, quick: bool) -> dict[str, Any]:
    """All ratios, by name."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    rows = 5_000_000 if quick else 40_000_000
    try:
        with bench_progress() as progress, quiet_session(folder / "spark") as spark:
            through, speeds = _throughput(spark, folder, rows, 3 if quick else 5, progress)
            batch, batch_context = _per_batch(spark, folder, 12 if quick else 40, progress)
            idle, idle_context = _idle(spark, folder, 4 if quick else 12, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    context = {"rows": rows, "rows_per_second": speeds, **batch_context, **idle_context}
    return {"bench": "gate", "ratios": {**through, **batch, **idle}, "context": context}


def _wide(spark: SparkSession, rows: int) -> DataFrame:
    """Four columns of eight bytes, in two partitions."""
    wide = spark.range(0, rows, 1, 2)
    return wide.select(
        "id",
        (F.col("id") * 7).alias("value"),
        F.timestamp_micros("id").alias("timestamp"),
        (F.col("id") % 20_000).alias("route"),
    )


def _write(frame: DataFrame) -> float:
    started = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def _gated(
    spark: SparkSession, folder: Path, entries: int, keep: float = 0.5
) -> Callable[[DataFrame], DataFrame]:
    """The streaming plan over a batch of rows, under a pinned plan with that many exceptions."""
    name = _name(entries, keep)
    if entries:
        routes = [(i,) for i in range(entries)]
        keys = named_keys(spark, _wide(spark, 1), ("route",), routes)
        plan = Plan(keep, dict.fromkeys(keys.values(), 0.5 * keep))
    else:
        plan = Plan(keep)
    store = PlanStore(folder, name, _QUERY)
    store.beat()
    store.publish(plan)
    built = Gate(
        name=name,
        settings=GateSettings(rate=keep),
        control=folder,
        policy=_Groups() if entries else Uniform(),
        controller=None,
        arrival=None,
        identity=None,
        start=1.0,
        seed=7,
    )
    spark.dataSource.register(PlanSource)
    return lambda frame: built.planned(spark, frame, built.shape(frame), [])


def _name(entries: int, keep: float) -> str:
    return f"entries-{entries}-at-{round(100 * keep)}"


def _by_hand(frame: DataFrame) -> DataFrame:
    """What a gate comes down to for a row that is shed: a hash of all columns, and a comparison."""
    hashed = F.shiftrightunsigned(F.xxhash64(F.lit(7), *frame.columns), 2)
    return frame.where(hashed < threshold(_FEW))


def _counted(frame: DataFrame) -> DataFrame:
    """The rows, counted as in front of a gate: Spark cannot compile through it, and writes them out."""
    return frame.observe("counted", F.count(F.lit(1)).alias("rows"))


def _throughput(
    spark: SparkSession, folder: Path, rows: int, rounds: int, progress: Progress
) -> tuple[dict[str, float], dict[str, float]]:
    variants: dict[str, Callable[[DataFrame], DataFrame]] = {
        "none": lambda frame: frame,
        "rand": lambda frame: frame.where(F.rand() < 0.5),
        "gate_0": _gated(spark, folder, 0),
        "gate_100": _gated(spark, folder, 100),
        "gate_10000": _gated(spark, folder, 10_000),
        # Of these next to nothing is kept: what is left is the price of a row that is shed.
        "rand_shed": lambda frame: frame.where(F.rand() < _FEW),
        "hash_shed": _by_hand,
        "counted_hash_shed": lambda frame: _by_hand(_counted(frame)),
        "gate_shed": _gated(spark, folder, 0, _FEW),
    }
    stores = [PlanStore(folder, _name(entries, 0.5), _QUERY) for entries in _ENTRIES]
    stores.append(PlanStore(folder, _name(0, _FEW), _QUERY))
    task = progress.add_task("rows a second", total=(rounds + 1) * len(variants))
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    # A task reads its batch from these properties; in a stream Spark itself sets them.
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", _QUERY)
    for number in range(rounds + 1):
        spark.sparkContext.setLocalProperty("streaming.sql.batchId", str(number))
        for name, through in variants.items():
            for store in stores:
                store.beat()
            taken = _write(through(_wide(spark, rows)))
            progress.advance(task)
            if number > 0:  # the first round compiles
                seconds[name].append(taken)
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)  # type: ignore[arg-type]
    spark.sparkContext.setLocalProperty("streaming.sql.batchId", None)  # type: ignore[arg-type]
    pairs = [(f"gate_{entries}", peer) for entries in _ENTRIES for peer in ("none", "rand")]
    pairs += [("gate_shed", "rand_shed"), ("gate_shed", "hash_shed"), ("counted_hash_shed", "hash_shed")]
    ratios = {
        f"{name}_vs_{peer}": statistics.median(
            p / g for p, g in zip(seconds[peer], seconds[name], strict=True)
        )
        for name, peer in pairs
    }
    return ratios, {name: rows / statistics.median(s) for name, s in seconds.items()}


def _durations(frame: DataFrame, batches: int) -> list[float]:
    """Trigger durations of a stream that runs as fast as it can, the first third left out."""
    query = (
        frame.writeStream.format("noop").outputMode("update").trigger(processingTime="0 seconds").start()
    )
    try:
        while (query.lastProgress is None or query.lastProgress.batchId < batches) and query.isActive:
            time.sleep(0.1)
        if query.exception() is not None:
            raise query.exception()  # type: ignore[misc]
        recent = [
            p.durationMs["triggerExecution"] / 1000 for p in query.recentProgress if p.numInputRows
        ]
    finally:
        query.stop()
    return recent[len(recent) // 3 :]


def _micro(spark: SparkSession, rows: int) -> DataFrame:
    stream = spark.readStream.format("rate-micro-batch").option("numPartitions", 2)
    return stream.option("rowsPerBatch", rows).option("advanceMillisPerBatch", 1000).load()


def _per_batch(
    spark: SparkSession, folder: Path, batches: int, progress: Progress
) -> tuple[dict[str, float], dict[str, float]]:
    """Hardly any rows: what is left is the fixed price of a batch."""
    task = progress.add_task("time a batch", total=4)
    taken: dict[str, list[float]] = {"plain": [], "gated": []}
    for turn in range(2):
        for name in ("plain", "gated"):
            frame = _micro(spark, 100)
            if name == "gated":
                frame = frame.transform(gate(f"batch-{turn}", hold="1 hour", control=folder))
            taken[name] += _durations(frame, batches)
            progress.advance(task)
    plain, gated = (statistics.median(taken[n]) for n in ("plain", "gated"))
    return {"empty_batch_slowdown": gated / plain}, {"extra_ms_a_batch": 1000 * (gated - plain)}


def _idle(
    spark: SparkSession, folder: Path, batches: int, progress: Progress
) -> tuple[dict[str, float], dict[str, float]]:
    """The demo's query with nothing to shed, in turn without and with a gate."""
    task = progress.add_task("the demo's query, idle", total=8)
    rows = 100_000
    probe = statistics.median(_durations(Workload().medians(_micro(spark, rows)), 3))
    rows = max(20_000, int(rows * 2.0 / probe))  # batches of about two seconds, the demo's target
    taken: dict[str, list[float]] = {"plain": [], "gated": []}
    for turn in range(4):
        for name in ("plain", "gated") if turn % 2 == 0 else ("gated", "plain"):
            frame = _micro(spark, rows)
            if name == "gated":
                frame = frame.transform(gate(f"idle-{turn}", hold="1 hour", control=folder))
            taken[name] += _durations(Workload().medians(frame), batches)
            progress.advance(task)
    plain, gated = (statistics.median(taken[n]) for n in ("plain", "gated"))
    return {"idle_slowdown": gated / plain}, {"idle_rows_a_batch": rows, "idle_batch_s": plain}
