"""How many rows fit: the aim of a batch that is cut, and the largest batch that runs whole."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from headgate.control.arrivals import ArrivalRate
from headgate.control.batch_cost import BatchCost
from headgate.control.margin import Margin

__all__ = ["WhatFits", "WholeRule"]

_HALVINGS = 10  # to a tenth of a per cent
#: By how much a price that was never told apart from the others may be too high.
_MANY = 100.0


@dataclass(frozen=True)
class WholeRule:
    """When batches run whole without a margin: while the load can be sustained.

    `enter` and `leave` are shares of the capacity, that is of the rows a second with which whole batches
    settle at the target.
    """

    #: A load below this share can be sustained; above it batches are cut to the aim. The fit's error
    #: is some 2 %, so a load at nine tenths of the capacity never gets there.
    enter: float = 0.95
    #: Once batches are cut, the load must fall below this one: at the edge it does not flap.
    leave: float = 0.93
    #: The longest that a whole batch may be expected to take after one that was late by chance; a share
    #: of the target.
    longest: float = 1.3
    #: Standard deviations of the fit by which a load must be too high before the first batch is cut.
    proof: float = 1.645
    #: Batches in which sizes that were never seen are trusted: there are no others yet.
    learning: int = 8


@dataclass(frozen=True)
class WhatFits:
    """Answers from what is known after a batch; `cutting` says whether that batch had to be cut."""

    cost: BatchCost
    margin: Margin
    rule: WholeRule
    cutting: bool
    #: Whether one of the last two batches took much longer than the target.
    late: bool = False

    def cut(self, target: float, arrived: float) -> tuple[float, float]:
        """The seconds to aim at for a batch of so many rows that has to be cut, and the rows it keeps.

        The most rows are sought that end inside the target often enough, given the noise and how far
        prices may be off for just so many rows. So where only few rows were ever kept, a batch keeps
        some times as many, and the next one knows more: there is no need to search.
        """
        most = max(1.0, self.cost.rows_within(target, arrived))
        kept = _largest(most, lambda rows: self.late_s(rows, max(rows, arrived)) <= target)
        if kept > 0.0:
            return self.cost.predict(kept, max(kept, arrived)), kept
        # Where nothing can be kept in time, the aim is what the noise alone leaves.
        return target * self.margin.aim(self.cost.noise, 0.0, 0.0), 0.0

    def whole(self, target: float) -> float:
        """The largest batch that ends inside the target often enough when it is kept whole."""
        most = self.cost.rows_within(target)
        return _largest(most, lambda rows: self.late_s(rows, rows) <= target)

    def late_s(self, kept: float, arrived: float) -> float:
        """What a batch takes that is late by just as much as the wanted share of batches may be."""
        expected = self.cost.predict(kept, arrived)
        part = self.cost.per_kept_s * kept / max(expected, 1e-9)
        return expected / self.margin.aim(self.cost.noise, self.cost.doubt(kept, arrived), part)

    def whole_while_sustained(self, lasting: float, arrivals: ArrivalRate, late_s: float) -> float:
        """Rows that run whole because the load can be sustained; 0 where it cannot.

        It can where whole batches would settle below the target at the rate at which rows arrive: a
        batch that takes the target collects for as long, or for the trigger's interval, and if it
        takes longer than that, batches settle above the target or nowhere. No batch's own noise is in
        it. After a batch that was late by chance (it took `late_s`) the next one has collected for
        longer; it is allowed as much more, up to a bound.
        """
        rule = self.rule
        fitting = (rule.leave if self.cutting else rule.enter) * self.surely_within(lasting)
        if arrivals.lasting * max(lasting, arrivals.interval_s) > fitting:
            return 0.0
        if self.cutting or late_s <= lasting:
            return fitting
        longest = self.cost.rows_within(rule.longest * lasting)
        return max(fitting, min(late_s / lasting * fitting, longest))

    def surely_within(self, seconds: float) -> float:
        """Rows of a whole batch that takes so long.

        Overload has to be proved before batches are cut, because one long batch proves nothing: until
        then the fit's doubt counts for the rows. But sizes that no batch has shown are not trusted once
        there were some batches, or one had to be cut or was late.
        """
        cost, rule = self.cost, self.rule
        learning = cost.samples <= rule.learning and not (self.cutting or self.late)

        def holds(rows: float) -> bool:
            doubt = cost.doubt(rows, rows)
            unseen = 0.0 if learning else min(10.0, max(0.0, doubt - cost.noise))
            proof = 0.0 if self.cutting else min(rule.proof * doubt, math.log(rule.longest))
            return cost.predict(rows, rows) * math.exp(unseen - proof) <= seconds

        return _largest(cost.rows_within(rule.longest * seconds), holds)

    def surely_too_long(self, seconds: float) -> float:
        """Rows of a whole batch above which it takes longer, by the lowest prices that can be."""

        def may_hold(rows: float) -> bool:
            doubt = self.rule.proof * self.cost.doubt(rows, rows)
            return self.cost.predict(rows, rows) * max(0.0, 1.0 - doubt) <= seconds

        return _largest(_MANY * max(1.0, self.cost.rows_within(seconds)), may_hold)


def _largest(most: float, holds: Callable[[float], bool]) -> float:
    """The largest number of rows up to `most` for which something holds that ends somewhere."""
    if holds(most):
        return most
    # By a price next to nothing `most` is any number: what holds is sought on the logarithm first.
    low = 0.5 * most
    while not holds(low):
        low *= 0.5
        if low < 1.0:
            return 0.0
    high = 2.0 * low
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
