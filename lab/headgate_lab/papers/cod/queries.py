"""What is asked of a window, exactly and from the rows kept, and how wrong the answer is (Table II).

The paper scales nothing, which a mean does not need. Sums and counts do: where the shedder has counted
the groups, as every pass over a whole window can, they are scaled to the exact N_g, so that a count is
exact and a sum is as wrong as the mean; where it has not (uniform), by one over the share kept.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate_lab.papers.cod.rows import WindowRows, group_counts

__all__ = [
    "AGGREGATES",
    "aggregate",
    "estimate",
    "mean_rate",
    "missing_share",
    "relative_error",
    "relative_errors",
    "sum_rate",
]

#: The aggregates that a window can be asked for.
AGGREGATES = ("mean", "sum", "count", "median")

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def aggregate(name: str, codes: Codes, values: Floats, groups: int) -> Floats:
    """The aggregate of each group's rows; where a group has none NaN, or 0 as count or sum.

    >>> aggregate("median", np.array([0, 0, 1]), np.array([1.0, 4.0, 7.0]), 3).tolist()
    [2.5, 7.0, nan]
    """
    if name not in AGGREGATES:
        raise BadArgument(f"aggregate {name!r} is not one of {', '.join(map(repr, AGGREGATES))}")
    counts = group_counts(codes, groups)
    if name == "count":
        return np.asarray(counts, np.float64)
    if name == "median":
        return _medians(codes, values, counts)
    sums: Floats = np.bincount(codes, weights=values, minlength=groups).astype(np.float64)
    if name == "sum":
        return sums
    means: Floats = np.divide(sums, counts, out=np.full(groups, np.nan), where=counts > 0)
    return means


def _medians(codes: Codes, values: Floats, counts: Codes) -> Floats:
    ordered = values[np.lexsort((values, codes))]
    first = np.cumsum(counts) - counts
    there = counts > 0
    low = (first + (counts - 1) // 2)[there]
    high = (first + counts // 2)[there]
    found = np.full(len(counts), np.nan)
    found[there] = 0.5 * (ordered[low] + ordered[high])
    return found


def estimate(
    name: str,
    window: WindowRows,
    kept: npt.NDArray[np.intp],
    *,
    sizes: npt.ArrayLike | None = None,
    share: float | None = None,
) -> Floats:
    """The aggregate of each group from the rows kept; NaN for a group without any.

    Sums and counts are scaled to `sizes`, the rows that each group has in the window, or else by one
    over `share`, the chance that a row had to be kept.

    >>> window = WindowRows.of(["a", "a", "b", "b"], [1.0, 3.0, 5.0, 5.0])
    >>> estimate("sum", window, np.array([0]), sizes=window.counts).tolist()
    [2.0, nan]
    """
    codes, values = window.codes[kept], window.values[kept]
    if name not in ("sum", "count"):
        return aggregate(name, codes, values, window.groups)
    counts = group_counts(codes, window.groups)
    if sizes is not None and name == "count":
        return np.where(counts > 0, np.asarray(sizes, np.float64), np.nan)
    if sizes is not None:
        factor = np.asarray(sizes, np.float64) / np.maximum(1, counts)
    elif share is not None and 0.0 < share <= 1.0:
        factor = np.full(window.groups, 1.0 / share)
    else:
        raise BadArgument(f"a {name} needs the groups' sizes, or a share above 0 and up to 1: {share!r}")
    found = factor * aggregate(name, codes, values, window.groups)
    return np.where(counts > 0, found, np.nan)


def relative_errors(exact: npt.ArrayLike, estimated: npt.ArrayLike) -> Floats:
    """Epsilon_Q of each group (section III): the relative error, at most 1; 1 for a missing group.

    Groups without an exact result are left out. Where the exact result is 0, any other is wrong by 1.

    >>> relative_errors([10.0, 10.0, 10.0, 0.0], [11.0, 50.0, float("nan"), 0.0]).tolist()
    [0.1, 1.0, 1.0, 0.0]
    """
    truth, found = np.asarray(exact, np.float64), np.asarray(estimated, np.float64)
    asked = ~np.isnan(truth)
    truth, found = truth[asked], found[asked]
    off = np.abs(found - truth)
    zero = truth == 0.0
    errors = np.where(zero, (off > 0).astype(np.float64), off / np.where(zero, 1.0, np.abs(truth)))
    return np.where(np.isnan(found), 1.0, np.minimum(1.0, errors))


def relative_error(exact: npt.ArrayLike, estimated: npt.ArrayLike) -> float:
    """The average of the groups' errors (section VII-C3); 0 for a window without groups."""
    errors = relative_errors(exact, estimated)
    return float(errors.mean()) if len(errors) else 0.0


def missing_share(exact: npt.ArrayLike, estimated: npt.ArrayLike) -> float:
    """The share of the groups of the exact result that the estimate does not have."""
    asked = ~np.isnan(np.asarray(exact, np.float64))
    gone = np.isnan(np.asarray(estimated, np.float64))[asked]
    return float(gone.mean()) if len(gone) else 0.0


def mean_rate(mean: float, variance: float, rows: int, error: float, confidence: float = 0.95) -> float:
    """The share of a window to keep, so that its mean is within `error` with this confidence (VI-C1).

    The concept of a scalar query is (mu, sigma^2), of a sample of the window. The paper leaves the
    formula to Babcock, Datar and Motwani (2004); this is the central limit with the correction for a
    finite window: n0 = (z sigma / (error mu))^2 rows of infinitely many, n0 / (1 + n0 / N) of N.

    >>> round(mean_rate(464.0, 473.0**2, 18_000, 0.05), 3)
    0.081
    """
    z = _deviations(rows, error, confidence)
    if mean == 0.0:
        return 1.0 if variance > 0.0 else 0.0
    needed = (z * math.sqrt(max(0.0, variance)) / (error * mean)) ** 2
    return min(1.0, needed / (rows + needed))


def sum_rate(mean: float, variance: float, rows: int, error: float, confidence: float = 0.95) -> float:
    """The same for a sum scaled by one over the rate, where a coin decides and N is not counted.

    Each row then adds x^2 (1 - p) / p to the variance, so that
    p = 1 / (1 + N (error mu / z)^2 / (mu^2 + sigma^2)).
    """
    z = _deviations(rows, error, confidence)
    square = mean * mean + max(0.0, variance)
    return 1.0 / (1.0 + rows * (error * mean / z) ** 2 / square) if square > 0.0 else 0.0


def _deviations(rows: int, error: float, confidence: float) -> float:
    if rows < 1 or not error > 0.0 or not 0.0 < confidence < 1.0:
        raise BadArgument(
            f"rows={rows!r}, error={error!r}, confidence={confidence!r}: give at least 1 row, an error "
            "above 0, and a confidence between 0 and 1"
        )
    return NormalDist().inv_cdf(0.5 + 0.5 * confidence)
