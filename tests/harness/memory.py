"""Memory of the run is bounded, and that is checked at the end of each module that uses Spark.

What a test leaves behind (the table of a memory sink, a cached frame, a local relation that somebody
still refers to) stays in the JVM for the rest of the run; with Spark's default heap of 1 GiB such
leftovers once filled it, a task died of it, and the run stood still without a word.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.harness.folder import run_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["HEAP", "HEAP_BOUND_MIB", "RSS_BOUND_MIB", "java_heap_mib"]

#: The heap of the tests' session. A whole run leaves about 300 MiB alive (see `HEAP_BOUND_MIB`), single
#: tests need some hundred more while they run, and a collector wants as much again to work well.
HEAP = "2500m"
#: The most that may be alive after a collection at the end of a module.
HEAP_BOUND_MIB = 700
#: The most that Python may hold at the end of a module: numba, pandas, scipy and matplotlib, loaded by
#: one process that runs everything.
RSS_BOUND_MIB = 2000


def java_heap_mib(spark: SparkSession, *, enough: float = 0.0) -> float:
    """What is alive in the driver's JVM, after a collection; or what is used, if that is `enough`.

    What is used is never less than what is alive, and a collection stops all threads for a while.
    """
    memory = spark._jvm.java.lang.management.ManagementFactory.getMemoryMXBean()  # type: ignore[union-attr]
    used = float(memory.getHeapMemoryUsage().getUsed()) / 2**20
    if used <= enough:
        return used
    memory.gc()
    return float(memory.getHeapMemoryUsage().getUsed()) / 2**20


def _python_mib() -> float:
    return float(psutil.Process(os.getpid()).memory_info().rss) / 2**20


def _drop_leftovers(spark: SparkSession) -> None:
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)
    spark.catalog.clearCache()
    gc.collect()  # frames in reference cycles hold their plans in the JVM


def pytest_collection_finish() -> None:
    """What was imported and collected stays: nobody looks for garbage in a million objects again."""
    gc.collect()
    gc.freeze()


#: Modules of which this process has run a test with the session: another process may have the others.
_used_spark: set[Path] = set()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "spark" in getattr(item, "fixturenames", ()):
        _used_spark.add(item.path)


@pytest.fixture(scope="module", autouse=True)
def _bounded_memory(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    module = request.node
    if module.path not in _used_spark:
        return
    spark: SparkSession = request.getfixturevalue("spark")
    _drop_leftovers(spark)
    heap = java_heap_mib(spark, enough=HEAP_BOUND_MIB)
    for _ in range(5):  # Spark cleans up what became unreachable in a thread of its own
        if heap <= HEAP_BOUND_MIB:
            break
        time.sleep(1.0)
        heap = min(heap, java_heap_mib(spark))
    rss = _python_mib()
    with open(run_folder() / "memory.csv", "a") as file:
        file.write(f"{module.nodeid},{heap:.0f},{rss:.0f}\n")
    assert heap <= HEAP_BOUND_MIB, (
        f"{heap:.0f} MiB are alive in Spark's JVM after {module.nodeid}, at most {HEAP_BOUND_MIB} "
        "may be: drop tables of memory sinks and cached frames, write large inputs to Parquet"
    )
    assert rss <= RSS_BOUND_MIB, (
        f"Python holds {rss:.0f} MiB after {module.nodeid}, at most {RSS_BOUND_MIB} may be"
    )
