"""Weights that say how they came about: by a coin, or by counting.

A row kept with probability p weighs 1/p, and how many rows such weights stand for is itself uncertain.
Where a gate counted the N rows of a stratum and kept n of them, each weighs N/n, and the weights add up
to N exactly: a count has no error, and a sum only that of its mean. Estimators must tell the two apart,
and a gate adds one column only. So the weight itself tells: a counted weight is an **odd multiple of
2^-21**, which moves it by at most 4.8e-7. A weight of 1 is exact either way and is left alone. From 2^20
on doubles are too coarse to tell the kinds apart, and all count as coins, which is the careful side.
`headgate.spark.gate.weights` has the same as Spark expressions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument

__all__ = ["MOST", "UNIT", "counted", "is_counted"]

#: Counted weights are odd multiples of this.
UNIT = 2.0**-21
#: Counted weights are below this.
MOST = 2.0**20

Floats = npt.NDArray[np.float64]


def counted(weight: npt.ArrayLike) -> Floats:
    """Weights N / n as counted ones.

    >>> counted([1.0, 4.0, 10 / 3]).tolist()
    [1.0, 4.000000476837158, 3.3333334922790527]
    """
    weights = np.asarray(weight, np.float64)
    if not np.all(weights >= 1.0) or not np.all(np.isfinite(weights)):
        wrong = weights[~(np.isfinite(weights) & (weights >= 1.0))].ravel()[0]
        raise BadArgument(
            f"weight {float(wrong)!r} is not a number from 1 on: give N / n, the rows that a stratum "
            "had over the rows that were kept of it"
        )
    odd = (2.0 * np.floor(weights / (2.0 * UNIT)) + 1.0) * UNIT
    return np.where((weights > 1.0) & (weights < MOST), odd, weights)


def is_counted(weights: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Which of the weights are counted.

    >>> is_counted([counted(7.5), 7.5, 1 / 0.1, 1.0]).tolist()
    [True, False, False, False]
    """
    given = np.asarray(weights, np.float64)
    return np.asarray((given < MOST) & (np.mod(given / UNIT, 2.0) == 1.0))
