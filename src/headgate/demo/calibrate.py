"""How many rows a second this machine sustains on the demo's query, within a target.

Three streams tell. A slow one runs until its batches stop getting shorter: the JVM is warm, and the
shortest batch is the price of a batch as such. Then one that brings about as much as a small machine
can do keeps it busy for a while, in which the JVM compiles what handles rows; its best batch is a
price of a row. Of these two the best batches count, because whatever else the machine does only ever
makes a batch longer. A straight line through both, `duration = a + b * rows`, says how many rows a
batch of the target's length may have. Sustained means that such a batch also brings no more rows than
that: in a time T arrive C * T rows, and they must take no longer than T. So C = (T - a) / (b * T), with
the trigger's interval in place of T where it is longer.

The third stream brings just that rate, and its batches of about the target's length set the price of a
row anew. What a batch costs need not be a straight line: the work for each road and window is shared by
all rows of a batch, so a row may be cheaper in a batch of many seconds than in a shorter one. Here the
middle batch counts: a machine sustains what most batches do, not what the luckiest one did.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from headgate.demo.batches import Batch
from headgate.demo.watch import Watch, counted
from headgate.demo.workload import Workload
from headgate.errors import BadArgument

__all__ = ["Calibration", "Capacity"]


@dataclass(frozen=True)
class Capacity:
    """What was found: rows per second, from `a` and `b` of the line."""

    rows_per_second: float
    fixed_s: float
    per_row_s: float


@dataclass(frozen=True)
class Calibration:
    """How to look for it: the rates of the streams, and how long they run."""

    slow_rate: int = 3_000
    slow_batches: int = 6
    busy_rate: int = 150_000
    busy_s: float = 15.0
    busy_batches: int = 3
    #: The stream at the rate that was found: how long it runs, and which of its batches count, by their
    #: rows as shares of those of a batch that takes the target.
    check_s: float = 10.0
    check_from: float = 0.4
    check_to: float = 2.0
    #: No stream runs longer than this.
    longest_s: float = 30.0

    def measure(
        self,
        spark: SparkSession,
        workload: Workload,
        target_s: float,
        scratch: Path,
        on_batch: Callable[[Batch], None] = lambda batch: None,
    ) -> Capacity:
        """Run the streams, and draw the lines."""
        slow: list[Batch] = []
        with closing(_batches(spark, workload, self.slow_rate, scratch / "slow", self.longest_s)) as run:
            for batch in run:
                on_batch(batch)
                shortest = min((b.duration_s for b in slow[-3:]), default=0.0)
                slow.append(batch)
                if len(slow) > self.slow_batches and batch.duration_s > 0.9 * shortest:
                    break
        busy: list[Batch] = []
        began = time.monotonic()
        with closing(_batches(spark, workload, self.busy_rate, scratch / "busy", self.longest_s)) as run:
            for batch in run:
                on_batch(batch)
                busy.append(batch)
                if time.monotonic() - began > self.busy_s and len(busy) >= self.busy_batches:
                    break
        found = self.line(slow, busy, target_s, workload.trigger_s)
        rate = max(1, round(found.rows_per_second))
        checked: list[Batch] = []
        began = time.monotonic()
        with closing(_batches(spark, workload, rate, scratch / "check", self.longest_s)) as run:
            for batch in run:
                on_batch(batch)
                checked.append(batch)
                if time.monotonic() - began > self.check_s:
                    break
        return self.checked(found, checked, target_s, workload.trigger_s)

    def checked(
        self, found: Capacity, batches: list[Batch], target_s: float, trigger_s: float
    ) -> Capacity:
        """The capacity by batches of a stream at the rate that was found.

        Those of about the target's length set the price of a row; where there is none, what was found
        stands.
        """
        rows = found.rows_per_second * max(target_s, trigger_s)
        near = [b for b in batches if self.check_from * rows <= b.arrived <= self.check_to * rows]
        prices = [(b.duration_s - found.fixed_s) / b.arrived for b in near]
        if not prices:
            return found
        per_row = max(statistics.median(prices), 1e-9)
        return Capacity(_sustained(target_s, trigger_s, found.fixed_s, per_row), found.fixed_s, per_row)

    def line(self, slow: list[Batch], busy: list[Batch], target_s: float, trigger_s: float) -> Capacity:
        """The line through the best batch of each stream, and what it says of a target."""
        if not slow or not busy:
            raise BadArgument(
                f"not one batch ended in {self.longest_s:g} s: this machine is too busy to measure "
                "what it sustains; run the demo again when it is calmer"
            )
        first = min(slow, key=lambda b: b.duration_s)
        second = min(busy, key=lambda b: b.duration_s / b.arrived)
        per_row = max(
            (second.duration_s - first.duration_s) / max(1, second.arrived - first.arrived), 1e-9
        )
        fixed = max(0.0, first.duration_s - per_row * first.arrived)
        if fixed >= 0.9 * target_s:
            raise BadArgument(
                f"target {target_s:g} s: on this machine a batch takes {fixed:.2f} s before its first "
                f"row, so no shedding can hold it; try --target '{2.5 * fixed:.1f} seconds'"
            )
        return Capacity(_sustained(target_s, trigger_s, fixed, per_row), fixed, per_row)


def _sustained(target_s: float, trigger_s: float, fixed_s: float, per_row_s: float) -> float:
    return (target_s - fixed_s) / per_row_s / max(target_s, trigger_s)


def _batches(
    spark: SparkSession, workload: Workload, rate: int, checkpoint: Path, longest_s: float
) -> Generator[Batch, None, None]:
    """The batches of a stream as they end, until its time is up or nobody wants more."""
    deadline = time.monotonic() + longest_s
    query = workload.start(counted(workload.arrivals(spark, rate)), checkpoint)
    watch = Watch(query, workload.trigger_s, rate)
    try:
        while time.monotonic() < deadline:
            yield from watch.poll()
            time.sleep(0.2)
    finally:
        query.stop()
