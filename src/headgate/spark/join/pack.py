"""Rows of one side of a join, packed into columns before they are shuffled.

A stateful operator in Python pays for every row that it is handed. So the rows of a task are cut by
place in the grid first, and each piece travels as one row whose payload is an Arrow stream: the operator
sees a few rows a batch, however many came.

A pair meets in exactly one place. For set conditions the places are a matrix (the 1-Bucket scheme): a
left row goes to all columns of one matrix row, a right row to all rows of one matrix column. For
equality both go where the hash of their key says.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.errors import BadArgument

__all__ = [
    "HASH",
    "KEY",
    "KIND",
    "OWN",
    "PACKED",
    "TIME",
    "VALUE",
    "Grid",
    "Packer",
    "as_one",
    "packed",
    "place_keys",
    "unpacked",
]

#: What every packed row has in front of the user's own columns; `VALUE` and `KIND` only if asked for.
OWN = TIME, HASH, KEY, VALUE, KIND = "_hg_time", "_hg_hash", "_hg_key", "_hg_value", "_hg_kind"
#: What the shuffle moves.
PACKED = "place int, side int, payload binary"
#: Rows that a task gathers before it cuts them.
_GATHERED = 65_536


@dataclass(frozen=True)
class Grid:
    """Which places of the operator a row goes to."""

    #: Left rows have a matrix row, right rows a matrix column; equality has one place for both.
    across: int
    down: int
    by_key: bool = False

    @classmethod
    def of(cls, places: int, by_key: bool) -> Grid:
        """The squarest matrix with so many places; a prime number of them is one row.

        >>> Grid.of(2, False), Grid.of(4, False)
        (Grid(across=2, down=1, by_key=False), Grid(across=2, down=2, by_key=False))
        """
        if by_key:
            return cls(places, 1, True)
        down = max(d for d in range(1, int(places**0.5) + 1) if places % d == 0)
        return cls(places // down, down)

    @property
    def places(self) -> int:
        """How many there are."""
        return self.across * self.down

    def choices(self, side: int) -> int:
        """Among how many coordinates the rows of a side are spread."""
        return self.across if self.by_key or side == 1 else self.down

    def copies(self, side: int) -> int:
        """At how many places each row of a side is."""
        return self.places // self.choices(side)

    def places_of(self, side: int, coordinate: int) -> list[int]:
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
    found = pa.Table.from_batches(batches).combine_chunks().to_batches()
    if len(found) != 1:
        raise BadArgument(
            "rows of more than 2 GB came to one place of a join in one batch: let a trigger bring fewer "
            "(maxOffsetsPerTrigger, maxFilesPerTrigger)"
        )
    return found[0]


def place_keys(places: int) -> tuple[int, ...]:
    """For each place a number that Spark's shuffle sends to a partition of its own.

    Spark takes the key's Murmur3 hash modulo the number of partitions. The keys depend on the number of
    places alone, so that a restart finds its state; with as many partitions as places, or any multiple,
    no two places share one. Number 0 is always among them, so that a restart with another number of
    places meets the state of that place, and is refused.

    >>> place_keys(1), len(set(place_keys(7)))
    ((0,), 7)
    """
    found: dict[int, int] = {}
    number = 0
    while len(found) < places:
        found.setdefault(_murmur3(number) % places, number)
        number += 1
    return tuple(found[place] for place in range(places))


def _murmur3(number: int) -> int:
    """Spark's ``hash`` of a 32-bit integer (Murmur3_x86_32, seed 42), as a signed number."""
    mask = 0xFFFFFFFF
    k = (number * 0xCC9E2D51) & mask
    k = ((k << 15 | k >> 17) & mask) * 0x1B873593 & mask
    h = 42 ^ k
    h = ((h << 13 | h >> 19) & mask) * 5 + 0xE6546B64 & mask
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


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
    #: The number that Spark's hash takes to each place's partition.
    keys: tuple[int, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Gather, cut, and pass on."""
        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            if batch.num_rows:
                held.append(batch)
                rows += batch.num_rows
            if rows >= _GATHERED:
                yield self._cut(held)
                held, rows = [], 0
        if held:
            yield self._cut(held)

    def _cut(self, held: list[pa.RecordBatch]) -> pa.RecordBatch:
        plain = pa.schema(field.with_name(f"c{i}") for i, field in enumerate(self.schema))
        batch = as_one([held_one.cast(plain) for held_one in held]).rename_columns(list(self.names))
        place = np.mod(batch.column(HASH).to_numpy(), self.grid.choices(self.side))
        order = np.argsort(place, kind="stable")
        batch = batch.take(pa.array(order))
        places: list[int] = []
        payloads: list[bytes] = []
        for start, stop in _runs(place[order]):
            payload = packed(batch.slice(start, stop - start))
            for target in self.grid.places_of(self.side, int(place[order[start]])):
                places.append(self.keys[target])
                payloads.append(payload)
        return pa.RecordBatch.from_arrays(
            [
                pa.array(places, pa.int32()),
                pa.array([self.side] * len(places), pa.int32()),
                pa.array(payloads, pa.binary()),
            ],
            names=["place", "side", "payload"],
        )


def _runs(place: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Stretches of one place."""
    changes = np.flatnonzero(np.diff(place) != 0) + 1
    return itertools.pairwise([0, *changes.tolist(), len(place)])
