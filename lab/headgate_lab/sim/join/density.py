"""The true match density of a workload: the chance of a match, by lag (join-2007, Figure 6).

Two tuples match with a chance that depends only on how far the popular items of one are from those of
the other on the circle. That curve is exact for single values, and for sets an average over all pairs of
two samples; a lag is a point of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from headgate_lab.sim.compiled import compiled
from headgate_lab.sim.join.stream import Workload

__all__ = ["MatchCurve", "match_curve", "match_density", "window_densities"]

Floats = npt.NDArray[np.float64]
Sets = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]
#: Sets a sample; all pairs of two samples are compared, at every distance.
SAMPLE = 4000


@dataclass(frozen=True)
class MatchCurve:
    """By distance on the circle of items: the chance of a match, and the mean number of common items."""

    chance: Floats
    common: Floats

    def at(self, distance: Floats) -> tuple[Floats, Floats]:
        """Both at fractional distances; the two neighbours are mixed, as they are in time."""
        many = len(self.chance)
        low = np.floor(distance).astype(np.int64)
        part = distance - low
        here, there = low % many, (low + 1) % many
        mix = [(1 - part) * curve[here] + part * curve[there] for curve in (self.chance, self.common)]
        return mix[0], mix[1]


@lru_cache(maxsize=64)
def match_curve(
    items: int, skew: float, size: float, spread: float, at_least: int, seed: int = 7
) -> MatchCurve:
    """The curve of a law of sets; `at_least` 0 is equality of single values."""
    law = Workload(items=items, skew=skew, size=size, spread=spread)
    if law.singles:
        spectrum = np.fft.rfft(law.shares())
        same = np.maximum(np.fft.irfft(spectrum * np.conj(spectrum), items), 0.0)
        return MatchCurve(same, same)
    random = np.random.default_rng([seed, 6])
    bounds, kernels = np.cumsum(law.shares()), compiled("join.kernels")

    def draw(offset: int) -> Sets:
        lo, hi = np.zeros(SAMPLE, np.uint64), np.zeros(SAMPLE, np.uint64)
        kernels.draw_sets(random, bounds, np.full(SAMPLE, offset), law.sizes(SAMPLE, random), lo, hi)
        return lo, hi

    chance, common = np.zeros(items), np.zeros(items)
    for distance in range(items // 2 + 1):
        ours, theirs = draw(0), draw(distance)
        pairs = kernels.compare_all(*ours, *theirs, at_least)
        shared = float(_item_counts(ours) @ _item_counts(theirs))
        for index in {distance, -distance % items}:
            chance[index], common[index] = pairs / SAMPLE**2, shared / SAMPLE**2
    return MatchCurve(chance, common)


def _item_counts(sets: Sets) -> Floats:
    """How many sets have each item."""
    bits = np.stack(sets, axis=1).view(np.uint8)
    return np.asarray(np.unpackbits(bits, axis=1).sum(axis=0), np.float64)


def match_density(
    workload: Workload, at_least: int, window: int, now: float, lags: Floats
) -> tuple[Floats, Floats]:
    """Chance of a match, and common items, of a probe at `now` with tuples of W_i so long ago."""
    curve = match_curve(workload.items, workload.skew, workload.size, workload.spread, at_least)
    if window == 1:  # S_2 is stored, and was late when it came
        apart = lags + workload.shift(now - lags)
    else:
        apart = lags - workload.shift(np.array([now]))[0]
    return curve.at(apart * (workload.items / workload.cycle_s))


def window_densities(
    workload: Workload, at_least: int, windows_s: tuple[float, float], points: int = 201
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The match density of both windows at equally spaced lags, as `AgeBased` takes it."""
    first, second = (
        tuple(
            float(chance)
            for chance in match_density(workload, at_least, side, 0.0, np.linspace(0, length, points))[0]
        )
        for side, length in enumerate(windows_s)
    )
    return first, second
