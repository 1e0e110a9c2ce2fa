"""Rows of one side of a join, packed into columns before they are shuffled.

A stateful operator in Python pays for every row that it is handed. So the rows of a task are cut by
shard first, and each piece travels as one row whose payload is an Arrow stream: the operator
sees a few rows a batch, however many came.

A pair meets in exactly one shard. For set conditions the shards are a matrix (the 1-Bucket scheme): a
left row goes to all columns of one matrix row, a right row to all rows of one matrix column. For
equality both go where the hash of their key says.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.errors import BadArgument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.spark.join.left_out.drawing import DrawnTask, RowDrawer

__all__ = [
    "CHANCE",
    "COIN",
    "FILE_TOLD",
    "HASH",
    "KEY",
    "KIND",
    "OWN",
    "PACKED",
    "ROWS_TOLD",
    "SHARD",
    "TIME",
    "VALUE",
    "Grid",
    "Packer",
    "as_one",
    "packed",
    "shard_keys",
    "unpacked",
]

#: What a packed row has beside the user's own columns; `KEY` only if kernels cannot read the user's own,
#: `VALUE` and `KIND` if asked for, `CHANCE` if rows were drawn. `COIN` decides then, where
#: `HASH` is the key's, and goes no further.
OWN = TIME, HASH, KEY, VALUE, KIND, CHANCE, COIN = (
    "_hg_time", "_hg_hash", "_hg_key", "_hg_value", "_hg_kind", "_hg_chance", "_hg_coin",
)  # fmt: skip
#: The side of what travels beside rows: what a task tells of those that came, left (2) and right (3).
ROWS_TOLD = 2
#: And the name of a file of rows that were left out, where these are set aside.
FILE_TOLD = 4
#: The column of the shard's key. Version 0.1.0 called it so, and the state store knows the key by name.
SHARD = "place"
#: What the shuffle moves.
PACKED = f"{SHARD} int, side int, payload binary"
#: Rows that a task gathers before it cuts them: a bound on memory, no tuning.
_GATHERED = 65_536


@dataclass(frozen=True)
class Grid:
    """Which shards of the operator a row goes to."""

    #: Left rows have a matrix row, right rows a matrix column; equality has one shard for both.
    across: int
    down: int
    by_key: bool = False

    @classmethod
    def of(cls, shards: int, by_key: bool) -> Grid:
        """The squarest matrix with so many shards; a prime number of them is one row.

        >>> Grid.of(2, False), Grid.of(4, False)
        (Grid(across=2, down=1, by_key=False), Grid(across=2, down=2, by_key=False))
        """
        if by_key:
            return cls(shards, 1, True)
        down = max(d for d in range(1, int(shards**0.5) + 1) if shards % d == 0)
        return cls(shards // down, down)

    @property
    def shards(self) -> int:
        """How many shards the matrix has."""
        return self.across * self.down

    def choices(self, side: int) -> int:
        """Among how many coordinates the rows of a side are spread."""
        return self.across if self.by_key or side == 1 else self.down

    def copies(self, side: int) -> int:
        """At how many shards each row of a side is."""
        return self.shards // self.choices(side)

    def shards_of(self, side: int, coordinate: int) -> list[int]:
        """Where the rows with this coordinate go."""
        if self.by_key:
            return [coordinate]
        if side == 0:
            return [coordinate * self.across + column for column in range(self.across)]
        return [row * self.across + coordinate for row in range(self.down)]


def as_one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows in one batch."""
    if len(batches) == 1:
        return batches[0]
    if any(CHANCE in batch.schema.names for batch in batches):
        batches = [_with_chances(batch) for batch in batches]
    if len({KEY in batch.schema.names for batch in batches}) > 1:  # 0.1.0 sent whole numbers twice
        batches = [b.drop_columns([KEY]) if KEY in b.schema.names else b for b in batches]
    found = pa.Table.from_batches(batches).combine_chunks().to_batches()
    if len(found) != 1:
        raise BadArgument(
            "rows of more than 2 GB came to one shard of a join in one batch: let a trigger bring fewer "
            "(maxOffsetsPerTrigger, maxFilesPerTrigger)"
        )
    return found[0]


