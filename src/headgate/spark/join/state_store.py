"""Blocks in Spark's state, and what a worker process remembers of them.

Parsing a block costs more than comparing a few rows with it, and a worker process serves the same
partitions batch after batch; so the process remembers blocks by the digest of their payload. What it
remembers is never the truth, only a way round reading it: the state's index says which blocks there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql.streaming.stateful_processor import MapState

from headgate.joins.conditions import Condition
from headgate.spark.join.block import Block, Summary, block_of
from headgate.spark.join.state import Index, Stored

__all__ = ["StateStore"]

#: Bytes that a worker process remembers, and what a block takes for each byte of its payload: its
#: columns, its arrays, and an index. A bound and no tuning: with less, blocks are parsed again.
_REMEMBERED, _UNPACKED = 512 << 20, 4
#: The bytes of a summary at most: two tables of 4096 counts.
_SUMMARY = 32_768


class _Memory:
    """Blocks and summaries by key; the least recently used goes first."""

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._held: OrderedDict[str, tuple[object, int]] = OrderedDict()

    def get(self, key: str, size: int, make: Callable[[], object]) -> object:
        """What is remembered, or made now."""
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key][0]
        found = make()
        self._held[key] = (found, size)
        self._size += size
        while self._size > self._limit and len(self._held) > 1:
            _, (_, gone) = self._held.popitem(last=False)
            self._size -= gone
        return found


_memory = _Memory(_REMEMBERED)


def remembered(key: str, size: int, make: Callable[[], Block]) -> Block:
    """The block with this key, read with `make` if the process does not hold it."""
    found = _memory.get(key, _UNPACKED * size, make)
    assert isinstance(found, Block)
    return found


def summary_of(key: str, make: Callable[[], bytes]) -> Summary:
    """The summary of the block with this key."""
    found = _memory.get(f"{key} summary", _SUMMARY, lambda: Summary.from_bytes(make()))
    assert isinstance(found, Summary)
    return found


@dataclass
class StateStore:
    """Blocks in Spark's state, by way of what the process remembers."""

    condition: Condition
    blocks: MapState
    summaries: MapState
    index: Index

    def block(self, stored: Stored) -> Block:
        """Read the rows of a block."""

        def read() -> Block:
            payload = bytes(self.blocks.getValue((stored.number,))[0])  # type: ignore[index]
            return block_of(stored.side, stored.bucket, payload, self.condition)

        return remembered(self._key(stored), stored.size, read)

    def _key(self, stored: Stored) -> str:
        """Both sides, and two joins in one process, may have blocks of the same content."""
        kind = type(self.condition).__name__
        return f"{kind} {stored.side} {stored.bucket} {stored.digest}"

    def summary(self, stored: Stored) -> Summary:
        """Read what the choice needs of a block, without its rows."""
        return summary_of(
            self._key(stored),
            lambda: bytes(self.summaries.getValue((stored.number,))[0]),  # type: ignore[index]
        )

    def put(self, block: Block) -> Stored:
        """Write a block; gives its entry for the index."""
        number = self.index.next_number
        self.index.next_number += 1
        self.blocks.updateValue((number,), (block.payload,))
        self.summaries.updateValue((number,), (block.summary.to_bytes(),))
        size = len(block.payload)
        drawn = () if block.chances is None else (block.stands_for, block.heaviest)
        stored = Stored(
            number, block.side, block.bucket, block.n, block.rows.span, block.digest, size, *drawn
        )
        remembered(self._key(stored), size, lambda: block)
        return stored

    def remove(self, stored: Stored) -> None:
        """Delete a block and its summary."""
        self.blocks.removeKey((stored.number,))
        self.summaries.removeKey((stored.number,))
