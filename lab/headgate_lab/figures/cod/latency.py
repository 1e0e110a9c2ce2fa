"""Window latencies on a real Spark: each complete window is an input of its own, replayed at once.

Latency is what the paper's section VII-C measures: from the moment that a window is complete until its
result is out. Here the window's rows lie in Parquet, and its aggregate runs behind the shipped gate, as
``DataFrame.transform`` puts it there; the pass that counts the groups is part of the latency. (On Storm
CoD takes its sample while tuples arrive, and the paper does not count that.)

A real window has too few rows for Spark, whose jobs take a tenth of a second whatever they do; so its
rows are copied until there are enough. Copies of a window with few groups add rows to these groups; with
many groups each copy has its own, as another city would, so that rows per group stay what they are.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import headgate as hg
from headgate.demo.session import quiet_session
from headgate_lab.figures.cod.data import Source, windows_of
from headgate_lab.figures.cod.policies import KEPT, OURS, UNIFORM
from headgate_lab.figures.figure import Axis
from headgate_lab.figures.measured_spark import conf, heard
from headgate_lab.papers.cod import WindowRows

__all__ = [
    "AGGREGATES",
    "AXES",
    "LATENCY",
    "LATENCY_P95",
    "POLICIES",
    "SPARK",
    "Replay",
    "Size",
    "column_of",
    "copied",
    "local_session",
    "replay",
    "scratch_folder",
]

SPARK = "spark"
#: Normal execution, and the two that shed.
POLICIES = (SPARK, UNIFORM, OURS)
#: The paper's mean; a median, for which Spark counts equal values; and a mean without the 5 % at either
#: end, which has to hold all rows of a group, as every aggregate of the paper's engine does.
AGGREGATES = ("mean", "median", "trimmed mean")
LATENCY, LATENCY_P95 = "latency_s", "latency_p95_s"
AXES = (
    Axis(LATENCY, "average window latency (s)"),
    Axis(LATENCY_P95, "95th percentile of the latency (s)"),
    Axis(KEPT, "rows really kept (%)", 100.0),
)
#: Above so many groups a copy has groups of its own.
_FEW = 100


@dataclass(frozen=True)
class Size:
    """Rows of a window, at least; different windows; and how many windows a run replays."""

    rows: int
    windows: int
    replays: int


@dataclass(frozen=True)
class Replay:
    """The windows of one data set as files, and the share of them that the gates keep."""

    source: Source
    keep: float
    size: Size

    def write(self, folder: Path) -> list[Path]:
        """A file for each window: `key, value, id`."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for number, window in enumerate(windows_of(self.source)[: self.size.windows]):
            path = folder / f"{self.source.name}-{number:02d}.parquet"
            if not path.exists():
                pq.write_table(copied(window, self.size.rows), path, row_group_size=100_000)
            paths.append(path)
        return paths

    def gated(self, frame: DataFrame, policy: str) -> DataFrame:
        """The window behind a policy's gate."""
        if policy == SPARK:
            return frame
        which = hg.ConceptDriven(by="key") if policy == OURS else None
        return frame.transform(hg.gate("window", rate=self.keep, identity="id", policy=which))


def copied(window: WindowRows, rows: int) -> pa.Table:
    """The window's rows as often as it takes to have so many."""
    copies = max(1, -(-rows // window.rows))
    number = np.repeat(np.arange(copies), window.rows)
    keys = np.tile(window.codes, copies)
    if window.groups > _FEW:
        keys = keys + number * window.groups
    values = np.tile(window.values, copies)
    return pa.table({"key": keys, "value": values, "id": np.arange(len(keys))})


def replay(
    spark: SparkSession,
    plan: Replay,
    folder: Path,
    runs: int,
    passed: Callable[[], None],
) -> Iterator[tuple[str, str, Mapping[str, float]]]:
    """Aggregate, policy and metrics of every run.

    Policies take turns on every window, whoever began the last one being last on the next. What happens
    first, while the rows kept are counted, is not timed: Spark compiles then.
    """
    frames = [spark.read.parquet(str(path)) for path in plan.write(folder)]
    with conf(spark), heard():
        kept = {policy: float(np.mean([_kept(plan, f, policy) for f in frames])) for policy in POLICIES}
        for aggregate in AGGREGATES:
            for policy in POLICIES:
                _seconds(plan, frames[0], policy, aggregate)
            for _ in range(runs):
                for policy, taken in _run(plan, frames, aggregate, passed).items():
                    average, tail = float(np.mean(taken)), float(np.percentile(taken, 95))
                    metrics = {LATENCY: average, LATENCY_P95: tail, KEPT: kept[policy]}
                    yield aggregate, policy, metrics


def _run(
    plan: Replay, frames: list[DataFrame], aggregate: str, passed: Callable[[], None]
) -> dict[str, list[float]]:
    """The windows' latencies by policy."""
    seconds: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    for number in range(plan.size.replays):
        first = number % len(POLICIES)
        for policy in POLICIES[first:] + POLICIES[:first]:
            frame = frames[number % len(frames)]
            seconds[policy].append(_seconds(plan, frame, policy, aggregate))
        passed()
    return seconds


def _seconds(plan: Replay, frame: DataFrame, policy: str, aggregate: str) -> float:
    started = time.perf_counter()
    result = plan.gated(frame, policy).groupBy("key").agg(column_of(aggregate).alias("x"))
    result.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def column_of(aggregate: str) -> Column:
    """An aggregate of a group's values."""
    if aggregate == "mean":
        return F.mean("value")
    if aggregate == "median":
        return F.median("value")
    ordered = F.array_sort(F.collect_list("value"))
    cut = F.floor(F.size(ordered) * 0.05).cast("int")
    middle = F.slice(ordered, cut + 1, F.size(ordered) - 2 * cut)
    return F.aggregate(middle, F.lit(0.0), lambda total, value: total + value) / F.size(middle)


def _kept(plan: Replay, frame: DataFrame, policy: str) -> float:
    return plan.gated(frame, policy).count() / frame.count() if policy != SPARK else 1.0


@contextlib.contextmanager
def local_session(scratch: Path, cores: int) -> Iterator[SparkSession]:
    """A session of this machine with so many cores."""
    with quiet_session(
        scratch / "spark", "3g", master=f"local[{cores}]", name="headgate-figures"
    ) as spark:
        yield spark


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for the windows and for Spark, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-figure-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
