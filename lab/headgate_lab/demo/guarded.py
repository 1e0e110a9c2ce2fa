"""One trace through one guard on a real query: what each row waited and cost, and which were dropped."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame, SparkSession

from headgate.guards.targets import LatencyTarget, average
from headgate.spark.guard.call import guard
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate_lab.spark.trace_source import Trace, handed_out, replayed

__all__ = ["GuardTrial", "GuardedRun", "work"]

#: The query starts before the trace does: the first rows are not the start-up's.
_LEAD_S = 3.0
#: How long a query may work on after the last row has arrived.
_PATIENCE_S = 20.0

Array = npt.NDArray[np.float64]


def work(row: Any) -> tuple[int]:
    """The operator: takes as long as the row says, as a call to another service would."""
    time.sleep(row.cost_s)
    return (row.seq,)


@dataclass(frozen=True)
class GuardedRun:
    """What became of a trace; latencies of rows that were not executed are NaN."""

    trace: Trace
    queue_s: Array
    cost_s: Array
    weight: Array
    #: Rows that were dropped on purpose, by the ledger.
    dropped: int
    #: Rows that the query had not come to when its time was up.
    waiting: int
    balanced: bool

    @property
    def kept(self) -> npt.NDArray[np.bool_]:
        """Which rows were executed."""
        return ~np.isnan(self.queue_s)

    @property
    def reached(self) -> int:
        """Rows that the query came to, in their order; the others waited when its time was up."""
        return len(self.trace) - self.waiting

    @property
    def completion_s(self) -> Array:
        """From arrival to the end of the execution."""
        return np.asarray(self.queue_s + self.cost_s, np.float64)

    def figures(self, since: int = 0) -> dict[str, float]:
        """Of the rows reached, from number `since` on: the share dropped, and the others' latencies."""
        kept = self.kept[since : self.reached]
        waits = self.queue_s[since : self.reached][kept]
        found = {"dropped_ratio": 1.0 - float(kept.mean()) if len(kept) else 0.0}
        if len(waits):
            found["average_queueing_latency_s"] = float(waits.mean())
            found["p95_queueing_latency_s"] = float(np.quantile(waits, 0.95))
        return found


@dataclass(frozen=True)
class GuardTrial:
    """A query that replays traces; every run has its own checkpoint and control folder."""

    spark: SparkSession
    folder: Path
    #: The shortest interval between batches.
    trigger: str = "250 milliseconds"

    def run(
        self, trace: Trace, policy: str | float, target: LatencyTarget,
        on_row: Callable[[int], None] = lambda rows: None, longest_s: float | None = None,
    ) -> GuardedRun:  # fmt: skip
        """Replay the trace; stop when all is done, or `longest_s` after its last row is due."""
        scratch = self.folder / uuid.uuid4().hex
        trace.save(scratch / "trace.npz")
        start = time.time() + _LEAD_S
        rows = replayed(self.spark, scratch / "trace.npz", start)
        out = guard(
            rows, work, schema="seq bigint", key="key", arrival="timestamp", target=target,
            policy=policy, name="work", control=scratch / "control",
        )  # fmt: skip
        try:
            found = self._collect(out, scratch, trace, start, on_row, longest_s)
            ControlLoop.of(self.spark).drain()
            return self._result(trace, found, scratch / "control")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def warm_up(self) -> None:
        """Start workers and compile, so that the first trace is not the one that pays for it."""
        self.run(
            Trace(np.arange(200) * 0.01, ["any"] * 200, np.full(200, 0.001)), "none", average("1 s")
        )

    def _collect(
        self, out: DataFrame, scratch: Path, trace: Trace, start: float,
        on_row: Callable[[int], None], longest_s: float | None,
    ) -> list[Any]:  # fmt: skip
        table = f"guarded_{uuid.uuid4().hex}"
        writer = out.writeStream.format("memory").queryName(table).outputMode("append")
        writer = writer.option("checkpointLocation", str(scratch / "checkpoint"))
        query = writer.trigger(processingTime=self.trigger).start()
        patience = _PATIENCE_S if longest_s is None else longest_s
        deadline = start + float(trace.due_s[-1]) + patience
        try:
            while time.time() < deadline:
                if error := query.exception():
                    raise error
                last = query.lastProgress
                done = handed_out(json.loads(last.json)) if last is not None else 0
                on_row(done)
                if done >= len(trace):
                    break
                time.sleep(0.2)
        finally:
            query.stop()
        found: list[Any] = self.spark.table(table).collect()
        self.spark.catalog.dropTempView(table)
        return found

    @staticmethod
    def _result(trace: Trace, rows: list[Any], control: Path) -> GuardedRun:
        columns = np.full((3, len(trace)), np.nan)
        for row in rows:
            columns[:, row.seq] = row._queue_ms / 1e3, row._cost_ms / 1e3, row._weight
        books = audit(control)
        dropped = sum(a.shed for a in books)
        waiting = len(trace) - len(rows) - dropped
        queue, cost, weight = columns
        balanced = all(a.balanced for a in books)
        return GuardedRun(trace, queue, cost, weight, dropped, waiting, balanced)
