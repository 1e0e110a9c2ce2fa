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

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headgate.errors import BadArgument
from headgate.policies.by_group.counted import MOST, UNIT

__all__ = ["GATES", "WEIGHT", "chained", "coin_column", "counted_column", "gates_of", "is_counted"]

#: The column that a gate adds.
WEIGHT = "_weight"
#: Metadata of the weight column: the gates and guards that its rows have passed.
GATES = "headgate.gates"

_HALF = 2.0**20  # weight * _HALF is a whole number and a half, if the weight is counted
_NEXT = 1.0 + 2.0**-52


def counted_column(weight: Column) -> Column:
    """The same as `headgate.policies.by_group.counted.counted`, as a native column."""
    w = weight.cast("double")
    odd = (F.lit(2.0) * F.floor(_halves(w)) + F.lit(1.0)) * F.lit(UNIT)
    return F.when((w > 1.0) & (w < MOST), odd).otherwise(w)


def is_counted(weight: Column) -> Column:
    """Whether a weight is a counted one: true or false."""
    halves = _halves(weight.cast("double"))
    return halves - F.floor(halves) == F.lit(0.5)


def _halves(weight: Column) -> Column:
    # Bounded, as an overflow in `floor` ends a query in ANSI mode. The bound is even, so not counted.
    return F.least(weight, F.lit(MOST)) * F.lit(_HALF)


def coin_column(weight: Column) -> Column:
    """A coin's weight that is never taken for a counted one: such as look like one move by a bit."""
    return F.when(is_counted(weight), weight * F.lit(_NEXT)).otherwise(weight)


def chained(earlier: Column, own: Column) -> Column:
    """The weight behind two gates: the product, which is a coin's unless one of them kept all.

    Two counted draws do not make a counted one (the second counted what the first had left), and a plain
    product can look like one: 3, a coin's weight at rate 1/3, times a counted weight is an odd multiple.
    A row without an earlier weight met no gate, and stands for itself.
    """
    earlier = F.coalesce(earlier, F.lit(1.0))
    return F.when(earlier == 1.0, own).when(own == 1.0, earlier).otherwise(coin_column(earlier * own))


def gates_of(frame: DataFrame) -> list[str]:
    """Names of the gates that this DataFrame has passed, from the weight column's metadata."""
    for field in frame.schema.fields:
        if field.name == WEIGHT:
            if GATES not in field.metadata:
                raise BadArgument(
                    f"the DataFrame has a column {WEIGHT!r} of its own: rename it, the gate adds "
                    "a column of that name"
                )
            return list(field.metadata[GATES])
    return []
