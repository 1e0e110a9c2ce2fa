"""A block of a join in a Python worker: one side's rows of one basic window, as Arrow and as arrays.

Blocks are read from Spark's state as payloads (`packed`). Summaries lie beside them, so that a block
whose rows nobody chose is not read.
"""

from __future__ import annotations

import hashlib
import itertools
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.joins.arrays import Floats
from headgate.joins.conditions import Condition, Equal, InnerProduct, Predicate
from headgate.joins.item_counts import ItemCounts
from headgate.joins.rows import KeyRows, PlainRows, Rows, SetRows, VectorRows, WeightedRows
from headgate.joins.utilities import Utilities
from headgate.spark.join.pack import CHANCE, HASH, KEY, KIND, TIME, VALUE, as_one, packed, unpacked
from headgate.spark.join.terms import JoinTerms

__all__ = ["Block", "Summary", "block_of", "cut", "gathered", "rows_of"]


def rows_of(condition: Condition, batch: pa.RecordBatch, side: int) -> Rows:
    """The arrays that the condition's kernel reads."""
    names = batch.schema.names
    time = batch.column(TIME).to_numpy()
    value = _finite(batch.column(VALUE).to_numpy()) if VALUE in names else None
    kind = batch.column(KIND).to_numpy() if KIND in names else None
    if isinstance(condition, Predicate):
        return PlainRows.of(time, value, kind)
    own = condition.left if side == 0 else condition.right
    key = batch.column(KEY if KEY in names else own)
    if isinstance(condition, Equal):
        return KeyRows.of(time, key.to_numpy(), value, kind)
    offsets, flat = _lists(key)
    if not isinstance(condition, InnerProduct):
        return SetRows.of(time, offsets, flat.to_numpy(), value, kind)
    if pa.types.is_struct(flat.type):
        items, weights = flat.field("item").to_numpy(), flat.field("weight")
        weights = _finite(weights.to_numpy(zero_copy_only=False))
        return WeightedRows.of(time, offsets, items, weights, value, kind)
    return VectorRows.of(
        time, _dense(offsets, _finite(flat.to_numpy(zero_copy_only=False))), value, kind
    )


