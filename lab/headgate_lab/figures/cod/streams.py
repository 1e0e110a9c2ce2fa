"""Made streams with the shapes of the CoD paper's data, for where its data, or ours, are not at hand.

Rows come in panes of one slide each, a window is as many panes as its size has slides. Taxi routes
follow a Zipf-Mandelbrot law whose routes and rows give the densities of DEBS; at every slide some of the
busiest routes change places with others, which is the concept drift of section II-C. Task events come by
scheduling class (the rarest with 0.03 or 0.002 % of the rows) or by job, packets in three sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate_lab.papers.cod import WindowRows

__all__ = ["STREAMS", "made_windows"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
#: Rows of one pane: the key and the value of each.
Pane = tuple[Ints, Floats]


@dataclass(frozen=True)
class GroupLaw:
    """Zipf-Mandelbrot: the group of rank i has a chance in proportion to 1 / (i + shift) ** power.

    Each group has its own mean (log-normal, `spread` between groups) and rows around it (log-normal with
    coefficient of variation `cv`). At every slide `moving` of the `busy` first ranks change places with
    any, and a share `fresh` of all ranks is given to groups never seen before.
    """

    groups: int
    rows: int
    panes: int
    power: float = 1.0
    shift: float = 30.0
    spread: float = 0.5
    cv: float = 0.2
    busy: int = 30
    moving: int = 10
    fresh: float = 0.0

    def stream(self, rng: np.random.Generator) -> Callable[[], Pane]:
        """A source of panes."""
        weights = 1.0 / (np.arange(1, self.groups + 1) + self.shift) ** self.power
        edges = np.cumsum(weights / weights.sum())
        holders = rng.permutation(self.groups).astype(np.int64)
        means = 10.0 * rng.lognormal(0.0, self.spread, self.groups)
        sigma = float(np.sqrt(np.log1p(self.cv**2)))

        def pane() -> Pane:
            nonlocal means
            ranks = np.minimum(
                np.searchsorted(edges, rng.random(self.rows // self.panes)), self.groups - 1
            )
            keys = holders[ranks]
            values = means[keys] * rng.lognormal(-0.5 * sigma**2, sigma, len(keys))
            for rank in rng.choice(min(self.busy, self.groups), self.moving, replace=False):
                other = rng.integers(self.groups)
                holders[rank], holders[other] = holders[other], holders[rank]
            new = np.flatnonzero(rng.random(self.groups) < self.fresh)
            holders[new] = len(means) + np.arange(len(new))
            means = np.append(means, 10.0 * rng.lognormal(0.0, self.spread, len(new)))
            return keys, values

        return pane


@dataclass(frozen=True)
class ClassLaw:
    """Four scheduling classes with fixed chances, whose requests are skewed."""

    chances: tuple[float, ...]
    rows: int = 320_000
    panes: int = 2
    cv: float = 1.2

    def stream(self, rng: np.random.Generator) -> Callable[[], Pane]:
        """A source of panes."""
        means = 0.03 * rng.lognormal(0.0, 0.4, len(self.chances))
        sigma = float(np.sqrt(np.log1p(self.cv**2)))

        def pane() -> Pane:
            keys = rng.choice(len(self.chances), self.rows // self.panes, p=self.chances).astype(
                np.int64
            )
            return keys, means[keys] * rng.lognormal(-0.5 * sigma**2, sigma, len(keys))

        return pane


@dataclass(frozen=True)
class PacketLaw:
    """Packets of three sizes, whose mix changes from slide to slide; a query without groups."""

    rows: int = 46_000
    panes: int = 3

    def stream(self, rng: np.random.Generator) -> Callable[[], Pane]:
        """A source of panes."""

        def pane() -> Pane:
            mix = rng.dirichlet((60.0, 28.0, 12.0))
            sizes = rng.choice((64.0, 552.0, 1500.0), self.rows // self.panes, p=mix)
            return np.zeros(len(sizes), np.int64), sizes + rng.integers(0, 32, len(sizes))

        return pane


#: Every made stream by its name. Rows and groups of a window: 100 K / 31 K, 10 K / 6 K, 100 K / 1,500,
#: 320 K / 4, 4 and 12 K, 46 K / none.
STREAMS: dict[str, GroupLaw | ClassLaw | PacketLaw] = {
    "debs100k": GroupLaw(90_000, 100_000, 3),
    "debs10k": GroupLaw(90_000, 9_900, 3),
    "debs_few": GroupLaw(1_500, 100_000, 3, power=1.05, shift=3.0),
    "gcm": ClassLaw((0.74, 0.25, 0.0097, 0.0003)),
    "gcm_rare": ClassLaw((0.74, 0.25996, 0.00002, 0.00002)),
    "gcm_job": GroupLaw(9_000, 320_000, 2, power=1.1, shift=2.0, cv=0.02, fresh=0.3),
    "dec": PacketLaw(),
}


def made_windows(name: str, count: int, seed: int = 0) -> tuple[WindowRows, ...]:
    """The first windows of a made stream; the same seed makes the same stream."""
    law = STREAMS[name]
    # every stream has a place of its own in the seed, so that two never share their lots
    rng = np.random.default_rng([seed, list(STREAMS).index(name)])
    pane = law.stream(rng)
    panes = [pane() for _ in range(count + law.panes - 1)]
    found = []
    for first in range(count):
        keys, values = zip(*panes[first : first + law.panes], strict=True)
        found.append(WindowRows.of(np.concatenate(keys), np.concatenate(values)))
    return tuple(found)
