"""Concept-driven shedding on real data: every allocation, bursts, too many groups, promises kept.

Where a data file is not here, the made stream in its place is taken, under its own name.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.progress import Progress

from headgate.demo.session import quiet_session
from headgate_lab.bench.cod.bursts import Burst, job_events, replay_bursts
from headgate_lab.bench.cod.overflow import Overflow, overflows
from headgate_lab.bench.cod.promises import Coverage, Reached, coverage, reached
from headgate_lab.bench.progress import bench_progress
from headgate_lab.figures.cod.tables import DATA_SETS, SHARES, AllocationRow, allocation_rows
from headgate_lab.figures.measured_spark import conf, heard

__all__ = ["FULL", "QUICK", "Size", "measure", "run"]


@dataclass(frozen=True)
class Size:
    """Which data sets and shares, how many draws."""

    allocated: tuple[str, ...]
    shares: tuple[float, ...]
    promised: tuple[str, ...]
    targets: tuple[float, ...]
    intervals: tuple[float, ...]
    draws: int
    batches_s: tuple[float, ...] = (60.0, 300.0)
    #: Events of the bursts; all without.
    events: int | None = None


_PROMISED = ("debs_few", "green_real", "green_pu", "gcm_real", "gcm_real_user", "gcm_real_job")
FULL = Size(DATA_SETS, SHARES, _PROMISED, (0.01, 0.02, 0.05, 0.1), (0.02, 0.1, 0.25), 3)
QUICK = Size(
    ("debs_real", "green_pu", "gcm_real_job"),
    SHARES[:2],
    ("green_pu", "gcm_real", "gcm_real_job"),
    (0.02, 0.05),
    (0.1,),
    1,
)


def run(*, quick: bool) -> dict[str, Any]:
    """All tables, and the numbers that matter."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    try:
        with (
            bench_progress() as progress,
            quiet_session(folder / "spark", name="headgate-bench") as spark,
        ):
            return measure(spark, QUICK if quick else FULL, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(spark: SparkSession, size: Size, progress: Progress) -> dict[str, Any]:
    """The bench on a session."""
    with conf(spark), heard() as warnings:
        crowd = overflows(spark)
    bursts = _bursts(size, progress)
    kept = _reached(size, progress)
    held = _coverage(size, progress)
    allocations = _allocations(size, progress)
    tables = {
        "allocations": [asdict(row) for row in allocations],
        "more groups than budget": [asdict(row) for row in crowd],
        "bursts": [asdict(row) for row in bursts],
        "accuracy asked for": [asdict(row) for row in kept],
        "95 % intervals": [asdict(row) for row in held],
    }
    ratios = {**_burst_ratios(bursts), **_crowd_ratios(crowd), **_promise_ratios(kept, held)}
    context = {"tables": tables, "warnings": warnings}
    return {"bench": "cod-data", "ratios": ratios, "context": context}


def _bursts(size: Size, progress: Progress) -> list[Burst]:
    task, events = progress.add_task("bursts", total=len(size.batches_s)), job_events()
    found = []
    for batch_s in size.batches_s:
        found.append(
            replay_bursts(events if size.events is None else events.first(size.events), batch_s)
        )
        progress.advance(task)
    return found


def _reached(size: Size, progress: Progress) -> list[Reached]:
    task = progress.add_task("accuracy asked for", total=len(size.promised) * len(size.targets))
    found = []
    for data in size.promised:
        for wanted in size.targets:
            found.append(reached(data, wanted, size.draws))
            progress.advance(task)
    return [row for row in found if row is not None]


def _coverage(size: Size, progress: Progress) -> list[Coverage]:
    task = progress.add_task("95 % intervals", total=len(size.promised) * len(size.intervals))
    found = []
    for data in size.promised:
        for asked in size.intervals:
            found.append(coverage(data, asked, size.draws))
            progress.advance(task)
    return [row for row in found if row is not None]


def _allocations(size: Size, progress: Progress) -> list[AllocationRow]:
    task, found = progress.add_task("allocations", total=None), []
    for row in allocation_rows(size.allocated, size.shares):
        found.append(row)
        progress.advance(task)
    progress.update(task, total=len(found))
    return found


def _burst_ratios(bursts: list[Burst]) -> dict[str, float]:
    found = {}
    for row in bursts:
        name = f"burst_{row.batch_s:g}s"
        found[f"{name}_kept_vs_ideal"] = row.same_batch / row.ideal
        found[f"{name}_history_vs_ideal"] = row.history / row.ideal
    return found


def _crowd_ratios(crowd: list[Overflow]) -> dict[str, float]:
    found = {"routes_floor": crowd[0].floor}
    for row in crowd:
        found[f"routes_kept_{row.overflow}"] = row.kept
        found[f"routes_yielded_{row.overflow}"] = row.yielded / row.groups
    return found


def _promise_ratios(kept: list[Reached], held: list[Coverage]) -> dict[str, float]:
    found = {f"accuracy_{100 * row.wanted:g}pct_{row.data}": row.ratio for row in kept}
    if kept:
        found["accuracy_windows_near"] = sum(row.windows_near for row in kept) / len(kept)
    for data in dict.fromkeys(row.data for row in held):
        rows = [row for row in held if row.data == data]
        cases = sum(row.intervals for row in rows)
        found[f"coverage_{data}"] = sum(row.covered * row.intervals for row in rows) / cases
    return found
