"""What a join's place keeps between batches: an index of its blocks, and what comparisons paid."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from headgate.errors import SnapshotError
from headgate.joins.cell_stats import CellStats

__all__ = ["Index", "Stored"]

_VERSION = 1
#: Weight of the past in the share of comparisons that match.
_MEMORY = 0.8


@dataclass(frozen=True)
class Stored:
    """A block in the state."""

    number: int
    side: int
    bucket: int
    n: int
    #: The earliest and the latest time of its rows, in microseconds.
    span: tuple[int, int]
    digest: str
    size: int


@dataclass
class Index:
    """The blocks of a place, oldest first, and what it learned."""

    cells: CellStats
    #: What the call fixed and a restart must not change: windows, basic window, places, row types.
    layout: str = ""
    #: The watermark of the last batch that came here; rows behind it are late.
    watermark_us: int | None = None
    blocks: list[Stored] = field(default_factory=list)
    next_number: int = 0
    #: Decayed sums of pairs and of comparisons.
    pairs: float = 0.0
    comparisons: float = 0.0

    @property
    def pay_off(self) -> float:
        """Pairs a comparison, lately."""
        return self.pairs / self.comparisons if self.comparisons else 0.0

    def pay(self, pairs: float, comparisons: float) -> None:
        """A batch is over."""
        self.pairs = _MEMORY * self.pairs + pairs
        self.comparisons = _MEMORY * self.comparisons + comparisons

    def to_bytes(self) -> bytes:
        """A versioned value for the state."""
        head = {
            "v": _VERSION,
            "layout": self.layout,
            "watermark": self.watermark_us,
            "next": self.next_number,
            "paid": [self.pairs, self.comparisons],
            "blocks": [
                [s.number, s.side, s.bucket, s.n, *s.span, s.digest, s.size] for s in self.blocks
            ],
        }
        text = json.dumps(head, separators=(",", ":")).encode()
        return len(text).to_bytes(4, "little") + text + self.cells.to_bytes()

    @classmethod
    def from_bytes(cls, value: bytes) -> Index:
        """What `to_bytes` wrote."""
        size = int.from_bytes(value[:4], "little")
        head = json.loads(value[4 : 4 + size])
        if head["v"] != _VERSION:
            raise SnapshotError(
                f"the checkpoint holds a join's state of version {head['v']!r}; this Headgate reads "
                f"version {_VERSION}: use the Headgate that wrote it, or start with a new checkpoint"
            )
        blocks = [Stored(b[0], b[1], b[2], b[3], (b[4], b[5]), b[6], b[7]) for b in head["blocks"]]
        cells = CellStats.from_bytes(value[4 + size :])
        return cls(cells, head["layout"], head["watermark"], blocks, head["next"], *head["paid"])
