"""The synthetic streams of las-2020, Section 5.1 and of its time series (Figure 9)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate.sketches.keys import stable_keys

__all__ = ["LasStream", "StreamLaw", "phases"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LasStream:
    """Tuples in order: their item, duration and arrival; items are rows of `keys`."""

    items: npt.NDArray[np.int64]
    durations_s: Array
    arrivals_s: Array
    keys: npt.NDArray[np.uint64]
    #: W-bar as it is told to those who know it beforehand.
    mean_s: float
    #: Executed tuples from which one pair of matrices is learnt before the stream begins.
    lesson_items: npt.NDArray[np.int64]
    lesson_durations_s: Array

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True)
class StreamLaw:
    """How streams are drawn; a seed gives one.

    `zipf` is the exponent, and None is the uniform law. Under-provisioning u gives the arrival rate
    ``1 / (W-bar (1 - u))``: the paper's "ratio between the maximum and the actual throughput" is 1 -
    u, for only then do Base Line and Straw-Man drop alike and both too little.
    """

    zipf: float | None = 1.0
    under: float = 0.25
    tuples: int = 32_768
    items: int = 4096
    values: int = 64
    shortest_s: float = 0.0001
    longest_s: float = 0.0064

    def __post_init__(self) -> None:
        if self.items % self.values:
            raise BadArgument(
                f"items={self.items}, values={self.values}: items must be a multiple of values"
            )
        if not self.under < 1:
            raise BadArgument(f"under={self.under!r}: give less than 1; below 0 is over-provisioned")
        if self.zipf is not None and not self.zipf >= 0:
            raise BadArgument(f"zipf={self.zipf!r}: give an exponent of 0 or more, or None for uniform")

    def shares(self) -> Array:
        """How likely each item is."""
        ranks = np.arange(1, self.items + 1, dtype=np.float64)
        weights = ranks ** -(self.zipf or 0.0)
        return np.asarray(weights / weights.sum(), np.float64)

    def durations(self, random: np.random.Generator) -> Array:
        """The duration of each item: every value belongs to equally many items, at random."""
        values = np.linspace(self.shortest_s, self.longest_s, self.values)
        return np.asarray(random.permutation(np.repeat(values, self.items // self.values)), np.float64)

    def draw(self, seed: int) -> LasStream:
        """One stream: its own association of items and durations, its own order, its own lesson."""
        random = np.random.default_rng([seed, 1])
        by_item = self.durations(random)
        items = _draw(self.shares(), self.tuples, random)
        lesson = _draw(self.shares(), self.tuples, random)
        durations = by_item[items]
        mean = float(durations.mean())
        arrivals = np.arange(self.tuples, dtype=np.float64) * np.float64(mean * (1.0 - self.under))
        keys = stable_keys(np.arange(self.items))
        return LasStream(items, durations, arrivals, keys, mean, lesson, by_item[lesson])


def _draw(shares: Array, count: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    bounds = np.cumsum(shares)
    found = np.searchsorted(bounds, random.random(count) * bounds[-1], side="right")
    return np.asarray(found, np.int64)


def phases(seed: int, law: StreamLaw | None = None, length: int = 20_000) -> LasStream:
    """Figure 9: phases A to G, each with an abrupt change.

    A, C and G: no under-provisioning; B: 50 %; D: the most frequent item changes places with one of
    the dearest; E: 50 % over-provisioned; F: no under-provisioning by A's W-bar, and every duration
    is doubled. D's exchange lasts until F is over. W-bar is that of A's law throughout.
    """
    law = law or StreamLaw()
    random = np.random.default_rng([seed, 2])
    by_item, shares = law.durations(random), law.shares()
    mean = float(by_item @ shares)
    dearest = np.flatnonzero(by_item == by_item.max())
    top, rare = int(shares.argmax()), int(random.choice(dearest[dearest != shares.argmax()]))
    items = _draw(shares, 7 * length, random)
    lesson = _draw(shares, law.tuples, random)
    phase = np.arange(7 * length) // length
    exchanged = (phase >= 3) & (phase <= 5)
    was_top, was_rare = exchanged & (items == top), exchanged & (items == rare)
    items[was_top], items[was_rare] = rare, top
    durations = by_item[items] * np.where(phase == 5, 2.0, 1.0)
    gaps = mean * np.array([1.0, 0.5, 1.0, 1.0, 1.5, 1.0, 1.0])[phase]
    arrivals = np.concatenate([[0.0], np.cumsum(gaps)[:-1]])
    keys = stable_keys(np.arange(law.items))
    return LasStream(items, durations, arrivals, keys, mean, lesson, by_item[lesson])
