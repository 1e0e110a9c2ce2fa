"""Themis-2016, Figure 6: error of AVG, COUNT and MAX against SIC, on made data and on PlanetLab's.

One source of 400 tuples a second for each copy of the query; the node's capacity is that of 5 copies. A
window in which no tuple is left has no AVG and no MAX and is not counted there; its COUNT is 0. Windows
whose true value is 0 have no relative error. The correlation of SIC and error is Pearson's, over the
points of one data set.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from headgate_lab.figures.figure import Axis, Claim, Samples
from headgate_lab.figures.sweep import Caption, Sample, Sweep, how_many
from headgate_lab.figures.themis.error import MADE, REAL, kept_tuples, real_file, snapshots

__all__ = [
    "SIC",
    "X_LABEL",
    "ErrorRun",
    "correlation_claim",
    "error_of",
    "run",
    "sweep",
    "title",
]

SIC, QUERIES = "result_sic", ("AVG", "COUNT", "MAX")
X_LABEL = "capacity / load, which is the result SIC"
#: Copies of the query on the node: SIC of 1 down to 0.05.
_COPIES, _FEW = (5, 6, 7, 10, 15, 25, 50, 100), (5, 10, 25, 100)


def error_of(query: str) -> str:
    """The metric that is the error of a query type."""
    return f"{query.lower().replace('-', '_')}_error"


_AXES = tuple(Axis(error_of(query), f"{query}: mean relative error") for query in QUERIES)


@dataclass(frozen=True)
class ErrorRun:
    """One data set and number of copies: an item of the work."""

    data: str
    copies: int
    windows: int
    seed: int
    file: str | None


def title(text: str) -> str:
    """The title says so where the real traces are missing."""
    return text if real_file() else f"{text}; without PlanetLab: planetlab_cpu_2011.parquet is not here"


def sweep(runs: int | None, quick: bool) -> Sweep[ErrorRun]:
    """Every data set at every overload."""
    count, file = how_many(runs, quick, few=1, many=5), real_file()
    data = (*MADE, *((REAL,) if file else ()))
    windows = 8 if quick else 40
    items = [
        ErrorRun(name, copies, windows, seed, file)
        for name in data
        for copies in (_FEW if quick else _COPIES)
        for seed in range(count)
    ]
    caption = Caption("themis_fig6", title("Error of aggregates against SIC"), X_LABEL, _AXES)
    return Sweep(caption, count, items, run, _claims)


def run(item: ErrorRun) -> list[Sample]:
    """Errors of the three aggregates in all windows of all copies."""
    random = np.random.default_rng([item.seed, item.copies, 64])
    errors: dict[str, list[npt.NDArray[np.float64]]] = {query: [] for query in QUERIES}
    sic = []
    for _ in range(item.windows):
        kept = kept_tuples(item.copies, 100, 500, 4, random).swapaxes(0, 1).reshape(item.copies, 400)
        values = snapshots(item.data, item.file, item.copies, 400, random)
        there = kept.any(axis=1)
        left = kept.sum(axis=1)
        average = np.where(kept, values, 0.0).sum(axis=1) / np.maximum(left, 1)
        largest = np.where(kept, values, -np.inf).max(axis=1)
        many, all_ = ((values >= 50) & kept).sum(axis=1), (values >= 50).sum(axis=1)
        errors["AVG"].append(_relative(average[there], values.mean(axis=1)[there]))
        errors["MAX"].append(_relative(largest[there], values.max(axis=1)[there]))
        errors["COUNT"].append(_relative(many.astype(np.float64), all_.astype(np.float64)))
        sic.append(left.mean() / 400.0)
    share = float(np.round(5.0 / item.copies, 3))
    found = {error_of(query): float(np.concatenate(errors[query]).mean()) for query in QUERIES}
    return [(share, item.data, found | {SIC: float(np.mean(sic))})]


def _relative(found: npt.NDArray[np.float64], true: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    some = true != 0.0
    return np.asarray(np.abs(found[some] / true[some] - 1.0))


def correlation_claim(samples: Samples, query: str, whose: str = "") -> Claim:
    """That the error falls with SIC, for every data set: the weakest correlation decides."""
    found: dict[str, float] = {}
    for data in dict.fromkeys(row.policy for row in samples.rows()):
        rows = [row.metrics for row in samples.rows() if row.policy == data]
        sic, error = ([row[metric].mean for row in rows] for metric in (SIC, error_of(query)))
        found[data] = float(np.corrcoef(sic, error)[0, 1])
    each = ", ".join(f"{data} {value:.2f}" for data, value in found.items())
    weakest = max(found.values())
    return Claim(
        f"{whose}{query}: error and SIC are correlated ({each}; weakest)", weakest < -0.6, weakest
    )


def _claims(samples: Samples) -> tuple[Claim, ...]:
    points = sorted({row.x for row in samples.rows()}, key=float)
    data = list(dict.fromkeys(row.policy for row in samples.rows()))

    def error(query: str, name: str, x: float | str | None = None) -> float:
        return samples.mean(points[0] if x is None else x, name, error_of(query))

    rises = max(
        error(query, name, more) - error(query, name, less)
        for query in QUERIES
        for name in data
        for less, more in pairwise(points)
    )
    correlated = {query: correlation_claim(samples, query) for query in QUERIES}
    stronger = correlated["COUNT"].number - correlated["AVG"].number
    weakest = min(error("COUNT", name) / error("AVG", name) for name in data)
    one_kind = float(np.mean([error("MAX", name) for name in MADE[:3]]))
    found = [
        Claim("the error falls as SIC rises (greatest rise between neighbours)", rises < 0.01, rises),
        *correlated.values(),
        Claim("most strongly for COUNT (its weakest less AVG's weakest)", stronger < 0, stronger),
        Claim(
            "COUNT's error is substantially higher than AVG's (least ratio at the lowest SIC)",
            weakest > 2.0,
            weakest,
        ),
        Claim(
            "AVG's error stays small on made data (largest)",
            max(error("AVG", name) for name in MADE) < 0.2,
            max(error("AVG", name) for name in MADE),
        ),
        Claim(
            "MAX: small on made data of one kind (largest)",
            max(error("MAX", name) for name in MADE[:3]) < 0.15,
            max(error("MAX", name) for name in MADE[:3]),
        ),
        Claim(
            "MAX: larger on mixed data (than the mean of the three kinds, times)",
            error("MAX", "mixed") > one_kind,
            error("MAX", "mixed") / one_kind,
        ),
    ]
    if REAL in data:
        times = error("MAX", REAL) / one_kind
        found.append(Claim("MAX: larger on PlanetLab's data (the same, times)", times > 1, times))
    return tuple(found)
