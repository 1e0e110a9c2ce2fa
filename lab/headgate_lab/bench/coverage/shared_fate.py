"""Rows that are kept or shed together (``identity=``): error bars as if they were not, and honest ones.

Coins are tossed for identities instead of rows: accounts, jobs, taxis, machines of the real data. Beside
what ``hg.mean`` and ``hg.sum`` say of the rows stands what ``hg.ratio`` and ``hg.sum`` say behind
``hg.together``. `shared_totals` has totals over groups whose rows share identities, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.spark.estimates.intervals.careful import alone
from headgate.spark.estimates.intervals.student import normal_quantile
from headgate_lab.bench.coverage.arrays import ArrayAlgebra
from headgate_lab.bench.coverage.draws import Kept, sums_of
from headgate_lab.bench.coverage.intervals import Ends, finish, intervals
from headgate_lab.bench.coverage.populations import Grouping, Population
from headgate_lab.bench.coverage.tally import Tally, told

__all__ = ["LEAST_IDENTITIES", "SHARED", "Clusters", "Drawn", "mean_of", "shared_fate"]

_HOUR, _DAY = 3600.0, 86400.0
#: Queries, and what the rows of one fate have in common.
SHARED = (
    (Grouping("google tasks", "cpu_req", ("sched_class",), _HOUR / 3), ("job",)),
    (Grouping("PlanetLab CPU", "cpu_pct", (), _HOUR), ("vm",)),
    (Grouping("tweets", "text_len", ("is_retweet",), 3 * _DAY), ("account",)),
    (Grouping("tweets", "hashtags", ("client",), 3 * _DAY), ("account",)),
    (Grouping("DEBS taxis", "fare_usd", ("payment_type",), _HOUR), ("taxi",)),
    (Grouping("DEBS taxis", "distance_mi", (), _HOUR / 2), ("driver",)),
)
#: Cells with fewer kept identities are not judged.
LEAST_IDENTITIES = 10
_METHODS = ("as rows", "together", "true variance")
_BOTH = 2.0 * normal_quantile(0.95)
_OPS = ArrayAlgebra()

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Drawn:
    """What one draw of a share kept: the rows of each cell, its identities, and the mean by those."""

    share: float
    rows: Kept
    sums: Kept
    mean: Ends


@dataclass(frozen=True)
class Clusters:
    """A population, and the rows of each identity in a cell as one."""

    rows: Population
    #: The sum over the rows of an identity, for each that a cell has; and how many rows those are.
    sums: Population
    numbers: Floats
    identities: Whole

    @classmethod
    def of(cls, people: Population) -> Clusters:
        """By the identities of its rows."""
        assert people.identities is not None
        most = int(people.identities.max(initial=0)) + 1
        codes, of_row = np.unique(people.cells * most + people.identities, return_inverse=True)
        sums = Population(
            codes // most, np.asarray(np.bincount(of_row, people.values), float), people.windows
        )
        return cls(people, sums, np.bincount(of_row).astype(float), codes % most)

    def drawn(self, shares: tuple[float, ...], times: int, seed: int) -> Iterator[Drawn]:
        """`times` draws of every share, by a coin for each identity."""
        assert self.rows.identities is not None
        middle, middle_sum = self.rows.mean(), self.sums.mean()
        for number in range(times):
            luck = np.random.default_rng([seed, number]).random(int(self.identities.max()) + 1)
            for share in shares:
                weight = np.full(len(self.rows.windows), 1.0 / share)
                kept = np.flatnonzero(luck[self.rows.identities] < share)
                off = self.rows.values[kept] - middle[self.rows.cells[kept]]
                rows = sums_of(self.rows, kept, off, middle, weight, number)
                kept = np.flatnonzero(luck[self.identities] < share)
                cells, values = self.sums.cells[kept], self.sums.values[kept]
                sums = sums_of(self.sums, kept, values - middle_sum[cells], middle_sum, weight, number)
                yield Drawn(share, rows, sums, mean_of(cells, values, self.numbers[kept], 1.0 / share))

    def widths(self, share: float) -> dict[str, Floats]:
        """Of every cell's mean and sum: how wide an interval with the true variance is."""
        off = self.sums.values - self.rows.mean()[self.sums.cells] * self.numbers
        mean, total = (
            _BOTH * np.sqrt((1.0 / share - 1.0) * np.bincount(self.sums.cells, np.square(x)))
            for x in (off, self.sums.values)
        )
        return {"mean": mean / self.rows.sizes, "sum": total}


def mean_of(cells: Whole, sums: Floats, numbers: Floats, w: float) -> Ends:
    """``hg.ratio(sum, number)`` of kept identities: low and high of every cell that has some."""
    there, at = np.unique(cells, return_inverse=True)
    n, count = np.bincount(at).astype(float), np.bincount(at, numbers)
    rate = np.bincount(at, sums) / count
    off = np.bincount(at, np.square(sums - rate[at] * numbers))
    least, most = np.full(len(there), np.inf), np.full(len(there), -np.inf)
    np.minimum.at(least, at, sums / numbers)
    np.maximum.at(most, at, sums / numbers)
    nothing = np.zeros(len(n))
    with np.errstate(all="ignore"):
        variance = w * (w - 1.0) * off * n / (n - 1.0) / np.square(w * count)
        fixed = (w - 1.0) / (w * n)
        square = np.where(least == most, 0.0, variance / fixed)
        sample = SimpleNamespace(
            n=n, freedom=n - 1.0, centre=rate, square=square, third=nothing, coins=nothing, fixed=fixed,
            variance=variance,
        )  # fmt: skip
        ends: Ends = alone(_OPS, rate, sample, finish)
    return ends


def shared_fate(
    query: Grouping,
    people: Population,
    identity: tuple[str, ...],
    shares: tuple[float, ...],
    times: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Of one query: what covers with ten identities or more, mean and sum."""
    clusters = Clusters.of(people)
    found = {(s, m): Tally() for s in ("mean", "sum") for m in _METHODS}
    truth = {"mean": people.mean(), "sum": people.mean() * people.sizes}
    widths = {share: clusters.widths(share) for share in shares}
    for draw in clusters.drawn(shares, times, seed):
        rows, sums = draw.rows, draw.sums
        here = np.flatnonzero((sums.n >= LEAST_IDENTITIES) & (sums.n < sums.size))
        by_identity = {
            "mean": draw.mean,
            "sum": intervals(sums, "sum", coins=True, share=False)["alone"],
        }
        for statistic, ends in by_identity.items():
            right, width = truth[statistic][sums.cell], widths[draw.share][statistic][sums.cell]
            value = rows.mean * (rows.n * rows.weight if statistic == "sum" else 1.0)
            said = {
                "as rows": intervals(rows, statistic, coins=True, share=False)["alone"],
                "together": ends,
                "true variance": {"low": value - 0.5 * width, "high": value + 0.5 * width},
            }
            for method, of_method in said.items():
                judged = {end: of_method[end][here] for end in ("low", "high")}
                found[statistic, method].add(judged, right[here], width[here])
    where = {"data": query.data, "query": query.name, "identity": ", ".join(identity)}
    where["rows of one"] = f"{clusters.numbers.mean():.1f}"
    return [
        {**where, "statistic": s, **told({m: found[s, m] for m in _METHODS})} for s in ("mean", "sum")
    ]
