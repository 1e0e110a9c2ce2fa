"""What this process holds: memory, threads, open files; as far as the system tells."""

from __future__ import annotations

import gc
import os
import sys
import threading
from pathlib import Path

__all__ = ["gauges", "rss_mb"]


def rss_mb() -> float:
    """The memory of this process."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not on this system
        return float("nan")
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def gauges() -> dict[str, float]:
    """Memory, the blocks of it that Python has given out, threads and open files."""
    gc.collect()
    try:
        files = float(sum(1 for _ in Path("/proc/self/fd").iterdir()))
    except OSError:
        files = float("nan")
    return {
        "rss_mb": rss_mb(),
        "python_blocks": sys.getallocatedblocks(),
        "threads": threading.active_count(),
        "open_files": files,
    }
