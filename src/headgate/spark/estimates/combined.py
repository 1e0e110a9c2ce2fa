"""Estimates put together: the difference of two, and the total of many.

Ends are put together by the method of variance estimates recovery (G. Zou and A. Donner, *Construction
of confidence limits about effect measures*, Statistics in Medicine 27, 2008): the distances from the
estimates to their ends add up as standard errors do. So an interval that is longer on one side stays so.

Both hold for estimates whose draws have nothing to do with each other: of different groups, and of time
windows that do not overlap. Draws of different groups are independent with every gate, coins or counted,
unless ``identity=`` lets rows of several groups share one fate. Their errors then go together: a
difference is overstated, and a total must add up the distances themselves (``together=True``), which no
correlation can exceed.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from headgate.errors import BadArgument
from headgate.spark.estimates.moments import column_of, text_of

__all__ = ["difference", "total"]


def difference(later: str | Column, earlier: str | Column) -> Column:
    """How much an estimate rose: `later` minus `earlier`, each an estimate of this result.

    A struct of ``estimate``, ``stderr``, ``low`` and ``high``. It really rose where ``low > 0``, really
    fell where ``high < 0``; else the samples do not tell. Null where one of them has no error bar. The
    two must have no rows in common: windows that slide over each other are not to be compared so.
    """
    a, b = column_of(later, "later"), column_of(earlier, "earlier")
    value = a["estimate"] - b["estimate"]
    down = F.hypot(a["estimate"] - a["low"], b["high"] - b["estimate"])
    up = F.hypot(a["high"] - a["estimate"], b["estimate"] - b["low"])
    return F.struct(
        value.alias("estimate"),
        F.hypot(a["stderr"], b["stderr"]).alias("stderr"),
        (value - down).alias("low"),
        (value + up).alias("high"),
    ).alias(f"difference({text_of(later)}, {text_of(earlier)})")


def total(estimate: str | Column, *, together: bool = False) -> Column:
    """The total of the groups' sums or counts: an aggregate over estimates of different groups.

    ``by_route.groupBy("window").agg(hg.total("volume"))``: a struct of ``estimate``, ``stderr``,
    ``low``, ``high`` and ``groups``. Sharper than an estimate over all rows at once where a gate drew by
    group, since what groups differ by is no error then. Null error and ends if a group has none. A group
    that kept no row is in no total: with coins at a low rate, estimate over all rows instead.

    `together` is for groups of which rows were kept or shed together (a user's rows in several routes,
    behind ``identity="user"``): the largest error that such groups can have. `hg.together` without the
    groups among its `within` knows how far they go together, and gives a sharper one.
    """
    if not isinstance(together, bool):
        raise BadArgument(
            f"together={together!r}: True if rows of several groups share one fate, else False"
        )
    e = column_of(estimate, "estimate")
    value = e["estimate"]

    def added(distance: Column) -> Column:
        whole = F.count(distance) == F.count(value)
        sum_of = F.sum(distance) if together else F.sqrt(F.sum(distance * distance))
        return F.when(whole, sum_of)

    middle = F.sum(value)
    return F.struct(
        middle.alias("estimate"),
        added(e["stderr"]).alias("stderr"),
        (middle - added(value - e["low"])).alias("low"),
        (middle + added(e["high"] - value)).alias("high"),
        F.count(value).alias("groups"),
    ).alias(f"total({text_of(estimate)})")