def _with_chances(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows that came before any were drawn, or without a plan, were kept for certain."""
    if CHANCE in batch.schema.names:
        return batch
    return batch.append_column(CHANCE, pa.array(np.ones(batch.num_rows)))


def shard_keys(spark: SparkSession, shards: int) -> tuple[int, ...]:
    """For each shard a number that Spark's shuffle sends to a partition of its own.

    Spark takes the key's hash modulo the number of partitions, so Spark is asked for the hashes of the
    first whole numbers. The keys depend on the number of shards alone, so that a restart finds its
    state; with as many partitions as shards, or any multiple, no two shards share one. Number 0 is
    always among them, so that a restart with another number of shards meets the state of that one, and
    is refused.
    """
    found: dict[int, int] = {}
    count = 16 * shards
    while len(found) < shards:
        (hashes,) = spark.sql(f"SELECT transform(sequence(0, {count}), n -> hash(n)) AS h").collect()[0]
        for number, hashed in enumerate(hashes):
            found.setdefault(hashed % shards, number)
        count *= 2
    return tuple(found[shard] for shard in range(shards))


def packed(batch: pa.RecordBatch) -> bytes:
    """An Arrow stream with this batch alone."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpacked(payload: bytes) -> pa.RecordBatch:
    """What `packed` wrote; its columns are views of the payload."""
    return pa.ipc.open_stream(pa.py_buffer(payload)).read_next_batch()


@dataclass(frozen=True)
class Packer:
    """The function of `mapInArrow` for one side."""

    side: int
    grid: Grid
    #: The names that the columns have behind Spark's own c0, c1, ...
    names: tuple[str, ...]
    #: Their types, with all times in UTC: a session's time zone may change between runs.
    schema: pa.Schema
    #: The number that Spark's hash takes to each shard's partition.
    keys: tuple[int, ...]
    #: Leaves rows out where the batch's plan says so.
    drawer: RowDrawer | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a task, gathered and cut into one payload for each shard."""
        held: list[pa.RecordBatch] = []
        rows = 0
        draw = None if self.drawer is None else self.drawer.of_task()
        for batch in batches:
            if batch.num_rows:
                held.append(batch)
                rows += batch.num_rows
            if rows >= _GATHERED:
                yield self._cut(held, draw)
                held, rows = [], 0
        if held:
            yield self._cut(held, draw)
        told = None if draw is None else draw.told()
        if told is not None:
            yield _rows([self.keys[0]], ROWS_TOLD + self.side, [told])
        files = [] if draw is None else draw.files()
        if files:
            yield _rows([self.keys[0]] * len(files), FILE_TOLD, [name.encode() for name in files])

    def _cut(self, held: list[pa.RecordBatch], draw: DrawnTask | None) -> pa.RecordBatch:
        plain = pa.schema(field.with_name(f"c{i}") for i, field in enumerate(self.schema))
        batch = as_one([held_one.cast(plain) for held_one in held]).rename_columns(list(self.names))
        if draw is not None:
            batch = draw.kept(batch)
        if COIN in batch.schema.names:
            batch = batch.drop_columns([COIN])
        coordinate = np.mod(batch.column(HASH).to_numpy(), self.grid.choices(self.side))
        order = np.argsort(coordinate, kind="stable")
        batch = batch.take(pa.array(order))
        shards: list[int] = []
        payloads: list[bytes] = []
        for start, stop in _runs(coordinate[order]):
            payload = packed(batch.slice(start, stop - start))
            for target in self.grid.shards_of(self.side, int(coordinate[order[start]])):
                shards.append(self.keys[target])
                payloads.append(payload)
        return _rows(shards, self.side, payloads)


def _rows(shards: list[int], side: int, payloads: list[bytes]) -> pa.RecordBatch:
    """What the shuffle moves."""
    sides = pa.array([side] * len(shards), pa.int32())
    return pa.RecordBatch.from_arrays(
        [pa.array(shards, pa.int32()), sides, pa.array(payloads, pa.binary())],
        names=[SHARD, "side", "payload"],
    )


def _runs(coordinate: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Where runs of equal coordinates begin and end, in sorted ones."""
    if not len(coordinate):
        return iter(())
    changes = np.flatnonzero(np.diff(coordinate) != 0) + 1
    return itertools.pairwise([0, *changes.tolist(), len(coordinate)])
