"""What a shard tells of the items in its state, for scores of rows that have not come yet."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headgate.joins.item_counts import ItemCounts
from headgate.joins.row_draw.scores import Shares
from headgate.spark.join.block import Block
from headgate.spark.join.state import BlockStore, Index, Stored
from headgate.spark.join.terms import JoinTerms

__all__ = ["ItemsTold", "items_of"]

#: Ages by which a window's items are told apart: where topics move, a mean over the window says little.
#: Items with many different values are told in one, because their tables are eight times as large.
_AGES, _EXACT = 4, 128


@dataclass(frozen=True, eq=False)
class ItemsTold:
    """Shares of items: of each side's rows in the state by age, and of the rows that just came."""

    #: By side and age, in windows' quarters since 1970; the age None is of the rows that just came.
    shares: dict[tuple[int, int | None], Shares]

    def to_bytes(self) -> bytes:
        """As the operator reports it."""
        rows = [
            [side, age, shares.rows, base64.b64encode(shares.table.tobytes()).decode()]
            for (side, age), shares in self.shares.items()
        ]
        return json.dumps(rows, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, value: bytes) -> ItemsTold:
        """What `to_bytes` wrote."""
        found = {}
        for side, age, rows, table in json.loads(value):
            shares = Shares(float(rows), np.frombuffer(base64.b64decode(table), np.uint8))
            found[int(side), None if age is None else int(age)] = shares
        return cls(found)

    @staticmethod
    def together(told: Sequence[ItemsTold], copies: tuple[int, int]) -> ItemsTold:
        """Of all shards; a row is at several of them, and counts once."""
        found: dict[tuple[int, int | None], list[Shares]] = {}
        for one in told:
            for key, shares in one.shares.items():
                found.setdefault(key, []).append(Shares(shares.rows / copies[key[0]], shares.table))
        return ItemsTold({key: Shares.together(parts) for key, parts in found.items()})


def items_of(terms: JoinTerms, index: Index, store: BlockStore, new: Sequence[Block]) -> ItemsTold:
    """What a shard's state has after a batch; nothing where content tells nothing."""
    if not terms.by_content:
        return ItemsTold({})
    held: dict[tuple[int, int | None], list[ItemCounts]] = {}
    for block in new:
        if block.summary.counts is not None:
            held.setdefault((block.side, None), []).append(block.summary.counts)
    for stored in index.blocks:
        counts = _counts(store, stored)
        if counts is not None:
            ages = _AGES if len(counts.table) <= _EXACT else 1
            age = stored.bucket * terms.basic_us // max(1, max(terms.windows_us) // ages)
            held.setdefault((stored.side, age), []).append(counts)
    return ItemsTold(
        {key: Shares.of(functools.reduce(ItemCounts.add, parts)) for key, parts in held.items()}
    )


def _counts(store: BlockStore, stored: Stored) -> ItemCounts | None:
    return store.summary(stored).counts
