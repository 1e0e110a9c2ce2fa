"""How many rows a second this machine sustains on the demo's query, within a target.

First the JVM is warmed: a slow stream runs until its batches stop getting shorter. Then the query
runs for a few batches at rising rates, until it is near what it can do. A straight line through the
best batch of each rate, `duration = a + b * rows`, says how many rows a batch of the target's length
may have; the best, because whatever else the machine does only ever makes a batch longer. Sustained
means that such a batch also brings no more rows than that: in a time T arrive C * T rows, and they
must take no longer than T. So C = (T - a) / (b * T), with the trigger's interval in place of T where
it is longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pyspark.sql import SparkSession

from headgate.control.capacity import CapacityFit
from headgate.demo.batches import Batch
from headgate.demo.watch import Watch, counted
from headgate.demo.workload import Workload
from headgate.errors import BadArgument

__all__ = ["Calibration", "Capacity"]

OnBatch = Callable[[Batch], None]


@dataclass(frozen=True)
class Capacity:
    """What was found: rows per second, from `a` and `b` of the line."""

    rows_per_second: float
    fixed_s: float = 0.0
    per_row_s: float = 0.0
    rates: int = 0


@dataclass(frozen=True)
class Calibration:
    """How to look for it: where to begin, and when to leave off."""

    first_rate: int = 3_000
    #: Batches that the warming takes at least, and each rate at most.
    warm_batches: int = 6
    step_batches: int = 4
    #: The next rate is at least and at most so many times the last one.
    least_step: float = 2.0
    largest_step: float = 6.0
    #: Neither the warming nor all the rates together take longer than this.
    longest_s: float = 35.0

    def measure(
        self,
        spark: SparkSession,
        workload: Workload,
        target_s: float,
        scratch: Path,
        on_batch: OnBatch = lambda batch: None,
    ) -> Capacity:
        """Warm up, try rising rates, and fit."""
        fit = CapacityFit()
        rate = float(self.first_rate)
        best = self._warm(_batches(spark, workload, rate, scratch / "warming", self.longest_s), on_batch)
        deadline = time.monotonic() + self.longest_s
        step = 0
        while best is not None:
            fit.add(best.arrived, best.duration_s)
            capacity = _sustained(fit, target_s, workload.trigger_s)
            left = deadline - time.monotonic()
            if left <= 0 or (fit.samples >= 3 and capacity < 1.3 * rate):
                break
            rate *= min(self.largest_step, max(self.least_step, 0.9 * capacity / rate))
            step += 1
            batches = _batches(spark, workload, rate, scratch / f"rate-{step}", left)
            best = self._best(batches, target_s, on_batch)
        return self._capacity(fit, target_s, workload.trigger_s)

    def _warm(self, batches: Generator[Batch, None, None], on_batch: OnBatch) -> Batch | None:
        """The last batch of a stream whose batches have stopped getting shorter."""
        before: list[Batch] = []
        for batch in batches:
            on_batch(batch)
            shortest = min((b.duration_s for b in before[-3:]), default=0.0)
            before.append(batch)
            if len(before) > self.warm_batches and batch.duration_s > 0.9 * shortest:
                break
        batches.close()
        return before[-1] if before else None

    def _best(
        self, batches: Generator[Batch, None, None], target_s: float, on_batch: OnBatch
    ) -> Batch | None:
        """The batch of a few that spent the least time on a row."""
        tried: list[Batch] = []
        for batch in islice(batches, self.step_batches):
            on_batch(batch)
            tried.append(batch)
            if len(tried) > 1 and batch.duration_s > 2.0 * target_s:
                break
        batches.close()
        return min(tried, key=lambda b: b.duration_s / b.arrived, default=None)

    def _capacity(self, fit: CapacityFit, target_s: float, trigger_s: float) -> Capacity:
        if fit.samples < 3:
            raise BadArgument(
                f"only {fit.samples} rates could be tried in {self.longest_s:g} s: this machine is too "
                "busy to measure what it sustains; run the demo again when it is calmer"
            )
        if fit.fixed_s >= 0.9 * target_s:
            raise BadArgument(
                f"target {target_s:g} s: on this machine a batch takes {fit.fixed_s:.2f} s before its "
                f"first row, so no shedding can hold it; try --target '{2.5 * fit.fixed_s:.1f} seconds'"
            )
        rows = _sustained(fit, target_s, trigger_s)
        return Capacity(rows, fit.fixed_s, fit.per_row_s, fit.samples)


def _sustained(fit: CapacityFit, target_s: float, trigger_s: float) -> float:
    return fit.rows_within(target_s) / max(target_s, trigger_s)


def _batches(
    spark: SparkSession, workload: Workload, rate: float, checkpoint: Path, longest_s: float
) -> Generator[Batch, None, None]:
    """The batches of a stream as they end, until its time is up or nobody wants more."""
    deadline = time.monotonic() + longest_s
    query = workload.start(counted(workload.arrivals(spark, round(rate))), checkpoint)
    watch = Watch(query, workload.trigger_s, round(rate))
    try:
        while time.monotonic() < deadline:
            yield from watch.poll()
            time.sleep(0.2)
    finally:
        query.stop()
