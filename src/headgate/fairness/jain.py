"""Jain's index: how equal shares are, from 1/n (one has all) to 1 (themis-2016, section 7).

With weights a share is fair when it is proportional to its weight, so the index is taken of share /
weight.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument

__all__ = ["jain", "mean_jain"]


def jain(values: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float:
    """(sum x)^2 / (n sum x^2). Nobody having anything is equal, too: 1.

    >>> jain([1, 1, 1, 1]), jain([1, 0, 0, 0]), jain([0, 0])
    (1.0, 0.25, 1.0)
    >>> jain([0.2, 0.4], weights=[1, 2])
    1.0
    """
    return float(_rows(np.asarray(values, np.float64)[np.newaxis], weights)[0])


def mean_jain(table: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float:
    """The mean over time of the index at each time; a row for each time, a column for each query.

    The paper takes the index of the values' means over time, which hides oscillation: two queries that
    starve in turns have index 1 by that, and 0.5 by this.

    >>> mean_jain([[1, 0], [0, 1]]), jain(np.mean([[1, 0], [0, 1]], axis=0))
    (0.5, 1.0)
    """
    return float(_rows(np.asarray(table, np.float64), weights).mean())


def _rows(table: npt.NDArray[np.float64], weights: npt.ArrayLike | None) -> npt.NDArray[np.float64]:
    if table.ndim != 2 or 0 in table.shape:
        raise BadArgument(
            f"an array of shape {table.shape}: Jain's index needs at least one value, "
            "or a table with a row for each time and a column for each query"
        )
    if weights is not None:
        scale = np.asarray(weights, np.float64)
        if scale.shape != table.shape[1:] or not (scale > 0).all():
            raise BadArgument(
                f"weights={weights!r}: give one weight above 0 for each of {table.shape[1]} values"
            )
        table = table / scale
    if not np.isfinite(table).all() or (table < 0).any():
        raise BadArgument("Jain's index is of finite shares of 0 or more; leave out what has no value")
    # Scaled by the largest, so that tiny shares do not vanish when they are squared.
    largest = table.max(axis=1, keepdims=True)
    table = np.where(largest > 0, table / np.where(largest > 0, largest, 1.0), 1.0)
    return np.asarray(table.sum(axis=1) ** 2 / (table.shape[1] * (table**2).sum(axis=1)))
