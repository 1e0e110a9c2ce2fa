"""A guard at work: one trace through every policy on a real query, and what a guard costs a row.

Capacity is one operator's: one row after another, as fast as they take. 1.25 times capacity means that
a second brings 1.25 s of work.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from rich.progress import Progress

from headgate.demo.session import quiet_session
from headgate.guards.targets import average
from headgate.spark.guard.call import guard
from headgate_lab.bench.progress import bench_progress
from headgate_lab.demo.guarded import GuardedRun, GuardTrial
from headgate_lab.sim.las.stream import StreamLaw
from headgate_lab.spark.trace_source import Trace

__all__ = ["run"]

_TAU_S = 1.0
_POLICIES = ("none", "straw-man", "las", "full-knowledge", "balanced")
#: Rows are judged after this share of the trace: LAS needs 3 N executed rows for its first matrices.
_SETTLED = 0.5


def run(*, quick: bool) -> dict[str, Any]:
    """Average and p95 latency and drops by policy and load; microseconds a row."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-guard-"))
    loads, seconds = ((2.0,), 20.0) if quick else ((1.25, 2.0), 60.0)
    table: list[dict[str, Any]] = []
    try:
        with bench_progress() as progress, quiet_session(folder / "spark") as spark:
            overhead = _overhead(spark, 50_000 if quick else 200_000, 3 if quick else 7, progress)
            task = progress.add_task("traces", total=len(loads) * len(_POLICIES))
            GuardTrial(spark, folder).warm_up()
            for load in loads:
                trace = _trace(load, seconds)
                for policy in _POLICIES:
                    progress.update(task, description=f"{load:g} times capacity: {policy}")
                    # Whoever falls behind may finish: rows that wait for ever have no latency.
                    found = GuardTrial(spark, folder).run(
                        trace, policy, average(_TAU_S), longest_s=load * seconds
                    )
                    table.append({"load": load, "policy": policy, **_figures(found)})
                    progress.advance(task)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ratios = {"guard_overhead_us": overhead["overhead_us"]}
    for row in table:
        for name in ("average_queueing_latency_s", "dropped_ratio"):
            if name in row:  # no latency where nobody came to a row
                ratios[f"{name}_{row['policy']}_at_{row['load']:g}"] = row[name]
    context = {"target_s": _TAU_S, "seconds": seconds, "rows": table, **overhead}
    return {"bench": "guard", "ratios": ratios, "context": context}


def _trace(load: float, seconds: float) -> Trace:
    """The paper's law at Zipf-1.0, with durations of 0.5 to 32 ms."""
    law = StreamLaw(shortest_s=0.0005, longest_s=0.032, under=1.0 - 1.0 / load, tuples=200_000)
    stream = law.draw(seed=1)
    count = int(np.searchsorted(stream.arrivals_s, seconds))
    keys = [f"item-{item}" for item in stream.items[:count]]
    return Trace(stream.arrivals_s[:count], keys, stream.durations_s[:count])


def _figures(found: GuardedRun) -> dict[str, Any]:
    values = {k: round(v, 4) for k, v in found.figures(int(_SETTLED * len(found.trace))).items()}
    return {**values, "rows": len(found.trace), "waiting": found.waiting, "balanced": found.balanced}


# What a guard costs.


def _echo(row: Row) -> tuple[int]:
    return (row[0],)


def _bare(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function without a guard, called in the same way."""
    for batch in batches:
        make = Row(*batch.schema.names)
        columns = [column.to_pylist() for column in batch.columns]
        results = [_echo(make(*values)) for values in zip(*columns, strict=True)]
        array = pa.array([result[0] for result in results], pa.int64())
        yield pa.RecordBatch.from_arrays([array], ["id"])


def _overhead(spark: SparkSession, rows: int, rounds: int, progress: Progress) -> dict[str, float]:
    """Microseconds a row: a function that does nothing, with a guard and without, in turn."""
    task = progress.add_task("what a guard costs a row", total=rounds + 1)
    frame = spark.range(0, rows, 1, 1).selectExpr("id", "id % 1000 as key")
    guarded = guard(frame, _echo, schema="id bigint", key="key", target=average("1 hour"), name="echo")
    plain = frame.mapInArrow(_bare, "id bigint")
    taken: dict[str, list[float]] = {"plain": [], "guarded": []}
    for number in range(rounds + 1):
        for name, one in (("plain", plain), ("guarded", guarded)):
            seconds = _write(one)
            if number:  # the first round starts workers
                taken[name].append(1e6 * seconds / rows)
        progress.advance(task)
    bare = statistics.median(taken["plain"])
    extra = statistics.median(g - p for g, p in zip(taken["guarded"], taken["plain"], strict=True))
    return {"bare_us": bare, "overhead_us": extra}


def _write(frame: DataFrame) -> float:
    started = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started
