"""Two promises held against the data: an accuracy that was asked for, and intervals that say 95 %."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.policies.by_group.accuracy import Accuracy
from headgate.policies.by_group.level import Rule
from headgate.spark.estimates.intervals.student import t_quantile
from headgate_lab.figures.cod.data import source_of, windows_of
from headgate_lab.papers.cod import WindowRows, aggregate, allocate, relative_errors
from headgate_lab.papers.cod.stratified import keep_fixed

__all__ = ["Coverage", "Reached", "coverage", "reached"]

#: A window is within reach of its target up to here.
_NEAR = 1.25
#: Rows of a group from which its interval is judged.
_SAMPLED = 10

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Reached:
    """An accuracy asked for on one data set, and what came of it.

    An accuracy of 2 % at 95 % confidence means that 95 of 100 groups' means are within 2 % of the truth;
    so what is realised is the 95th percentile of the errors of the groups that are large enough.
    """

    data: str
    wanted: float
    realised: float
    #: Windows whose own 95th percentile is at most 1.25 times what was wanted.
    windows_near: float
    #: Groups within what was wanted.
    groups_within: float
    mean_error: float
    kept: float
    groups: int

    @property
    def ratio(self) -> float:
        """Realised error over the wanted one."""
        return self.realised / self.wanted


def reached(data: str, wanted: float, draws: int = 3, seed: int = 0) -> Reached | None:
    """Every window drawn by the needs of its groups; None if no group is large enough for a promise."""
    source = source_of(data)
    accuracy = Accuracy("value", within=wanted)
    errors, near, kept, rows = [], [], 0, 0
    for number, window in enumerate(windows_of(source)):
        sizes, (exact, spread) = window.counts, _moments(window)
        needs = accuracy.needs(sizes, exact, spread, np.ones(window.groups))
        promised = sizes >= accuracy.least_rows
        for draw in range(draws):
            rng = np.random.default_rng([seed, draw, number])
            quotas = Rule("need").quotas(1.0, sizes, needs, rng.random(window.groups))
            chosen = keep_fixed(window.codes, quotas, rng.random(window.rows))
            guess = aggregate("mean", window.codes[chosen], window.values[chosen], window.groups)
            kept, rows = kept + len(chosen), rows + window.rows
            if promised.any():
                errors.append(relative_errors(exact[promised], guess[promised]))
                near.append(float(np.quantile(errors[-1], 0.95)) <= _NEAR * wanted)
    if not errors:
        return None
    every = np.concatenate(errors)
    return Reached(
        source.name,
        wanted,
        realised=float(np.quantile(every, 0.95)),
        windows_near=float(np.mean(near)),
        groups_within=float((every <= wanted).mean()),
        mean_error=float(every.mean()),
        kept=kept / rows,
        groups=len(every),
    )


@dataclass(frozen=True)
class Coverage:
    """How often a 95 % interval of a group's mean held the truth."""

    data: str
    asked: float
    covered: float
    #: Intervals: groups of a window with 10 rows sampled or more, and not kept whole.
    intervals: int


def coverage(data: str, asked: float, draws: int = 3, seed: int = 0) -> Coverage | None:
    """Student's t with the correction for a finite group; None where no group is sampled enough."""
    source, hits, cases = source_of(data), 0, 0
    for number, window in enumerate(windows_of(source)):
        exact, _ = _moments(window)
        for draw in range(draws):
            rng = np.random.default_rng([seed, draw, number])
            order = rng.permutation(window.groups)
            quotas = allocate(window.counts, asked * window.rows, order=order).quotas
            rows = keep_fixed(window.codes, quotas, rng.random(window.rows))
            sample = WindowRows(window.codes[rows], window.values[rows], window.keys)
            guess, spread = _moments(sample)
            sampled = sample.counts
            judged = (sampled >= _SAMPLED) & (sampled < window.counts)
            half = np.array([t_quantile(int(n) - 1, 0.95) for n in sampled[judged]])
            left = 1.0 - sampled[judged] / window.counts[judged]
            half *= spread[judged] * np.sqrt(left / sampled[judged])
            off = np.abs(guess[judged] - exact[judged])
            # rounding alone must not leave an interval of no width, of values that are all alike
            hits += int((off <= half + 1e-9 * np.abs(exact[judged])).sum())
            cases += int(judged.sum())
    return Coverage(source.name, asked, hits / cases, cases) if cases else None


def _moments(window: WindowRows) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each group; 0 where there is none."""
    means = aggregate("mean", window.codes, window.values, window.groups)
    off = np.square(window.values - means[window.codes])
    squares = np.bincount(window.codes, off, window.groups)
    return means, np.sqrt(squares / np.maximum(window.counts - 1, 1))
