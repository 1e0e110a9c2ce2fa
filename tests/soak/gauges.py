"""What could grow with time, read from outside: the driver's JVM and Python, and the control folder."""

from __future__ import annotations

import gc
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from tests.harness.memory import java_heap_mib

__all__ = ["Reading", "read"]


@dataclass(frozen=True)
class Reading:
    """One look; memory in MiB."""

    seconds: float
    batches: int
    heap: float
    python_rss: float
    threads: int
    java_threads: int
    open_files: int
    java_open_files: int
    control_files: int
    control_mib: float

    def row(self) -> dict[str, float]:
        """As a row of a table."""
        return {name: round(float(value), 3) for name, value in asdict(self).items()}


def _java(spark: SparkSession) -> psutil.Process:
    runtime = spark._jvm.java.lang.ProcessHandle.current()  # type: ignore[union-attr]
    return psutil.Process(int(runtime.pid()))


def _size(folder: Path) -> tuple[int, float]:
    files = bytes_ = 0
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                files += 1
                bytes_ += path.stat().st_size
        except OSError:
            continue  # gone meanwhile
    return files, bytes_ / 2**20


def read(spark: SparkSession, control: Path, seconds: float, batches: int) -> Reading:
    """A look at everything, after a collection on both sides."""
    gc.collect()
    mine, java = psutil.Process(os.getpid()), _java(spark)
    heap = min(java_heap_mib(spark) for _ in range(2))
    files, mib = _size(control)
    return Reading(
        seconds=seconds,
        batches=batches,
        heap=heap,
        python_rss=mine.memory_info().rss / 2**20,
        threads=mine.num_threads(),
        java_threads=java.num_threads(),
        open_files=mine.num_fds(),
        java_open_files=java.num_fds(),
        control_files=files,
        control_mib=mib,
    )
