"""How many rows of each group to keep, given the groups' sizes and a budget in rows.

CoD (cod-2018, section VI-C2) asks for "a proportional representation of each group", which is what
uniform sampling keeps on average, and promises that no group goes missing, which no proportional share
does. Five rules, one solution: a group's quota is its share of the budget, never below `least` rows and
never above the rows that it has; the multiplier is found so that the quotas add up to the budget.

The default is *senate* (equal caps): measured, it has the least error of the groups' results or ties
with the least, at every budget and on every data set (``headgate bench cod``). *Congress* and *sqrt* are
for those who also want the total over all groups; *neyman* is for that total alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument

__all__ = ["OVERFLOWS", "RULES", "Allocation", "allocate", "known_spreads", "water_fill"]

#: How a budget is divided among groups.
RULES = ("senate", "proportional", "congress", "sqrt", "neyman")
#: Which groups go without a row when there are more groups than budget: none (it is exceeded), those
#: with the fewest rows, or any.
OVERFLOWS = ("exceed", "smallest", "random")

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Allocation:
    """The rows to keep of each group, and what that means for the budget."""

    #: Rows that each group has, and rows to keep of each.
    counts: Counts
    quotas: Counts
    #: Rows that were asked for.
    asked: float

    @property
    def kept(self) -> int:
        """Rows that will really be kept."""
        return int(self.quotas.sum())

    @property
    def kept_share(self) -> float:
        """The share of the rows that will really be kept."""
        total = int(self.counts.sum())
        return self.kept / total if total else 1.0

    @property
    def one_row_each(self) -> float:
        """The least share without which groups must go missing: one row of each."""
        total = int(self.counts.sum())
        return int((self.counts > 0).sum()) / total if total else 0.0

    @property
    def chance(self) -> float:
        """The share of the groups that keep a row."""
        groups = int((self.counts > 0).sum())
        return 1.0 - len(self.yielded) / groups if groups else 1.0

    @property
    def exceeded(self) -> bool:
        """Whether the groups took more than was asked for."""
        return self.kept > math.ceil(self.asked)

    def __str__(self) -> str:
        more = ", budget exceeded" if self.exceeded else ""
        return (
            f"{len(self.counts)} groups, {self.kept_share:.2%} kept of {self.asked:.0f} rows asked for"
            f"{more}, {len(self.yielded)} groups without a row, a row of each is {self.one_row_each:.2%}"
        )

    @property
    def yielded(self) -> npt.NDArray[np.intp]:
        """The groups that have rows and keep none, by index."""
        return np.flatnonzero((self.counts > 0) & (self.quotas == 0))


def allocate(
    counts: npt.ArrayLike,
    budget: float,
    rule: str = "senate",
    *,
    least: int = 1,
    deviations: npt.ArrayLike | None = None,
    overflow: str = "exceed",
    order: npt.ArrayLike | None = None,
) -> Allocation:
    """Quotas for groups of these sizes that add up to `budget` rows, as far as groups and rows allow.

    `deviations` are the groups' standard deviations, which *neyman* needs. `order` breaks ties, lowest
    first (a hash of the group, so that no group is favoured for good); by default the groups' order.

    >>> allocate([1000, 100, 3], 20).quotas.tolist()
    [9, 8, 3]
    >>> allocate([1000, 100, 3], 20, "proportional").quotas.tolist()
    [17, 2, 1]
    >>> more = allocate([50, 40, 2, 1], 2)
    >>> more.quotas.tolist(), more.exceeded
    ([1, 1, 1, 1], True)
    >>> allocate([50, 40, 2, 1], 2, overflow="smallest").yielded.tolist()
    [2, 3]
    """
    if rule not in RULES:
        raise BadArgument(f"allocation {rule!r} is not one of {', '.join(map(repr, RULES))}")
    if overflow not in OVERFLOWS:
        raise BadArgument(f"overflow={overflow!r} is not one of {', '.join(map(repr, OVERFLOWS))}")
    if least < 0 or not budget >= 0:
        raise BadArgument(f"budget={budget!r}, least={least!r}: both are at least 0")
    sizes = np.asarray(counts, np.int64)
    ties = np.arange(len(sizes)) if order is None else np.asarray(order)
    asked = min(float(budget), float(sizes.sum()))
    lowest = np.minimum(sizes, least)
    if lowest.sum() > asked:
        quotas = lowest
        if overflow != "exceed":
            quotas = _hard(sizes, int(asked), overflow, ties)
        return Allocation(sizes, quotas, budget)
    shares = _shares(sizes, rule, deviations)
    quotas = water_fill(shares, lowest, sizes, asked)
    return Allocation(sizes, _whole(quotas, sizes, asked, ties), budget)


def _shares(sizes: Counts, rule: str, deviations: npt.ArrayLike | None) -> Floats:
    """What a group's quota is proportional to, between its least and its most."""
    there = sizes > 0
    if rule == "senate":
        return there.astype(np.float64)
    if rule == "proportional":
        return sizes.astype(np.float64)
    if rule == "sqrt":
        return np.sqrt(sizes, dtype=np.float64)
    if rule == "congress":
        # The greater of what the house (by size) and the senate (alike) would give.
        groups, total = max(1, int(there.sum())), max(1, int(sizes.sum()))
        return np.where(there, np.maximum(sizes / total, 1.0 / groups), 0.0)
    if deviations is None:
        raise BadArgument("allocation 'neyman' needs the groups' standard deviations")
    spread = known_spreads(deviations)
    return sizes * spread if (sizes * spread > 0).any() else sizes.astype(np.float64)


