"""What Spark's driver holds in its JVM: heap, threads, and the CPU that it took."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

__all__ = ["JvmGauges"]


@dataclass(frozen=True)
class JvmGauges:
    """One look at the JVM; threads and CPU as far as the system tells."""

    heap_mb: float
    cpu_s: float
    threads: int

    @classmethod
    def of(cls, spark: Any, *, collect: bool = False) -> Self:
        """As it is now; with `collect` the heap is what is left behind a garbage collection."""
        java = spark._jvm.java.lang
        if collect:
            java.System.gc()
        runtime = java.Runtime.getRuntime()
        used_mb = (runtime.totalMemory() - runtime.freeMemory()) / 2**20
        process = Path("/proc") / str(java.ProcessHandle.current().pid())
        try:
            # Behind the process's name, which may have spaces, and eleven fields.
            user, system = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
            found = re.search(r"Threads:\s*(\d+)", (process / "status").read_text())
        except OSError:  # not on this system
            return cls(used_mb, float("nan"), 0)
        cpu_s = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        return cls(used_mb, cpu_s, int(found[1]) if found else 0)
