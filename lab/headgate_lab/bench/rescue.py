"""An outage, and what has piled up outgrows a worker's memory: restarts with rescue, and without.

The limit is a real one. A Python worker takes all rows of a batch as Python objects, under a bound on
its address space (RLIMIT_AS), as a container has one: the batch fits, or the worker runs out of memory.
The query is started again and again from its checkpoint, as a supervisor would.
"""

from __future__ import annotations

import resource
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from headgate.core.rescue import Rescue
from headgate.demo.session import quiet_session
from headgate.spark.backfill.backfill import backfill
from headgate.spark.backfill.offsets import file_rows
from headgate.spark.gate.call import gate
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger, queries_of
from headgate.store.plans import PlanStore
from headgate_lab.bench.progress import bench_progress

# isort: split
import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

__all__ = ["run"]

_GATE, _SCHEMA = "rescue", "id bigint, text string"
#: What arrives in a batch while all is well, and what has piled up after the outage.
_STEADY, _PILED_UP = 20_000, 400_000
#: Starts after the outage, before somebody would be woken.
_STARTS = 6
#: What a worker may take besides what it has when its rows come.
_ROOM_BYTES = 96 << 20


def _held_in_memory(room: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A person's function that needs all rows of the batch at once, in a worker with so much room."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room, before[1]))
    try:
        rows = [row for batch in batches for row in batch.to_pylist()]
        kept = pa.RecordBatch.from_pydict({"id": pa.array([row["id"] for row in rows], pa.int64())})
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    yield kept


@dataclass(frozen=True)
class _Job:
    """One query, its input, its checkpoint and its sink in a folder."""

    spark: SparkSession
    folder: Path
    rescue: Rescue | None
    room: int

    def arrives(self, first: int, rows: int, files: int) -> None:
        """So many rows more."""
        made = self.spark.range(first, first + rows, numPartitions=files)
        texts = made.selectExpr("id", "repeat(cast(id as string), 8) as text")
        texts.write.mode("append").parquet(str(self.folder / "in"))

    def start(self) -> str:
        """Start the query over all there is; how it ended."""
        stream = self.spark.readStream.schema(_SCHEMA).parquet(str(self.folder / "in"))
        gated = stream.transform(
            gate(_GATE, rate=1.0, control=self.folder / "control", rescue=self.rescue)
        )
        held = gated.repartition(1).mapInArrow(partial(_held_in_memory, self.room), "id bigint")
        writer = held.writeStream.format("parquet").option("path", str(self.folder / "out"))
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            return "out of memory" if "MemoryError" in str(error) else "worker died"
        finally:
            query.stop()
            ControlLoop.of(self.spark).drain()
        return "finished"

    def row(self, side: str, number: int, ended: str) -> dict[str, Any]:
        """What a start met, and how it ended."""
        (query,) = queries_of(self.folder / "control", _GATE)
        pin = PlanStore(self.folder / "control", _GATE, query).pinned(1)
        record = Ledger(self.folder / "control", _GATE, query).record(1)
        return {
            "query": side,
            "start": number,
            "keep rate": 1.0 if pin is None else pin.plan.default,
            "ended": ended,
            "rows kept": None if record is None else record.kept,
        }


def _piled_up(job: _Job, side: str) -> list[dict[str, Any]]:
    """A batch while all is well, an outage, and the starts after it."""
    job.arrives(0, _STEADY, 2)
    if (ended := job.start()) != "finished":
        raise RuntimeError(f"{_STEADY:,} rows are to fit, and the first start ended: {ended}")
    job.arrives(_STEADY, _PILED_UP, 8)
    found: list[dict[str, Any]] = []
    for number in range(1, _STARTS + 1):
        found.append(job.row(side, number, job.start()))
        if found[-1]["ended"] == "finished":
            break
    return found


def _repaid(job: _Job) -> set[int]:
    """What a backfill of the query yields."""
    load = partial(_load, job.spark)
    rows = file_rows(load, job.folder / "checkpoint")
    return {row.id for row in backfill(job.spark, _GATE, job.folder / "control", rows).collect()}


def _load(spark: SparkSession, paths: list[str]) -> Any:
    return spark.read.schema(_SCHEMA).parquet(*paths)


def run(*, quick: bool) -> dict[str, Any]:
    """Both queries; the one that is rescued is repaid in the end."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-rescue-"))
    try:
        with bench_progress() as progress, quiet_session(folder / "spark") as spark:
            task = progress.add_task("an outage, and restarts", total=3)
            tables: list[dict[str, Any]] = []
            jobs = {"without": None, "rescued": Rescue("files", whole=1 if quick else 2)}
            for side, rescue in jobs.items():
                job = _Job(spark, folder / side, rescue, _ROOM_BYTES)
                tables += _piled_up(job, side)
                progress.advance(task)
            repaid = _repaid(job)
            written = [row.id for row in spark.read.parquet(str(folder / "rescued" / "out")).collect()]
            progress.advance(task)
        return _result(folder, tables, written, repaid)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _result(
    folder: Path, starts: list[dict[str, Any]], written: list[int], repaid: set[int]
) -> dict[str, Any]:
    arrived = set(range(_STEADY + _PILED_UP))
    by_side = {side: [s for s in starts if s["query"] == side] for side in ("without", "rescued")}
    ended = {side: sum(s["ended"] == "finished" for s in rows) for side, rows in by_side.items()}
    (books,) = audit(folder / "rescued" / "control")
    ratios = {
        "starts_that_failed_without": float(len(by_side["without"]) - ended["without"]),
        "starts_that_failed_rescued": float(len(by_side["rescued"]) - ended["rescued"]),
        "piled_up_rows_kept": (len(written) - _STEADY) / _PILED_UP,
        "kept_and_repaid_of_arrived": (len(written) + len(repaid)) / len(arrived),
    }
    exact = len(set(written)) == len(written) and set(written) ^ repaid == arrived
    context = {
        "tables": {f"{_PILED_UP:,} rows have piled up; a worker has {_ROOM_BYTES >> 20} MiB": starts},
        "rows_written": len(written),
        "rows_repaid": len(repaid),
        "each_row_once": exact,
        "ledger_balanced": books.complete and books.kept == len(written),
        "remarks": [
            "Without rescue every start tries the range that Spark has planned; with it, each start "
            "after the whole ones keeps a quarter of the one before, a subset of the same rows.",
            f"Kept and repaid rows are all that arrived, each once: {'yes' if exact else 'NO'}.",
        ],
    }
    return {"bench": "rescue", "ratios": ratios, "context": context}
