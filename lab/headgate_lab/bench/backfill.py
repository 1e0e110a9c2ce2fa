"""What a backfill costs: beside a plain query over the same rows, and to a live query beside it.

Rows of a parquet file a batch are gated, then repaid as `headgate backfill` does it: read twice
(compared with the ledger first), judged, written, counted where they were written, marked. The plain
query reads the same files through the same steps and writes as many rows. All is measured in turn in one
run.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from rich.progress import Progress

from headgate.demo.session import quiet_session
from headgate.spark.backfill.repay import Repayment, repay
from headgate.spark.gate.call import gate
from headgate.spark.loop.loop import ControlLoop
from headgate_lab.bench.progress import bench_progress

__all__ = ["run"]

_GATE, _KEEP = "bench", 0.5
_SCHEMA = "id bigint, route bigint, fare double"
#: The live query's rows and its trigger; the share of the unlimited speed that a careful backfill takes.
_LIVE_ROWS, _LIVE_S, _CAREFUL = 200_000, 0.5, 0.25


def run(*, quick: bool) -> dict[str, Any]:
    """Ratios of seconds: throughput of a backfill by the plain query's, and a live query's batches."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    batches, rows = (8, 250_000) if quick else (24, 1_000_000)
    try:
        settings: dict[str, Any] = {"spark.scheduler.mode": "FAIR"}
        with bench_progress() as progress, quiet_session(folder / "spark", more=settings) as spark:
            task = progress.add_task("shed, repay, compare", total=8)
            _shed(spark, folder, batches, rows)
            progress.advance(task)
            ratios, context = _throughput(
                spark, folder, batches * rows, 2 if quick else 4, progress, task
            )
            live, live_context = _beside(spark, folder, context["repay_rows_per_s"], quick)
            progress.update(task, completed=8)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    context |= {"batches": batches, "rows": batches * rows, "kept": _KEEP, **live_context}
    return {"bench": "backfill", "ratios": {**ratios, **live}, "context": context}


def _steps(frame: DataFrame) -> DataFrame:
    return frame.where("fare >= 0").selectExpr("id", "route", "fare * 1.1 as fare")


def _shed(spark: SparkSession, folder: Path, batches: int, rows: int) -> None:
    """A gated query over one file a batch, as fast as it goes."""
    source = folder / "in"
    for batch in range(batches):
        made = spark.range(batch * rows, (batch + 1) * rows, 1, 1)
        made = made.selectExpr("id", "id % 1000 as route", "cast(id % 97 as double) as fare")
        made.write.mode("append").parquet(str(source))
    stream = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    gated = _steps(stream).transform(gate(_GATE, rate=_KEEP, control=folder / "control"))
    writer = gated.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    ControlLoop.of(spark).drain()


def _repaid(spark: SparkSession, folder: Path, name: str, **more: Any) -> Repayment:
    """All batches once more, from a control store of this run's own."""
    control = folder / f"control-{name}"
    shutil.copytree(folder / "control", control)
    done = repay(spark, _GATE, control, folder / f"late-{name}", slice_batches=4, **more)
    assert done.complete, done.left_open
    return done


def _throughput(
    spark: SparkSession, folder: Path, rows: int, turns: int, progress: Progress, task: Any
) -> tuple[dict[str, float], dict[str, Any]]:
    source = str(folder / "in")

    def plain(name: str) -> None:
        half = _steps(spark.read.schema(_SCHEMA).parquet(source)).where("id % 2 = 0")
        half.write.parquet(str(folder / f"plain-{name}"))

    taken: dict[str, list[float]] = {"plain": [], "repay": []}
    slices = 0
    for turn in range(turns + 1):  # the first one warms up
        acts: dict[str, Callable[[], object]] = {
            "plain": lambda turn=turn: plain(str(turn)),  # type: ignore[misc]
            "repay": lambda turn=turn: _repaid(spark, folder, str(turn)),  # type: ignore[misc]
        }
        for name in acts if turn % 2 == 0 else reversed(acts):
            began = time.monotonic()
            found = acts[name]()
            if isinstance(found, Repayment):
                slices = found.slices
            if turn > 0:
                taken[name].append(time.monotonic() - began)
        progress.advance(task)
    plain_s, repay_s = (statistics.median(taken[name]) for name in ("plain", "repay"))
    context = {
        "plain_rows_per_s": rows / plain_s,
        "repay_rows_per_s": rows / repay_s,
        "slices": slices,
        "repay_s": repay_s,
    }
    return {"throughput_vs_plain": plain_s / repay_s}, context


def _beside(
    spark: SparkSession, folder: Path, speed: float, quick: bool
) -> tuple[dict[str, float], dict[str, Any]]:
    """A live query's batches alone, beside a backfill at full speed, and beside a careful one."""
    batches = 6 if quick else 16
    kinds: dict[str, dict[str, Any] | None] = {
        "alone": None,
        "unlimited": {},
        "careful": {"rows_per_s": _CAREFUL * speed},
    }
    seen = {kind: _live(spark, folder, kind, more, batches) for kind, more in kinds.items()}
    alone = seen["alone"]
    ratios = {f"live_batch_beside_{k}": s / alone for k, s in seen.items() if k != "alone"}
    return ratios, {"live_batch_s": seen, "careful_share": _CAREFUL}


def _live(
    spark: SparkSession, folder: Path, kind: str, more: dict[str, Any] | None, batches: int
) -> float:
    """The median duration of the live query's batches while the backfill runs."""
    options = {"rowsPerBatch": _LIVE_ROWS, "numPartitions": 2}
    live = spark.readStream.format("rate-micro-batch").options(**options).load()
    totals = live.groupBy((live.value % 1000).alias("k")).count()
    writer = totals.writeStream.outputMode("update").format("noop")
    writer = writer.option("checkpointLocation", str(folder / f"live-{kind}"))
    query = writer.trigger(processingTime=f"{_LIVE_S} seconds").start()
    over = threading.Event()

    def work() -> None:
        turn = 0
        while not over.is_set():
            _repaid(spark, folder, f"{kind}-{turn}", **(more or {}))
            turn += 1

    worker = threading.Thread(target=work, daemon=True)
    try:
        _until(lambda: _batches(query) >= 3)  # it has warmed up
        if more is not None:
            worker.start()
        first = _batches(query)
        _until(lambda: _batches(query) >= first + batches)
        return statistics.median(_durations(query)[first : first + batches])
    finally:
        query.stop()
        over.set()
        if worker.is_alive():
            worker.join()


def _durations(query: Any) -> list[float]:
    return [p.batchDuration / 1000.0 for p in query.recentProgress if p.numInputRows > 0]


def _batches(query: Any) -> int:
    return len(_durations(query))


def _until(reached: Callable[[], bool], within_s: float = 240.0) -> None:
    until = time.monotonic() + within_s
    while not reached():
        if time.monotonic() > until:
            raise TimeoutError(f"the live query did not get on in {within_s:g} s")
        time.sleep(0.05)