def _finite(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Nulls, NaN and infinities count as 0: a match that they decide would mean nothing."""
    return np.asarray(np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0))


def _lists(lists: pa.ListArray) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """Offsets and values of a column of lists; null items of sets are left out."""
    offsets = lists.offsets.to_numpy()
    first = int(offsets[0])
    flat = lists.values.slice(first, int(offsets[-1]) - first)
    offsets = offsets - first
    if flat.null_count and pa.types.is_int64(flat.type):
        here = flat.is_valid().to_numpy(zero_copy_only=False)
        offsets = np.concatenate(([0], np.cumsum(here)))[offsets].astype(np.int32)
        flat = flat.drop_null()
    return offsets, flat


def _dense(offsets: np.ndarray, flat: np.ndarray) -> np.ndarray:
    """Vectors side by side; a shorter one has zeros behind it, which change no inner product."""
    sizes = np.diff(offsets)
    width = int(sizes.max(initial=0))
    if len(sizes) and int(sizes.min()) == width:
        return flat.reshape(len(sizes), width)
    dense = np.zeros((len(sizes), width), np.float32)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    dense[rows, np.arange(len(flat)) - np.repeat(offsets[:-1], sizes)] = flat
    return dense


@dataclass(frozen=True)
class Summary:
    """What the choice of comparisons reads of a block; small, so that blocks not chosen stay unread."""

    counts: ItemCounts | None
    utilities: Utilities | None

    def to_bytes(self) -> bytes:
        """As the state keeps it."""
        parts = [b"" if part is None else part.to_bytes() for part in (self.counts, self.utilities)]
        return b"".join(len(part).to_bytes(4, "little") + part for part in parts)

    @classmethod
    def from_bytes(cls, value: bytes) -> Summary:
        """The block that `to_bytes` wrote."""
        size = int.from_bytes(value[:4], "little")
        counts, rest = value[4 : 4 + size], value[4 + size + 4 :]
        return cls(
            ItemCounts.from_bytes(counts) if counts else None,
            Utilities.from_bytes(rest) if rest else None,
        )


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of one side and one basic window."""

    side: int
    bucket: int
    batch: pa.RecordBatch
    condition: Condition

    @cached_property
    def rows(self) -> Rows:
        """The arrays that kernels read."""
        return rows_of(self.condition, self.batch, self.side)

    @cached_property
    def payload(self) -> bytes:
        """As the state keeps it."""
        return packed(self.batch)

    @cached_property
    def digest(self) -> str:
        """By which a worker process knows the block again: a hash of its rows' times and hashes.

        They are an eighth of its bytes. What else it has is told apart by a checksum, which is as fast
        as reading: another join of the same rows may carry other columns.
        """
        own = hashlib.blake2b(digest_size=12)
        own.update(self.batch.column(TIME).to_numpy().tobytes())
        own.update(self.batch.column(HASH).to_numpy().tobytes())
        return f"{own.hexdigest()}{zlib.crc32(self.payload):08x}"

    @cached_property
    def summary(self) -> Summary:
        """What the choice reads of it."""
        rows, value = self.rows, self.rows.value
        counts = ItemCounts.of(rows) if isinstance(rows, SetRows | KeyRows | WeightedRows) else None
        return Summary(counts, None if value is None else Utilities.of(value))

    @property
    def n(self) -> int:
        """How many rows it has."""
        return int(self.batch.num_rows)

    @cached_property
    def chances(self) -> Floats | None:
        """With what chance each row was taken in; None where all of them were for certain."""
        if CHANCE not in self.batch.schema.names:
            return None
        found = self.batch.column(CHANCE).to_numpy()
        return found if len(found) and found.min() < 1.0 else None

    @cached_property
    def stands_for(self) -> float:
        """How many rows its rows stand for: more than it has, where some were left out."""
        return float(self.n) if self.chances is None else float((1.0 / self.chances).sum())

    @cached_property
    def heaviest(self) -> float:
        """The most rows that one of its rows stands for."""
        return 1.0 if self.chances is None else float(1.0 / self.chances.min())

    def buckets(self, basic_us: int) -> npt.NDArray[np.int64]:
        """The basic window of each row."""
        return np.floor_divide(self.rows.time, basic_us)

    def with_rows_of(self, other: Block) -> Block:
        """A block of the rows of this one and of another."""
        return Block(self.side, self.bucket, as_one([self.batch, other.batch]), self.condition)


def block_of(side: int, bucket: int, payload: bytes, condition: Condition) -> Block:
    """A block from the state."""
    return Block(side, bucket, unpacked(payload), condition)


def gathered(payloads: list[bytes]) -> pa.RecordBatch:
    """All rows of some payloads by time, in the same order however they were split into payloads."""
    batch = as_one([unpacked(payload) for payload in sorted(payloads)])
    time = batch.column(TIME).to_numpy()
    order = np.argsort(time, kind="stable")  # payloads are in order mostly, and then it is a merge
    if len(order) > 1 and bool((np.diff(time[order]) == 0).any()):
        order = np.lexsort((batch.column(HASH).to_numpy(), time))
    return batch.take(pa.array(order))


def cut(side: int, rows: pa.RecordBatch, terms: JoinTerms) -> list[Block]:
    """Rows in order of time as blocks: one a basic window, but for small neighbours and large ones."""
    config = terms.config
    if not rows.num_rows:
        return []
    time = rows.column(TIME).to_numpy()
    bucket = np.floor_divide(time, terms.basic_us)
    edges = [0, *(np.flatnonzero(np.diff(bucket)) + 1).tolist(), len(time)]
    found, start = [], 0
    for stop, after in itertools.zip_longest(edges[1:], edges[2:]):
        if (
            after is not None
            and after - start <= config.small_rows
            and time[after - 1] - time[start] <= terms.widest_us
        ):
            continue
        for first in range(start, stop, config.full_rows):
            part = rows.slice(first, min(config.full_rows, stop - first))
            found.append(Block(side, int(bucket[first]), part, terms.condition))
        start = stop
    return found
