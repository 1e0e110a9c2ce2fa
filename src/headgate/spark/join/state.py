"""What a join's shard keeps between batches: its blocks, an index of them, and what comparisons paid."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Protocol

from headgate.errors import SnapshotError
from headgate.joins.lag_stats import LAG_STATS, LagStats, LagStatsConfig
from headgate.spark.join.block import Block, Summary

__all__ = ["BlockStore", "Index", "Stored", "Target"]

_VERSION = 1
#: Weight of the past in what choices use of their units, a batch; and the least that is believed: a
#: choice is never given more than two and a half times its units.
_MEMORY, _LEAST_USED = 0.5, 0.4


@dataclass(frozen=True)
class Stored:
    """The index's entry of a block in the state."""

    number: int
    side: int
    bucket: int
    n: int
    #: The earliest and the latest time of its rows, in microseconds.
    span: tuple[int, int]
    digest: str
    size: int
    #: The rows that it stands for, where some were left out; None: its own.
    weight: float | None = None
    #: The most rows that one of its rows stands for.
    heaviest: float = 1.0


@dataclass
class Index:
    """The blocks of a shard, oldest first, and what it learned."""

    stats: LagStats
    #: What the call fixed and a restart must not change: windows, basic window, shards, row types.
    layout: str = ""
    #: The watermark of the last batch that came here; rows behind it are late.
    watermark_us: int | None = None
    blocks: list[Stored] = field(default_factory=list)
    next_number: int = 0
    #: Pairs and comparisons of the full join, as the last batch with any tells.
    pairs: float = 0.0
    comparisons: float = 0.0
    #: The share of the units given to a choice that its comparisons and results took, lately: expected
    #: matches are an upper bound, and what results do not take is time left unused.
    used: float = 1.0
    #: And the columns of the call (`columns_digest`), which a restart must not change either.
    columns: str = ""

    @property
    def pay_off(self) -> float:
        """Pairs a comparison of the full join, lately."""
        return self.pairs / self.comparisons if self.comparisons else 0.0

    def pay(self, pairs: float, comparisons: float) -> None:
        """Note what a batch's full join has in pairs, found and missed, and needs in comparisons."""
        if comparisons:
            self.pairs, self.comparisons = pairs, comparisons

    def spend(self, units: float, given: float) -> None:
        """Note what a choice took of the units that it was given."""
        if given > 0.0:
            self.used = _MEMORY * self.used + (1.0 - _MEMORY) * min(1.0, max(_LEAST_USED, units / given))

    def to_bytes(self) -> bytes:
        """A versioned value for the state."""
        head = {
            "v": _VERSION,
            "layout": self.layout,
            "watermark": self.watermark_us,
            "next": self.next_number,
            "paid": [self.pairs, self.comparisons],
            **({} if self.used == 1.0 else {"used": self.used}),
            **({"columns": self.columns} if self.columns else {}),
            "blocks": [
                [s.number, s.side, s.bucket, s.n, *s.span, s.digest, s.size]
                + ([] if s.weight is None else [s.weight, s.heaviest])
                for s in self.blocks
            ],
        }
        text = json.dumps(head, separators=(",", ":")).encode()
        return len(text).to_bytes(4, "little") + text + self.stats.to_bytes()

    @classmethod
    def from_bytes(cls, value: bytes, config: LagStatsConfig = LAG_STATS) -> Index:
        """The state that `to_bytes` wrote."""
        size = int.from_bytes(value[:4], "little")
        head = json.loads(value[4 : 4 + size])
        if head["v"] != _VERSION:
            raise SnapshotError(
                f"the checkpoint holds a join's state of version {head['v']!r}; this Headgate reads "
                f"version {_VERSION}: use the Headgate that wrote it, or start with a new checkpoint"
            )
        blocks = [Stored(b[0], b[1], b[2], b[3], (b[4], b[5]), *b[6:]) for b in head["blocks"]]
        stats = LagStats.from_bytes(value[4 + size :], config)
        used = float(head.get("used", 1.0))  # 0.1.0 had none
        pairs, comparisons = head["paid"]
        return cls(
            stats, head["layout"], head["watermark"], blocks, head["next"], pairs, comparisons, used,
            head.get("columns", ""),
        )  # fmt: skip


class BlockStore(Protocol):
    """Blocks by way of their entries in the index; Spark's state, or a test's dictionary."""

    def block(self, stored: Stored) -> Block:
        """Read the rows of a block."""

    def summary(self, stored: Stored) -> Summary:
        """Read what the choice needs of a block, without its rows."""

    def put(self, block: Block) -> Stored:
        """Write a block; gives its entry for the index."""

    def remove(self, stored: Stored) -> None:
        """Delete a block and its summary."""


@dataclass(frozen=True)
class Target:
    """A block that a probe may be compared with: one of the batch's own, or one of the state."""

    n: int
    #: The earliest and the latest time of its rows, in microseconds.
    span: tuple[int, int]
    bucket: int
    held: Block | Stored
    #: The rows that it stands for.
    weight: float
    heaviest: float = 1.0

    @classmethod
    def of(cls, held: Block | Stored) -> Target:
        """Of a block, new or stored."""
        if isinstance(held, Block):
            return cls(held.n, held.rows.span, held.bucket, held, held.stands_for, held.heaviest)
        weight = float(held.n) if held.weight is None else held.weight
        return cls(held.n, held.span, held.bucket, held, weight, held.heaviest)

    def block(self, store: BlockStore) -> Block:
        """Its rows; read from the store if it is not new."""
        return self.held if isinstance(self.held, Block) else store.block(self.held)

    def summary(self, store: BlockStore) -> Summary:
        """What the choice needs of it."""
        return self.held.summary if isinstance(self.held, Block) else store.summary(self.held)
