"""Weights that say how they came about: by a coin, or by counting.

A row kept with probability p weighs 1/p, and how many rows such weights stand for is itself uncertain.
Where a gate counted the N rows of a stratum and kept n of them, each weighs N/n, and the weights add up
to N exactly: a count has no error, and a sum only that of its mean. Estimators must tell the two apart,
and a gate adds one column only. So the weight itself tells: a counted weight is an odd multiple of
2**-21, which moves it by less than 5e-7. What 1/p gives is practically never one (whole numbers and
halves are even multiples), nor is a product of two gates' weights, which then counts as a coin: the
careful side. A weight of 1 is exact either way and is left alone.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["GRAIN", "LARGEST", "counted", "is_counted"]

#: Counted weights are odd multiples of 1 / GRAIN.
GRAIN = 1 << 21
#: From here on doubles are too coarse to tell the kinds apart, and all count as coins.
LARGEST = float(1 << 20)

Floats = npt.NDArray[np.float64]


def counted(weights: npt.ArrayLike) -> Floats:
    """The weights, marked as counted.

    >>> counted([1.0, 2.0, 100 / 3]) - [1.0, 2.0, 100 / 3] < 5e-7
    array([ True,  True,  True])
    """
    given = np.asarray(weights, np.float64)
    odd = 2.0 * np.floor(given * (GRAIN // 2)) + 1.0
    return np.where((given > 1.0) & (given < LARGEST), odd / GRAIN, given)


def is_counted(weights: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Which of the weights are marked.

    >>> is_counted([counted(7.5), 7.5, 1 / 0.1, 1.0]).tolist()
    [True, False, False, False]
    """
    given = np.asarray(weights, np.float64)
    return np.asarray((given < LARGEST) & (np.mod(given * GRAIN, 2.0) == 1.0))
