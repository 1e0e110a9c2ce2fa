"""What comparisons paid so far, by (direction, lag, type): for conditions whose content tells nothing.

The paper zeroes its statistics every period and samples with full processing (join-2007,
section 5.1, Algorithms 2 and 3). Here every comparison that is made counts, old ones fade with a half
life, and the density of each (direction, lag, type) has a Gamma posterior from which plans are drawn
(Thompson sampling): one that is little known is sometimes tried, a bad one seldom. There are several
draws, and the number of a probe row picks one: an exploration then costs a 32nd of all rows at a lag,
and 32 guesses are tried at a time.

The prior of a lag is Gamma with shape 1 (an exponential), with the pooled density of all lags as its
mean. That is optimistic enough: one draw in 20 of an unknown lag is three times the pooled density or
more. Types are pooled softly: a type's prior is its lag's density over all types, so that many types do
not starve each other, while types that truly match differently still part. And when far fewer matches
come than the counts promise, nearly all of the past is forgotten at once: the lag that pays has moved.

Sums are of matches, not of their utility: multiply by the mean utility of a type (`choose`'s `utility`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headgate.core.versions import require_version
from headgate.errors import BadArgument, SnapshotError
from headgate.joins.arrays import Floats

__all__ = ["LAG_STATS", "LagStats", "LagStatsConfig"]

_HEAD = struct.Struct("<4sB3xII")
_MAGIC, _VERSION = b"HGCS", 1


@dataclass(frozen=True)
class LagStatsConfig:
    """What is believed of lags, and for how long. `headgate bench join-numbers` sweeps every field."""

    #: Batches after which what was seen counts half. Eight follow a delay between the streams that moves
    #: within some ten batches; the statistics of fewer are too thin to tell lags apart.
    half_life: float = 8.0
    #: Groups of probing rows, each with its own draw. With one, an exploration is a whole batch's.
    draws: int = 32
    #: What is believed before anything was compared: so many comparisons with this density of matches.
    #: It is forgotten within the first batch, and only keeps the pooled density from being 0 / 0.
    first_comparisons: float = 1000.0
    first_density: float = 0.001
    #: Matches that a type must show at a lag to weigh as much as all types do there: ten have an error
    #: of a third, and types that differ by less are better taken together.
    pooled_matches: float = 10.0
    #: Matches that must be expected before their absence is a surprise, and the share of them that is
    #: one. What is expected is that of the best draws, and so too much: with 50 expected, chance alone
    #: made streams of few rows forget what they knew, and find a sixth less.
    surprise_from: float = 200.0
    surprise: float = 0.6
    #: What is left of all counts after a surprise. Not 0: a lag that paid may pay again.
    forget_to: float = 0.1

    def __post_init__(self) -> None:
        for name in ("half_life", "draws", "first_comparisons", "first_density", "pooled_matches"):
            value = getattr(self, name)
            if not value > 0:
                raise BadArgument(f"{name}={value!r}: give a number above 0")
        for name in ("surprise", "forget_to"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise BadArgument(f"{name}={value!r}: give a share from 0 to 1")
        if not self.surprise_from >= 0:
            raise BadArgument(f"surprise_from={self.surprise_from!r}: give 0 matches or more")


#: The defaults.
LAG_STATS = LagStatsConfig()


@dataclass(eq=False)
class LagStats:
    """Decayed sums of comparisons and matches; what is past the last lag or kind counts there.

    >>> stats = LagStats(lags=2)
    >>> stats.add(direction=0, lag=1, kinds=[0], comparisons=[1000.0], matches=[50.0])
    >>> stats.draw(np.random.default_rng(1)).shape
    (32, 2, 2, 1)
    """

    lags: int
    kinds: int = 1
    config: LagStatsConfig = LAG_STATS
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
        at = (direction, min(max(0, lag), self.lags - 1))
        np.add.at(self.comparisons[at], where, np.asarray(comparisons, np.float64))
        np.add.at(self.matches[at], where, np.asarray(matches, np.float64))

    def decay(self, elapsed: float, half_life: float) -> None:
        """Let what is known fade: to a half after each half life."""
        if not half_life > 0 or not elapsed >= 0:
            raise BadArgument(
                f"elapsed={elapsed!r}, half_life={half_life!r}: give 0 or more, and more than 0"
            )
        factor = 0.5 ** (elapsed / half_life)
        self.comparisons *= factor
        self.matches *= factor

    def learn(self, new: LagStats, elapsed: float = 1.0, half_life: float | None = None) -> None:
        """Let what is known fade, all but wholly if it foretold the new sums badly, and add those.

        Time is in batches, unless the caller says both how much elapsed and the half life.
        """
        expected = float((new.comparisons * self.matches / np.maximum(self.comparisons, 1.0)).sum())
        config = self.config
        self.decay(elapsed, config.half_life if half_life is None else half_life)
        if expected > config.surprise_from and float(new.matches.sum()) < config.surprise * expected:
            self.comparisons *= config.forget_to
            self.matches *= config.forget_to
        self.merge(new)

    def merge(self, other: LagStats) -> None:
        """Add another's sums; refused if it tells other lags or kinds apart."""
        if (other.lags, other.kinds) != (self.lags, self.kinds):
            raise BadArgument(
                f"statistics of {other.lags} lags x {other.kinds} kinds cannot be merged into "
                f"{self.lags} x {self.kinds}: build both with the same numbers"
            )
        self.comparisons += other.comparisons
        self.matches += other.matches

    @property
    def pooled(self) -> float:
        """The density of all lags together, and the mean of each lag's prior."""
        first = self.config.first_comparisons
        matches = first * self.config.first_density + self.matches.sum()
        return float(matches / (first + self.comparisons.sum()))

    def draw(self, random: np.random.Generator, groups: int | None = None) -> Floats:
        """Densities drawn from the posterior, for each group of probe rows: (groups, 2, lags, kinds)."""
        groups = self.config.draws if groups is None else groups
        matches, comparisons = self.matches.sum(axis=2), self.comparisons.sum(axis=2)
        shape = np.broadcast_to(1.0 + matches, (groups, *matches.shape))
        of_lags = random.standard_gamma(shape) / (1.0 / self.pooled + comparisons)
        found = np.repeat(of_lags[..., None], self.kinds, axis=3)
        if self.kinds == 1:
            return found
        pooled = self.config.pooled_matches
        own = random.standard_gamma(np.broadcast_to(pooled + self.matches, found.shape))
        return np.asarray(own / (pooled / np.maximum(found, 1e-300) + self.comparisons))

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
    def from_bytes(cls, data: bytes, config: LagStatsConfig = LAG_STATS) -> LagStats:
        """The statistics that `to_bytes` wrote; a config is the caller's, and not in the bytes."""
        if len(data) < _HEAD.size or data[:4] != _MAGIC:
            raise SnapshotError("these bytes are no join statistics: give what LagStats.to_bytes wrote")
        _, version, lags, kinds = _HEAD.unpack(data[: _HEAD.size])
        require_version("join statistics", version, _VERSION, "start with an empty state")
        if len(data) != _HEAD.size + 32 * lags * kinds:
            raise SnapshotError(
                f"join statistics of {lags} x {kinds} take {_HEAD.size + 32 * lags * kinds} bytes, and "
                f"{len(data)} were given: cut or damaged"
            )
        stats = cls(lags, kinds, config)
        both = np.frombuffer(data, "<f8", -1, _HEAD.size).astype(np.float64)
        stats.comparisons, stats.matches = both.reshape(2, 2, lags, kinds).copy()
        return stats
