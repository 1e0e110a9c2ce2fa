"""Join-2007, Figure 5: how much of the best possible output basic windows of some size can reach.

Arithmetic of section 5.1.1, no run: phi compares the area under the match density f_2 that the best
basic windows cover with the greatest area of the same extent. `optimality` is phi as printed. It ranks
by area and charges every basic window as a full one, though the first and the last are half full on
average; `optimality_mended` ranks by density and charges what is there, and so is 1 when everything is
processed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate_lab.figures.figure import Axis, Claim, Samples
from headgate_lab.figures.sweep import Caption, Sample, Sweep, how_many
from headgate_lab.sim.join.density import match_curve
from headgate_lab.sim.join.stream import Workload

__all__ = ["LOADS", "SIZES", "Density", "basic_windows", "density", "mended", "phi", "policy", "sweep"]

Array = npt.NDArray[np.float64]

OPTIMALITY, MENDED = "optimality", "optimality_mended"
#: b / w, and r'.
SIZES = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
LOADS = (0.01, 0.05, 0.25, 1.0)
_SKEWS = (0.6, 0.8)
_CAPTION = Caption(
    "join_fig5",
    "What basic windows can reach of the best output",
    "basic window / window",
    (Axis(OPTIMALITY, "phi"), Axis(MENDED, "phi, true lengths")),
    x_log=True,
)


@dataclass(frozen=True)
class Density:
    """One skew and one draw of the sets: an item of the work."""

    skew: float
    seed: int


def sweep(runs: int | None, quick: bool) -> Sweep[Density]:
    """All of it; a run draws its own sets."""
    count = how_many(runs, quick, few=1, many=5)
    items = [Density(skew, seed) for skew in _SKEWS for seed in range(count)]
    return Sweep(_CAPTION, count, items, run, _claims)


def policy(skew: float, load: float) -> str:
    """One line of the surface: a skew and a share r' of the window that can be processed."""
    return f"kappa {skew:g}, r' = {load:g}"


def run(item: Density) -> list[Sample]:
    """Every size and load under one density."""
    f = density(item.skew, item.seed)
    return [
        (size, policy(item.skew, load), {OPTIMALITY: phi(f, size, load), MENDED: mended(f, size, load)})
        for size in SIZES
        for load in LOADS
    ]


def density(skew: float, seed: int, pieces: int = 4000) -> Array:
    """f_2 of an overlap of three, at the middles of equal pieces of the window, the newest first.

    A tuple of stream 1 meets stream 2 as it was lag + tau ago. The cycle is two windows and tau 5/8 of
    it, so that the peak is at three quarters; in window 1 it would be outside, at 5/4.
    """
    law = Workload(skew=skew)
    curve = match_curve(law.items, skew, law.size, law.spread, at_least=3, seed=seed)
    lag = (np.arange(pieces) + 0.5) / pieces
    return curve.at(law.items * (lag + 1.25) / 2.0)[0]


def basic_windows(f: Array, size: float) -> tuple[Array, Array]:
    """p_j and the mean length of every basic window, when the first is 0 to 100 % full.

    >>> areas, lengths = basic_windows(np.ones(100), 0.5)
    >>> areas.round(3).tolist(), lengths.round(3).tolist()
    ([0.25, 0.5, 0.25], [0.25, 0.5, 0.25])
    """
    count = 1 + math.ceil(round(1 / size, 9))
    area, borders = _cumulated(f), np.linspace(0.0, 1.0, len(f) + 1)
    full = (np.arange(200) + 0.5) / 200
    newest = size * (full[:, None] + np.arange(count) - 1.0)
    begin, end = np.clip(newest, 0.0, 1.0), np.clip(newest + size, 0.0, 1.0)
    areas = np.interp(end, borders, area) - np.interp(begin, borders, area)
    return areas.mean(axis=0), (end - begin).mean(axis=0)


def phi(f: Array, size: float, load: float) -> float:
    """Section 5.1.1's optimality: the most profitable basic windows by area, each charged b."""
    areas, _ = basic_windows(f, size)
    ranked = np.sort(areas)[::-1]
    whole = min(len(ranked), math.floor(round(load / size, 9)))
    covered = float(ranked[:whole].sum())
    if whole < len(ranked):
        covered += (load - whole * size) / size * float(ranked[whole])
    return covered / _best(f, load)


def mended(f: Array, size: float, load: float) -> float:
    """The same by density, each basic window charged what it holds."""
    areas, lengths = basic_windows(f, size)
    order = np.argsort(-areas / lengths, kind="stable")
    spent = np.concatenate(([0.0], np.cumsum(lengths[order])))
    covered = np.concatenate(([0.0], np.cumsum(areas[order])))
    return float(np.interp(min(1.0, load), spent, covered)) / _best(f, load)


def _cumulated(f: Array) -> Array:
    """The area up to each border between the pieces, in units of the window."""
    return np.concatenate(([0.0], np.cumsum(f) / len(f)))


def _best(f: Array, load: float) -> float:
    """g(f, r' w): the greatest area of that extent."""
    area = _cumulated(np.sort(f)[::-1])
    return float(np.interp(min(1.0, load), np.linspace(0.0, 1.0, len(area)), area))


def _claims(samples: Samples) -> tuple[Claim, ...]:
    def mean(size: float, skew: float, load: float, metric: str = OPTIMALITY) -> float:
        return samples.mean(size, policy(skew, load), metric)

    poorer = [
        mean(size, skew, more) - mean(size, skew, less)
        for size in SIZES
        for skew in _SKEWS
        for less, more in itertools.pairwise(LOADS)
    ]
    skewed = [mean(size, 0.6, load) - mean(size, 0.8, load) for size in SIZES for load in LOADS]
    finer = mean(0.01, 0.8, 0.01) - mean(0.1, 0.8, 0.01)
    idle = mean(0.01, 0.6, 1.0) - mean(0.1, 0.6, 1.0)
    full = min(mean(size, 0.6, 1.0) for size in SIZES)
    whole = min(mean(size, skew, 1.0, MENDED) for size in SIZES for skew in _SKEWS)
    return (
        Claim(
            "less CPU, less optimal (greatest loss where r' grows by a step, of phi)",
            -min(poorer) < 0.02,
            -min(poorer),
        ),
        Claim(
            "a more skewed density is harder (mean phi lost between kappa 0.6 and 0.8)",
            float(np.mean(skewed)) > 0,
            float(np.mean(skewed)),
        ),
        Claim(
            "at every size and load (share where it is harder)",
            all(lost > -0.02 for lost in skewed),
            float(np.mean([lost > -0.02 for lost in skewed])),
        ),
        Claim(
            "small basic windows pay when the CPU is short and f skewed (phi at b = w/100 over w/10)",
            finer > 0.1,
            finer,
        ),
        Claim("and hardly otherwise (the same with everything processed)", idle < 0.05, idle),
        Claim("with everything processed phi is 1 (least, kappa 0.6)", full > 0.99, full),
        Claim("ours: with true lengths it is (least)", whole > 0.99, whole),
    )
