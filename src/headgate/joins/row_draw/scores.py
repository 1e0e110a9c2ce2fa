"""How many matches a row can be expected to have, before the join takes it in.

Where rows alone take longer than the target, a join must leave some of them out, and those that would
match least first. What a row will match are rows that are in the state, and rows that will come. For the
first there are the item counts of the other side's blocks (`headgate.joins.item_counts`), by age. For
the others there are no counts; but streams that match talk of the same things, if not at the same
time, so the row's own side serves: what is popular there now is what the other side will ask for, or has
asked for. How the two weigh is measured (`RowsSeen`): by how many pairs rows of this side were
probing, and by how many they were waiting.

join-2007 keeps all rows (section 3) and has no such rule; its random drop is what a gate in front does.

What content does not tell (dense vectors, predicates, the contained side of a subset) scores alike, with
what rows of that side match on average.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.core.partners import packed, unpacked
from headgate.errors import SnapshotError
from headgate.joins.arrays import Floats
from headgate.joins.conditions import Condition
from headgate.joins.item_counts import ItemCounts, densities
from headgate.joins.rows import Rows

__all__ = ["CLASSES", "Part", "RowScores", "Shares", "class_scores", "classes_of"]

#: Classes of expected matches, as shares of the rows that a row may meet: two an octave, up to about 1.
#: The first one is of rows that are expected to match less than one in a billion, or nothing.
CLASSES = 64
_LEAST, _AN_OCTAVE = -30.0, 2.0
#: Buckets of items that travel; larger tables are folded to it. With the tables of a plan it bounds the
#: size of a pin.
_BUCKETS = 1024
#: Shares of rows travel as a byte: steps of 4.4 % down to one row in 62,000.
_STEPS = 16.0
#: Rows in whose stead a table of shares is asked.
_UNIT = 1 << 24


def classes_of(scores: Floats) -> npt.NDArray[np.int64]:
    """The class of each row, by its expected matches.

    >>> classes_of(np.array([0.0, 2.0**-30, 0.1, 9.0])).tolist()
    [0, 1, 54, 63]
    """
    with np.errstate(divide="ignore"):
        steps = np.floor((np.log2(scores) - _LEAST) * _AN_OCTAVE) + 1.0
    return np.clip(steps, 0, CLASSES - 1).astype(np.int64)


def class_scores() -> Floats:
    """What a row of each class is expected to match, about."""
    return np.concatenate(([0.0], np.exp2(_LEAST + (np.arange(CLASSES - 1) + 0.5) / _AN_OCTAVE)))


@dataclass(frozen=True, eq=False)
class Shares:
    """The share of some rows that has each item, in a few hundred bytes."""

    rows: float
    table: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, counts: ItemCounts) -> Shares:
        """Of a block's counts, or of several blocks' together."""
        table = counts.table.astype(np.float64)
        if len(table) > _BUCKETS:  # the bucket is a hash modulo the size, and 1024 divides 4096
            table = table.reshape(-1, _BUCKETS).sum(axis=0)
        with np.errstate(divide="ignore"):
            steps = np.round(255.0 + _STEPS * np.log2(np.minimum(1.0, table / max(1, counts.n))))
        return cls(float(counts.n), np.clip(steps, 0, 255).astype(np.uint8))

    def counts(self) -> ItemCounts:
        """As `densities` reads it."""
        shares = np.where(self.table > 0, np.exp2((self.table - 255.0) / _STEPS), 0.0)
        return ItemCounts((shares * _UNIT).astype(np.uint32), _UNIT)

    @staticmethod
    def together(parts: Sequence[Shares]) -> Shares:
        """The shares of several sets of rows; tables of one kind only."""
        size = max(len(part.table) for part in parts)
        same = [part for part in parts if len(part.table) == size and part.rows > 0]
        rows = sum(part.rows for part in same)
        if not same or len(same) == 1:
            return same[0] if same else parts[0]
        mixed = sum(part.rows * (part.counts().table / _UNIT) for part in same) / rows
        with np.errstate(divide="ignore"):
            steps = np.round(255.0 + _STEPS * np.log2(mixed))
        return Shares(rows, np.clip(steps, 0, 255).astype(np.uint8))


@dataclass(frozen=True, eq=False)
class Part:
    """Rows that a row may match: how many they count for, and their items."""

    weight: float
    shares: Shares
    #: Whether they are yet to come, so that the row's own side stands for them.
    ahead: bool = False


@dataclass(frozen=True, eq=False)
class RowScores:
    """For rows of each side, what they may match."""

    parts: tuple[tuple[Part, ...], tuple[Part, ...]] = ((), ())
    #: What a row of each side matches on average: the score where content tells nothing.
    flat: tuple[float, float] = (1.0, 1.0)

    def scaled(self) -> RowScores:
        """With expected matches as shares of the rows that rows may meet.

        So how rows lie in classes is the same when the state grows, or more rows come.
        """
        whole = max(1.0, sum(part.weight for side in self.parts for part in side))
        sides = [tuple(replace(p, weight=p.weight / whole) for p in side) for side in self.parts]
        return RowScores((sides[0], sides[1]), (self.flat[0] / whole, self.flat[1] / whole))

    def expected(self, condition: Condition, rows: Rows, side: int) -> tuple[Floats, Floats]:
        """The matches that each row can be expected to find, and those that will find it."""
        met, ahead = np.zeros(rows.n), np.zeros(rows.n)
        for part in self.parts[side]:
            found = densities(condition, rows, part.shares.counts(), probe_is_left=side == 0)
            if found is None:
                return np.full(rows.n, self.flat[side]), np.zeros(rows.n)
            (ahead if part.ahead else met).__iadd__(part.weight * found)
        if not self.parts[side]:
            met += self.flat[side]
        return met, ahead

    def to_text(self) -> str:
        """As a plan has it."""
        head: dict[str, Any] = {"flat": self.flat, "parts": []}
        tables = b""
        for side in self.parts:
            head["parts"].append([[p.weight, p.ahead, p.shares.rows, len(p.shares.table)] for p in side])
            tables += b"".join(p.shares.table.tobytes() for p in side)
        text = json.dumps(head, separators=(",", ":")).encode()
        whole = len(text).to_bytes(4, "little") + text + tables
        return packed(whole)

    @classmethod
    def from_text(cls, text: str) -> RowScores:
        """What `to_text` wrote."""
        try:
            whole = unpacked(text)
            size = int.from_bytes(whole[:4], "little")
            head, at = json.loads(whole[4 : 4 + size]), 4 + size
            sides: list[tuple[Part, ...]] = []
            for side in head["parts"]:
                found = []
                for weight, ahead, rows, length in side:
                    if type(length) is not int or not 0 < length <= _BUCKETS:
                        raise ValueError(f"a table of {length!r} shares")
                    if not (0.0 <= float(weight) < np.inf and 0.0 <= float(rows) < np.inf):
                        raise ValueError(f"{weight!r} for {rows!r} rows")
                    table = np.frombuffer(whole, np.uint8, length, at)
                    found.append(Part(float(weight), Shares(float(rows), table), bool(ahead)))
                    at += length
                sides.append(tuple(found))
            flat = head["flat"]
            return cls((sides[0], sides[1]), (float(flat[0]), float(flat[1])))
        except (ValueError, KeyError, IndexError, TypeError, OverflowError, RecursionError) as error:
            raise SnapshotError(f"{text[:20]!r} is nothing that rows are scored by: {error}") from error
