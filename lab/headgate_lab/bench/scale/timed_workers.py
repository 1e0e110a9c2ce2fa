"""Spark's Python workers, with a note of how long each pin of a plan took.

Spark starts this module in place of its own daemon (``spark.python.daemon.module``). Headgate is
imported behind the fork, as without this.
"""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path
from typing import Any

from pyspark import daemon

__all__ = ["SETTINGS", "pins_noted", "timing_into"]

_FOLDER = "HEADGATE_BENCH_PINS"
#: What a session needs for it.
SETTINGS: dict[str, bool | float | int | str | None] = {
    "spark.python.daemon.module": "headgate_lab.bench.scale.timed_workers"
}


def timing_into(folder: Path) -> None:
    """The workers of sessions that this process starts from now on leave their notes here."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ[_FOLDER] = str(folder)


def pins_noted(folder: Path, since: float) -> list[float]:
    """Seconds that pins took which began behind this moment of the machine's monotonic clock."""
    lines = [line.split() for path in folder.iterdir() for line in path.read_text().splitlines()]
    return [float(line[1]) for line in lines if len(line) == 2 and float(line[0]) >= since]


def _timed(worker: Any) -> Any:
    def work(*given: Any) -> Any:
        _note_pins()
        return worker(*given)

    return work


@functools.cache  # a worker is used again and again, and notes a pin once
def _note_pins() -> None:
    from headgate.spark.gate.pin.task_plan import TaskPlan

    pin = TaskPlan.pin
    notes = (Path(os.environ[_FOLDER]) / str(os.getpid())).open("a", buffering=1)

    def timed(self: TaskPlan, query: str, batch: int) -> Any:
        began = time.monotonic()
        try:
            return pin(self, query, batch)
        finally:
            notes.write(f"{began} {time.monotonic() - began}\n")

    TaskPlan.pin = timed  # type: ignore[method-assign]


if __name__ == "__main__":
    module: Any = daemon
    module.worker = _timed(module.worker)
    module.manager()
