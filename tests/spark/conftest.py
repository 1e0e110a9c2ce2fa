"""Streams for the tests: files that a test writes, and queries that are always stopped."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.records import Ledger, Record, queries_of
from tests.harness.late_worker import run_stateful


class FileStream:
    """A folder of JSON files read as a stream: each `add` is one batch (one file a trigger)."""

    def __init__(self, spark: SparkSession, folder: Path, schema: str) -> None:
        self._spark, self._folder, self._schema = spark, folder, schema
        folder.mkdir(parents=True, exist_ok=True)
        self._files, self._began = 0, time.time() - 3600.0

    def add(self, rows: list[dict[str, Any]]) -> None:
        """One more file; it appears whole, and in order."""
        part = self._folder / f".{uuid.uuid4().hex}"
        part.write_text("".join(json.dumps(row) + "\n" for row in rows))
        # Spark takes the oldest first, and files of one tick of the clock in any order.
        written = self._began + self._files
        os.utime(part, (written, written))
        part.rename(self._folder / f"{self._files:06d}.json")
        self._files += 1

    def frame(self, files_per_trigger: int = 1) -> DataFrame:
        """The stream."""
        reader = self._spark.readStream.schema(self._schema)
        return reader.option("maxFilesPerTrigger", files_per_trigger).json(str(self._folder))

    def batch(self) -> DataFrame:
        """The same rows as a batch."""
        return self._spark.read.schema(self._schema).json(str(self._folder))


@pytest.fixture
def file_stream(spark: SparkSession, tmp_path: Path) -> Callable[..., FileStream]:
    def make(schema: str = "id bigint, route string, fare double", name: str = "in") -> FileStream:
        return FileStream(spark, tmp_path / name, schema)

    return make


@pytest.fixture
def run_all(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Run a query over all there is, and return the rows of its sink."""
    queries = []

    def run(frame: DataFrame, mode: str = "append", checkpoint: str = "checkpoint") -> list[Any]:
        name = f"out_{uuid.uuid4().hex}"
        writer = frame.writeStream.format("memory").queryName(name).outputMode(mode)
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        writer = writer.trigger(availableNow=True)

        def start() -> Any:
            queries.append(writer.start())
            return queries[-1]

        run_stateful(start, tmp_path / checkpoint)
        ControlLoop.of(spark).drain()
        return spark.table(name).collect()

    yield run
    for query in queries:
        query.stop()


@pytest.fixture
def each_batch(spark: SparkSession, tmp_path: Path) -> Callable[..., None]:
    """Run a function on each batch of all there is, always from the same checkpoint.

    Each batch meets what was learned from the one before it, however late a busy machine reports that:
    a plan is pinned when the function runs the batch, and before that its predecessor is in the books.
    """

    def run(frame: DataFrame, act: Callable[[DataFrame, int], None]) -> None:
        def act_then(batch_frame: DataFrame, batch: int) -> None:
            ControlLoop.of(spark).drain()
            act(batch_frame, batch)

        writer = frame.writeStream.foreachBatch(act_then)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
            ControlLoop.of(spark).drain()

    return run


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Start a query on a frame and feed it batch by batch; one checkpoint, unless another is named."""
    started = []

    def run(frame: DataFrame, checkpoint: str = "checkpoint") -> Any:
        writer = frame.writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        started.append(writer.trigger(processingTime="100 milliseconds").start())
        return started[-1]

    yield run
    for query in started:
        query.stop()
    ControlLoop.of(spark).drain()


def records(control: Path, gate: str) -> list[Record]:
    """Every record of the gate's only query."""
    (query,) = queries_of(control, gate)
    return list(Ledger(control, gate, query).records().values())


def forget_last_commit(checkpoint: Path) -> int:
    """As if the driver had died behind the sink's write and before Spark's own: the batch runs again."""
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    return int(last.name)
