"""What `_weight` says: how many rows a kept row stands for, and how it was drawn.

Two kinds of draw need two error formulas, and gates add one column only; so the weight tells the kind:

- *coin*: the row was kept by itself, with chance 1 / weight. How many of a group are kept is luck.
- *counted*: the gate counted the N rows of a stratum and kept n of them, n fixed before the draw; the
  weight is N / n, and the weights of the stratum add up to N. How many there were is known.

A counted weight is an **odd multiple of 2^-21**: N / n, rounded to the nearest one, which is an error
of at most 2^-21 = 4.8e-7 a row. A coin's weight, 1 / rate, is practically never one: whole numbers
and halves are even multiples, and one in 2^32 of the doubles between 1 and 2 (one in 2^26 near 100)
is an odd one; `coin_column` moves those by the last bit. Sums of counted weights are exact up to
2^32, in any order.

From 2^20 on no weight is counted: doubles are too coarse there to tell the kinds apart. A row that
stands for a million others is taken for a coin's, which is the careful side: a coin's error is the
larger.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column
from pyspark.sql import functions as F

from headgate.errors import BadArgument

__all__ = ["MOST", "UNIT", "chained", "coin_column", "counted", "counted_column", "is_counted"]

#: Counted weights are odd multiples of this.
UNIT = 2.0**-21
#: Counted weights are below this.
MOST = 2.0**20

_HALF = 2.0**20  # weight * _HALF is a whole number and a half, if the weight is counted
_NEXT = 1.0 + 2.0**-52


def counted(weight: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Weights N / n as counted ones. Exactly 1 stays 1 (nothing was shed); from `MOST` on all stay.

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
    odd = (2.0 * np.floor(weights * _HALF) + 1.0) * UNIT
    return np.where((weights > 1.0) & (weights < MOST), odd, weights)


def counted_column(weight: Column) -> Column:
    """`counted`, natively."""
    w = weight.cast("double")
    odd = (F.lit(2.0) * F.floor(w * F.lit(_HALF)) + F.lit(1.0)) * F.lit(UNIT)
    return F.when((w > 1.0) & (w < MOST), odd).otherwise(w)


def is_counted(weight: Column) -> Column:
    """Whether a weight is a counted one: true or false, null for null."""
    halves = weight.cast("double") * F.lit(_HALF)
    return (halves - F.floor(halves) == F.lit(0.5)) & (weight < F.lit(MOST))


def coin_column(weight: Column) -> Column:
    """A coin's weight that is never taken for a counted one: such as look like one move by a bit."""
    return F.when(is_counted(weight), weight * F.lit(_NEXT)).otherwise(weight)


def chained(earlier: Column, own: Column) -> Column:
    """The weight behind two gates: the product, which is a coin's unless one of them kept all.

    Two counted draws do not make a counted one (the second counted what the first had left), and a plain
    product can look like one: 3, a coin's weight at rate 1/3, times a counted weight is an odd multiple.
    """
    return F.when(earlier == 1.0, own).when(own == 1.0, earlier).otherwise(coin_column(earlier * own))
