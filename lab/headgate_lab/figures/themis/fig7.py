"""Themis-2016, Figure 7: error of TOP-5 and COV against SIC, on made data and on PlanetLab's.

TOP-5 averages 20 readings a second of available CPU and of free memory for each of 10 nodes, drops
memory readings below 100 MB, joins on the node and ranks by CPU; its error is Kendall's distance of the
lists. A node whose CPU or memory readings are all gone is not ranked. COV is the covariance of pairs of
readings of two nodes of which both are left; its error is the standard deviation of what it misses, in
units of the product of the two nodes' own standard deviations, without which data could not be compared.
AVG-all of 10 sources is ours, so that every query type of the complex workload has its curve.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headgate_lab.figures.figure import Axis, Claim, Samples
from headgate_lab.figures.sweep import Caption, Sample, Sweep, how_many
from headgate_lab.figures.themis.error import DAY, MADE, REAL, kendall, kept_tuples, real_file, series
from headgate_lab.figures.themis.fig6 import SIC, X_LABEL, ErrorRun, correlation_claim, error_of, title

__all__ = ["run", "sweep"]

_COPIES, _FEW = (5, 6, 7, 10, 15, 25, 50, 100), (5, 10, 25, 50)
_AXES = (
    Axis(error_of("TOP-5"), "TOP-5: Kendall's distance"),
    Axis(error_of("COV"), "COV: std of the error"),
    Axis(error_of("AVG-all"), "AVG-all: mean relative error"),
)
_NODES, _READINGS = 10, 20

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


def sweep(runs: int | None, quick: bool) -> Sweep[ErrorRun]:
    """Every data set at every overload."""
    count, file = how_many(runs, quick, few=1, many=5), real_file()
    data = (*MADE, *((REAL,) if file else ()))
    items = [
        ErrorRun(name, copies, 2 if quick else 12, seed, file)
        for name in data
        for copies in (_FEW if quick else _COPIES)
        for seed in range(count)
    ]
    caption = Caption("themis_fig7", title("Error of complex queries against SIC"), X_LABEL, _AXES)
    return Sweep(caption, count, items, run, _claims)


def run(item: ErrorRun) -> list[Sample]:
    """The three queries in all windows of all copies."""
    random = np.random.default_rng([item.seed, item.copies, 65])
    top, missed, averaged = [], [], []
    sic = []
    for _ in range(item.windows):
        kept = _kept(item.copies, 2 * _NODES, _READINGS, random)
        cpu = series(item.data, item.file, item.copies, _NODES, _READINGS, random)
        memory = random.uniform(50.0, 350.0, cpu.shape)
        for copy in range(item.copies):
            perfect = _top5(cpu[copy], memory[copy], np.ones((2 * _NODES, _READINGS), np.bool_))
            top.append(kendall(perfect, _top5(cpu[copy], memory[copy], kept[copy])))
        sic.append(float(kept.mean()))
        used = kept[:, :_NODES]
        some = used.any(axis=(1, 2))
        means = np.where(used, cpu, 0.0).sum(axis=(1, 2)) / np.maximum(used.sum(axis=(1, 2)), 1)
        averaged += np.abs(means / cpu.mean(axis=(1, 2)) - 1.0)[some].tolist()
        pairs = series(item.data, item.file, item.copies, 2, DAY, random)
        left = _kept(item.copies, 2, DAY, random)
        missed += _missed(pairs, left[:, 0] & left[:, 1])
    errors = {
        "TOP-5": float(np.mean(top)),
        "COV": float(np.std(missed)),
        "AVG-all": float(np.mean(averaged)),
    }
    share = float(np.round(5.0 / item.copies, 3))
    found = {error_of(query): error for query, error in errors.items()}
    return [(share, item.data, found | {SIC: float(np.mean(sic))})]


def _kept(copies: int, sources: int, size: int, random: np.random.Generator) -> Flags:
    """One second of (copy, source, tuple), decided in four intervals."""
    per_interval = sources * size // 4
    kept = kept_tuples(copies, per_interval, 5 * per_interval, 4, random)
    # A source's tuples are spread over the second.
    spread = kept.reshape(4, copies, sources, size // 4)
    return spread.transpose(1, 2, 0, 3).reshape(copies, sources, size)


def _top5(cpu: Floats, memory: Floats, kept: Flags) -> list[int]:
    used, free = kept[:_NODES], kept[_NODES:] & (memory >= 100.0)
    available = 100.0 - np.where(used, cpu, 0.0).sum(axis=1) / np.maximum(used.sum(axis=1), 1)
    ranked = np.argsort(-available, kind="stable")
    joined = (used.sum(axis=1) > 0) & (free.sum(axis=1) > 0)
    return [int(node) for node in ranked if joined[node]][:5]


def _missed(pairs: Floats, left: Flags) -> list[float]:
    """By how much each covariance is off; of nothing where fewer than two pairs are left."""
    found = []
    for (one, other), kept in zip(pairs, left, strict=True):
        scale = float(one.std() * other.std())
        if kept.sum() >= 2 and scale > 0:
            found.append(float(np.cov(one[kept], other[kept])[0, 1] - np.cov(one, other)[0, 1]) / scale)
    return found


def _claims(samples: Samples) -> tuple[Claim, ...]:
    points = sorted({row.x for row in samples.rows()}, key=float)
    data = {row.policy for row in samples.rows()}

    def error(query: str, name: str) -> float:
        return samples.mean(points[0], name, error_of(query))

    found = [
        correlation_claim(samples, "TOP-5"),
        correlation_claim(samples, "COV"),
        correlation_claim(samples, "AVG-all", "ours: "),
    ]
    if REAL in data:
        alike = error("TOP-5", REAL) / float(np.mean([error("TOP-5", name) for name in MADE]))
        times = error("COV", REAL) / float(np.mean([error("COV", name) for name in MADE]))
        found += [
            Claim(
                "TOP-5 behaves alike on real and made data (ratio of errors at the lowest SIC)",
                0.67 < alike < 1.5,
                alike,
            ),
            Claim("COV's error is more prominent on real data (the same ratio)", times > 1.1, times),
        ]
    return tuple(found)
