"""``headgate bench error-bars``: what an aggregate costs with error bars, beside the same without."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.progress import Progress

from headgate.demo.session import quiet_session
from headgate.spark.estimates import estimators as hg
from headgate_lab.bench.progress import bench_progress

__all__ = ["measure", "run"]

#: Rows, full and quick; groups in each window, and windows; rounds after one that is not counted.
_ROWS, _FEWER, _GROUPS, _WINDOWS, _ROUNDS = 4_000_000, 1_000_000, 200, 10, 5
#: Rows of a group and window that share an identity.
_TOGETHER = 20


def run(*, quick: bool) -> dict[str, Any]:
    """The bench on a session of its own."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    try:
        with (
            bench_progress() as progress,
            quiet_session(folder / "spark", name="headgate-bench") as spark,
        ):
            return measure(spark, folder, progress, _FEWER if quick else _ROWS, 3 if quick else _ROUNDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(
    spark: SparkSession, folder: Path, progress: Progress, rows: int, rounds: int
) -> dict[str, Any]:
    """Every way in turn, round by round; the medians of their times."""
    path = str(folder / "rows")
    made = spark.range(rows).selectExpr(
        f"id % {_GROUPS} g",
        f"id div {_GROUPS * _WINDOWS * _TOGETHER} user",
        f"timestamp_seconds(36000 + 3600 * (id div {_GROUPS} % {_WINDOWS})) at",
        "(hash(id) % 1000) / 10D y",
        "CASE WHEN id % 3 = 0 THEN 20D ELSE 1D END _weight",
    )
    made.write.parquet(path)
    frame = spark.read.parquet(path).withColumn("window", F.window("at", "1 hour"))
    stored = str(folder / "stored")
    past = frame.withColumn(
        "window", F.window(F.col("at") - F.expr(f"INTERVAL {_WINDOWS} HOURS"), "1 hour")
    )
    past.groupBy("window", "g").agg(*_estimated("careful")).write.parquet(stored)
    ways = _ways(frame, spark.read.parquet(stored))
    task = progress.add_task("error bars", total=len(ways) * (rounds + 1))
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            way().write.format("noop").mode("overwrite").save()
            if turn:
                times[name].append(time.perf_counter() - began)
            progress.advance(task)
    medians = {name: statistics.median(found) for name, found in times.items()}
    ratios = {f"{name}_vs_weighted": medians[name] / medians["weighted"] for name in list(ways)[1:]}
    context = {"rows": rows, "groups": _GROUPS, "windows": _WINDOWS, "seconds": medians}
    return {"bench": "error-bars", "ratios": ratios, "context": context}


def _estimated(interval: str) -> list[Column]:
    return [hg.mean("y", interval=interval), hg.sum("y", interval=interval), hg.count()]


def _ways(frame: DataFrame, stored: DataFrame) -> dict[str, Callable[[], DataFrame]]:
    """Mean, sum and count of each group: weighted by hand, and with error bars.

    `stored` are the results of as many windows before.
    """
    groups = frame.groupBy("window", "g")
    weight, y = F.col("_weight"), F.col("y")
    by_hand = [F.sum(weight * y) / F.sum(weight), F.sum(weight * y), F.sum(weight)]
    careful = groups.agg(*_estimated("careful"))

    def by_identity() -> DataFrame:
        users = frame.transform(
            hg.together("user", within=("window", "g"), sums={"y": "y", "rows": F.lit(1)})
        )
        return users.groupBy("window", "g").agg(hg.ratio("y", "rows"), hg.sum("y"), hg.sum("rows"))

    return {
        "weighted": lambda: groups.agg(*by_hand),
        "plain": lambda: groups.agg(*_estimated("plain")),
        "careful": lambda: careful,
        "pooled": lambda: careful.transform(hg.pooled("window")),
        "by": lambda: careful.transform(hg.pooled("window", by="g")),
        "earlier": lambda: careful.transform(hg.pooled("window", by="g", earlier=stored)),
        "together": by_identity,
    }