def known_spreads(deviations: npt.ArrayLike) -> Floats:
    """Standard deviations to weigh groups by: 0, as of a group of equal values, where none is known.

    An endless one would take all rows from the other groups, and make no number of their sum.

    >>> known_spreads([2.0, float("inf"), float("nan")]).tolist()
    [2.0, 0.0, 0.0]
    """
    return np.nan_to_num(np.asarray(deviations, np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def water_fill(shares: Floats, lowest: Counts, most: Counts, budget: float) -> Floats:
    """Water-filling: clip(level * share, lowest, most), at the level where they add up to the budget."""

    def at(level: float) -> Floats:
        return np.asarray(np.clip(level * shares, lowest, most))

    open_ = shares > 0
    if not open_.any() or budget >= most.sum():
        return most.astype(np.float64) if budget >= most.sum() else lowest.astype(np.float64)
    low, high = 0.0, float((most[open_] / shares[open_]).max())
    if at(high).sum() < budget:  # groups without a share take what is left
        full = np.where(open_, most, 0).astype(np.float64)
        closed = (~open_).astype(np.float64)
        others = water_fill(
            closed, np.where(open_, 0, lowest), np.where(open_, 0, most), budget - full.sum()
        )
        return full + others
    for _ in range(64):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if at(middle).sum() < budget else (low, middle)
    return at(high)


def _whole(quotas: Floats, most: Counts, budget: float, ties: npt.NDArray[np.generic]) -> Counts:
    """Whole rows with the same sum: the largest remainders are rounded up."""
    down = np.floor(quotas + 1e-9).astype(np.int64)
    missing = round(budget) - int(down.sum())
    if missing > 0:
        rest = np.where(down < most, np.round(quotas - down, 9), -1.0)
        up = np.lexsort((ties, -rest))[:missing]
        down[up[rest[up] >= 0.0]] += 1
    return down


def _hard(sizes: Counts, budget: int, overflow: str, ties: npt.NDArray[np.generic]) -> Counts:
    """One row each for as many groups as the budget has rows."""
    keys = (ties, -sizes) if overflow == "smallest" else (ties, sizes == 0)
    quotas = np.zeros_like(sizes)
    quotas[np.lexsort(keys)[: min(budget, int((sizes > 0).sum()))]] = 1
    return quotas
