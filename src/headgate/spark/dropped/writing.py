"""Dropped rows, written by the task that dropped them.

A guard decides by the clock: two attempts of a task drop other rows, and which of them Spark takes is
not known while they run. So each attempt writes files under names that no other one has, and hands these
names on with its results. What Spark reports of a batch are the results that it took: the files named
there are the dropped rows (`headgate.spark.dropped.lists`), and all others never were.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from headgate.errors import ControlFolderError
from headgate.store.places.place import place_from
from headgate.store.places.stores import store_of

__all__ = ["BATCH", "OWN", "QUERY", "REASON", "DroppedRows", "rows_place"]

#: What a dropped row has beside its own columns.
OWN = REASON, BATCH, QUERY = ("_reason", "_batch", "_query")
#: Bytes of Parquet after which a task begins another file: they are in its memory until then.
_MOST_BYTES = 32 << 20


def rows_place(folder: str, query: str, batch: int) -> str:
    """Where the files of a batch are, below the folder of one guard or join."""
    return f"{folder}/{query}/rows/{batch:012d}"


@dataclass(frozen=True)
class _Task:
    query: str
    batch: int
    partition: int


def _here() -> _Task | None:
    """The task that this is; None outside a stream."""
    context = TaskContext.get()
    query = context.getLocalProperty("sql.streaming.queryId") if context else None
    batch = context.getLocalProperty("streaming.sql.batchId") if context else None
    if context is None or query is None or batch is None:
        return None
    return _Task(query, int(batch), context.partitionId())


class DroppedRows:
    """The dropped rows of one attempt of a task; whole files, when it is done or they grow large."""

    def __init__(self, folder: str, side: str, most_bytes: int = _MOST_BYTES) -> None:
        self._folder, self._side, self._most = folder, side, most_bytes
        self._task = _here()
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._names: list[str] = []

    def add(self, rows: pa.RecordBatch, reasons: list[str]) -> None:
        """Rows that were dropped, and why each was."""
        if self._task is None or not rows.num_rows:
            return
        count = rows.num_rows
        own = (
            (REASON, pa.array(reasons, pa.string())),
            (BATCH, pa.array([self._task.batch] * count, pa.int64())),
            (QUERY, pa.array([self._task.query] * count, pa.string())),
        )
        for name, values in own:
            rows = rows.append_column(name, values)
        self._held.append(rows)
        self._bytes += rows.nbytes
        if self._bytes >= self._most:
            self._write()

    def close(self) -> list[str]:
        """The names of the files; they are there when this returns."""
        if self._held:
            self._write()
        return self._names

    def _write(self) -> None:
        import pyarrow.parquet as pq

        assert self._task is not None
        whole = pa.Table.from_batches(self._held)
        sink = pa.BufferOutputStream()
        # Spark's own way to write times, and no types of Arrow's beside those of Parquet.
        pq.write_table(whole, sink, coerce_timestamps="us", store_schema=False)
        name = f"{self._side}-{self._task.partition}-{uuid.uuid4().hex}.parquet"
        place = place_from(rows_place(self._folder, self._task.query, self._task.batch)) / name
        try:
            store_of(place).put(place, bytes(sink.getvalue()), lasting=True)
        except OSError as error:
            raise ControlFolderError(
                f"{whole.num_rows:,} dropped rows of batch {self._task.batch} cannot be set aside in "
                f"{self._folder!r} ({error}): the batch fails, as they would be lost. Let workers write "
                "there again and start the query, or leave dropped= out"
            ) from error
        self._names.append(name)
        self._held, self._bytes = [], 0
