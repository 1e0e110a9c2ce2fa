"""A stream that replays a trace: every row arrives at its own instant, once and in order.

Spark's rate source has one rate; a trace has bursts and phases. Rows are handed out when their instant
has come, by the wall clock, however late a batch asks; so a query that falls behind finds them waiting.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from headgate.errors import BadArgument

__all__ = ["Trace", "TraceSource", "handed_out", "replayed"]

FORMAT = "headgate_trace"


class Trace:
    """Rows of `seq, key, cost_s`, each due so many seconds after the start; kept in a file."""

    def __init__(
        self, due_s: Sequence[float] | npt.NDArray[Any], keys: Sequence[str],
        cost_s: Sequence[float] | npt.NDArray[Any],
    ) -> None:  # fmt: skip
        self.due_s = np.asarray(due_s, np.float64)
        self.cost_s = np.asarray(cost_s, np.float64)
        self.keys = np.asarray(keys, np.str_)
        if not len(self.due_s) == len(self.keys) == len(self.cost_s) > 0:
            raise BadArgument("a trace needs as many instants as keys and costs, at least one")
        if (np.diff(self.due_s) < 0).any():
            raise BadArgument("a trace's rows must be in the order of their instants")

    def __len__(self) -> int:
        return len(self.due_s)

    def save(self, path: Path) -> None:
        """Write it where the driver and the executors can read it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            np.savez(file, due_s=self.due_s, keys=self.keys, cost_s=self.cost_s)

    @classmethod
    def load(cls, path: Path) -> Trace:
        """The trace that `save` wrote."""
        with np.load(path) as found:
            return cls(found["due_s"], found["keys"], found["cost_s"])


class TraceSource(DataSource):
    """Options: `path` of the trace, and `start`, in seconds since 1970."""

    @classmethod
    def name(cls) -> str:
        """The name under which Spark finds it."""
        return FORMAT

    def schema(self) -> str:
        """A row's number, when it arrived, its key and what it costs."""
        return "seq bigint, timestamp timestamp, key string, cost_s double"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """The reader that hands rows out as they fall due."""
        return _Reader(Path(self.options["path"]), float(self.options["start"]))


class _Span(InputPartition):
    def __init__(self, first: int, end: int) -> None:
        self.first, self.end = first, end


class _Reader(DataSourceStreamReader):
    def __init__(self, path: Path, start: float) -> None:
        self._path, self._start = path, start
        self._due: npt.NDArray[np.float64] | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"row": 0}

    def latestOffset(self, *_: Any) -> dict[str, int]:
        if self._due is None:
            self._due = Trace.load(self._path).due_s
        return {"row": int(np.searchsorted(self._due, time.time() - self._start, side="right"))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [_Span(start["row"], end["row"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, _Span)
        trace = Trace.load(self._path)
        for row in range(partition.first, partition.end):
            at = datetime.fromtimestamp(self._start + float(trace.due_s[row]), UTC)
            yield row, at, str(trace.keys[row]), float(trace.cost_s[row])

    def commit(self, end: dict[str, int]) -> None:
        """Release nothing: the trace stays in its file."""

    def stop(self) -> None:
        """Close nothing: no file is held open."""


def replayed(spark: SparkSession, trace: Path, start: float) -> DataFrame:
    """The trace as a stream that begins at `start`."""
    spark.dataSource.register(TraceSource)
    options = {"path": str(trace), "start": str(start)}
    return spark.readStream.format(FORMAT).options(**options).load()


def handed_out(progress: Any) -> int:
    """How many rows of the trace had been handed out when a batch ended."""
    offset = progress["sources"][0]["endOffset"]
    value = json.loads(offset) if isinstance(offset, str) else offset
    return int(value["row"]) if value else 0
