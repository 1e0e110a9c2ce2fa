"""What comparisons paid so far, by (direction, lag, type): for conditions whose content tells nothing.

The paper zeroes its statistics every period and samples with full processing (join-2007,
section 5.1, Algorithms 2 and 3). Here every comparison that is made counts, old ones fade with a half
life, and a cell's density has a Gamma posterior from which plans are drawn (Thompson sampling): a cell
that is little known is sometimes tried, a bad one seldom. There are several draws, and the number of a
probe row picks one: an exploration then costs a 32nd of a cell, and 32 guesses are tried at a time.

The prior of a lag is Gamma with shape 1 (an exponential), with the pooled density of all cells as its
mean. That is optimistic enough: one draw in 20 of an unknown lag is three times the pooled density or
more. The pooled density itself starts from one match in a thousand comparisons. Types are pooled softly:
a cell's prior is its lag's density over all types, so that many types do not starve each other, while
types that truly match differently still part. And when far fewer matches come than the counts promise,
nearly all of the past is forgotten at once: the lag that pays has moved.

Sums are of matches, not of their worth: multiply by the mean worth of a type (`choose`'s `worth`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument, SnapshotError
from headgate.joins.arrays import Floats

__all__ = ["CellStats"]

_HEAD = struct.Struct("<4sB3xII")
_MAGIC, _VERSION = b"HGCS", 1
#: What is believed of all cells together before anything was compared.
_FIRST_MATCHES, _FIRST_COMPARISONS = 1.0, 1000.0
#: How many matches a cell's own counts must show to weigh as much as those of all types at its lag.
_POOLED_MATCHES = 10.0
#: When so many matches were expected, and less than this share of them came, the world has changed: what
#: is left of all counts.
_SURPRISE_FROM, _SURPRISE, _FORGET = 50.0, 0.6, 0.1


@dataclass(eq=False)
class CellStats:
    """Decayed sums of comparisons and matches; lags past the last and kinds past the last share a cell.

    >>> cells = CellStats(lags=2)
    >>> cells.add(direction=0, lag=1, kinds=[0], comparisons=[1000.0], matches=[50.0])
    >>> cells.draw(np.random.default_rng(1)).shape
    (32, 2, 2, 1)
    """

    lags: int
    kinds: int = 1
    #: By direction (0: left rows probe), lag in blocks, and kind of the probe row.
    comparisons: Floats = field(init=False)
    matches: Floats = field(init=False)

    def __post_init__(self) -> None:
        if self.lags < 1 or self.kinds < 1:
            raise BadArgument(f"lags={self.lags}, kinds={self.kinds}: give 1 or more of each")
        self.comparisons = np.zeros((2, self.lags, self.kinds))
        self.matches = np.zeros((2, self.lags, self.kinds))

    def add(
        self,
        direction: int,
        lag: int,
        kinds: npt.ArrayLike,
        comparisons: npt.ArrayLike,
        matches: npt.ArrayLike,
    ) -> None:
        """Count what probe rows of these kinds compared and found; one entry a row, or sums."""
        where = np.clip(np.asarray(kinds, np.int64), 0, self.kinds - 1)
        cell = (direction, min(max(0, lag), self.lags - 1))
        np.add.at(self.comparisons[cell], where, np.asarray(comparisons, np.float64))
        np.add.at(self.matches[cell], where, np.asarray(matches, np.float64))

    def decay(self, elapsed: float, half_life: float) -> None:
        """Let what is known fade: to a half after each half life."""
        if not half_life > 0 or not elapsed >= 0:
            raise BadArgument(
                f"elapsed={elapsed!r}, half_life={half_life!r}: give 0 or more, and more than 0"
            )
        factor = 0.5 ** (elapsed / half_life)
        self.comparisons *= factor
        self.matches *= factor

    def learn(self, new: CellStats, elapsed: float, half_life: float) -> None:
        """Let what is known fade, all but wholly if it foretold the new sums badly, and add those."""
        expected = float((new.comparisons * self.matches / np.maximum(self.comparisons, 1.0)).sum())
        self.decay(elapsed, half_life)
        if expected > _SURPRISE_FROM and float(new.matches.sum()) < _SURPRISE * expected:
            self.comparisons *= _FORGET
            self.matches *= _FORGET
        self.merge(new)

    def merge(self, other: CellStats) -> None:
        """Add another's sums; refused if its cells mean something else."""
        if (other.lags, other.kinds) != (self.lags, self.kinds):
            raise BadArgument(
                f"cells of {other.lags} lags x {other.kinds} kinds cannot be merged into "
                f"{self.lags} x {self.kinds}: build both with the same numbers"
            )
        self.comparisons += other.comparisons
        self.matches += other.matches

    @property
    def pooled(self) -> float:
        """The density of all cells together, and the mean of each cell's prior."""
        return float(
            (_FIRST_MATCHES + self.matches.sum()) / (_FIRST_COMPARISONS + self.comparisons.sum())
        )

    def draw(self, random: np.random.Generator, groups: int = 32) -> Floats:
        """Densities drawn from the posterior, for each group of probe rows: (groups, 2, lags, kinds)."""
        matches, comparisons = self.matches.sum(axis=2), self.comparisons.sum(axis=2)
        shape = np.broadcast_to(1.0 + matches, (groups, *matches.shape))
        of_lags = random.standard_gamma(shape) / (1.0 / self.pooled + comparisons)
        found = np.repeat(of_lags[..., None], self.kinds, axis=3)
        if self.kinds == 1:
            return found
        own = random.standard_gamma(np.broadcast_to(_POOLED_MATCHES + self.matches, found.shape))
        return np.asarray(own / (_POOLED_MATCHES / np.maximum(found, 1e-300) + self.comparisons))

    def mean(self) -> Floats:
        """The posterior's mean density of each cell."""
        return np.asarray((1.0 + self.matches) / (1.0 / self.pooled + self.comparisons))

    def densities(
        self, draws: Floats, direction: int, lag: int, kind: npt.ArrayLike, first: int = 0
    ) -> Floats:
        """The drawn density of each row of a probe block; `first` is the number of its first row."""
        kinds = np.clip(np.asarray(kind, np.int64), 0, self.kinds - 1)
        group = (first + np.arange(len(kinds))) % len(draws)
        return np.asarray(draws[group, direction, min(max(0, lag), self.lags - 1), kinds])

    def to_bytes(self) -> bytes:
        """All of it, versioned; the same bytes on every machine."""
        head = _HEAD.pack(_MAGIC, _VERSION, self.lags, self.kinds)
        return head + self.comparisons.astype("<f8").tobytes() + self.matches.astype("<f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> CellStats:
        """The cells that `to_bytes` wrote."""
        if len(data) < _HEAD.size or data[:4] != _MAGIC:
            raise SnapshotError("these bytes are no join cells: give what CellStats.to_bytes wrote")
        _, version, lags, kinds = _HEAD.unpack(data[: _HEAD.size])
        if version != _VERSION:
            raise SnapshotError(
                f"join cells of version {version} were stored; this Headgate reads version {_VERSION}: "
                "use the Headgate that wrote them, or start with an empty state"
            )
        if len(data) != _HEAD.size + 32 * lags * kinds:
            raise SnapshotError(
                f"{lags} x {kinds} join cells take {_HEAD.size + 32 * lags * kinds} bytes, and "
                f"{len(data)} were given: cut or damaged"
            )
        cells = cls(lags, kinds)
        both = np.frombuffer(data, "<f8", -1, _HEAD.size).astype(np.float64)
        cells.comparisons, cells.matches = both.reshape(2, 2, lags, kinds).copy()
        return cells
