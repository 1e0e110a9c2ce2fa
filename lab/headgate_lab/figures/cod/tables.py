"""Every way to divide a budget, on every data set: what is kept, what is missing, how wrong it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate_lab.figures.cod.data import REAL, source_of, windows_of
from headgate_lab.figures.cod.streams import STREAMS
from headgate_lab.papers.cod import AGGREGATES, WindowRows, aggregate, allocate, estimate, relative_error
from headgate_lab.papers.cod.stratified import keep_fixed
from headgate_lab.papers.cod.uniform import uniform_shed

__all__ = ["ALLOCATIONS", "DATA_SETS", "SHARES", "AllocationRow", "allocation_rows"]

#: Every data set, real ones first; the paper's shares.
DATA_SETS = (*(name for name in REAL if name != "debs_real_15min"), *STREAMS)
SHARES = (0.02, 0.10, 0.25, 0.50)

#: Name of an allocation: its rule and the rows that a group keeps at least. Uniform has neither.
ALLOCATIONS: dict[str, tuple[str, int] | None] = {
    "uniform": None,
    "senate": ("senate", 1),
    "proportional, at least one": ("proportional", 1),
    "proportional": ("proportional", 0),
    "congress": ("congress", 1),
    "sqrt": ("sqrt", 1),
    "neyman": ("neyman", 1),
}


@dataclass(frozen=True)
class AllocationRow:
    """One allocation of one budget on one data set: averages over its windows and draws."""

    data: str
    asked: float
    allocation: str
    kept: float
    #: Share of the groups that the result does not have.
    missing: float
    #: Average relative error of each group's mean, sum, count and median; and of the grand total.
    mean: float
    sum: float
    count: float
    median: float
    total: float
    #: The 95th percentile over windows of the mean's error.
    mean_p95: float


def allocation_rows(
    names: Iterable[str] = DATA_SETS, shares: Iterable[float] = SHARES, draws: int = 1, seed: int = 0
) -> Iterator[AllocationRow]:
    """A row for each data set, share and allocation, as they are done.

    Where a data set's file is not here, the made stream in its place is taken, under its own name.
    Groups' counts and, for neyman, their standard deviations are exact; draws are of fixed size, but
    uniform tosses a coin and scales sums and counts by one over the share.
    """
    sources = dict.fromkeys(source_of(name) for name in names)
    for source in sources:
        windows = windows_of(source)
        for asked in shares:
            for name in ALLOCATIONS:
                found = [
                    _window(window, name, asked, np.random.default_rng([seed, draw, number]))
                    for draw in range(draws)
                    for number, window in enumerate(windows)
                ]
                averages = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
                p95 = float(np.percentile([one["mean"] for one in found], 95))
                yield AllocationRow(source.name, asked, name, **averages, mean_p95=p95)


def _window(
    window: WindowRows, allocation: str, asked: float, rng: np.random.Generator
) -> dict[str, float]:
    chosen, sizes = ALLOCATIONS[allocation], None
    if chosen is None:
        kept = uniform_shed(window.rows, asked, rng)
    else:
        rule, least = chosen
        quotas = allocate(
            window.counts,
            round(asked * window.rows),
            rule,
            least=least,
            deviations=_deviations(window) if rule == "neyman" else None,
            order=rng.permutation(window.groups),
        ).quotas
        kept, sizes = keep_fixed(window.codes, quotas, rng.random(window.rows)), window.counts
    found: dict[str, float] = {"kept": len(kept) / window.rows}
    there = np.bincount(window.codes[kept], minlength=window.groups) > 0
    found["missing"] = 1.0 - float(there.mean())
    for name in AGGREGATES:
        exact = aggregate(name, window.codes, window.values, window.groups)
        guess = estimate(name, window, kept, sizes=sizes, share=asked)
        found[name] = relative_error(exact, guess)
        if name == "sum":
            found["total"] = relative_error([exact.sum()], [np.nansum(guess)])
    return found


def _deviations(window: WindowRows) -> npt.NDArray[np.float64]:
    """The standard deviation of each group's values."""
    means = aggregate("mean", window.codes, window.values, window.groups)
    off = (window.values - means[window.codes]) ** 2
    return np.sqrt(aggregate("mean", window.codes, off, window.groups))
