"""Shed by value class: nothing of a better class is shed while a row of a worse one remains."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.groups import GroupStats
from headgate.core.load import Budget
from headgate.core.plan import Plan
from headgate.errors import BadArgument
from headgate.policies.policy import Grouping, Policy

__all__ = ["ValueClasses"]


@dataclass(frozen=True)
class ValueClasses(Policy):
    """Classes are SQL predicates, the most valuable first; rows that match none come last.

    The budget is filled from the top: with 10 % of the rows in the class and a budget of 40 %, the
    class is kept whole and the rest at (0.4 - 0.1) / 0.9. Only when the budget is smaller than the
    class itself do its own rows yield, and by then no other row is kept.

    >>> policy = ValueClasses(("priority = 'high'",))
    >>> policy.plan(Budget(0.4, "shedding"), GroupStats(counts={1: 10}, total=100)).rate_of(1)
    1.0
    """

    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.classes or not all(isinstance(c, str) and c.strip() for c in self.classes):
            raise BadArgument(
                f"value classes {self.classes!r}: give at least one SQL predicate, "
                "for instance \"priority = 'high'\""
            )

    @property
    def grouping(self) -> Grouping:
        """One group for each class, numbered from 1; 0 is everything else."""
        return Grouping(classes=self.classes)

    def plan(self, budget: Budget, groups: GroupStats) -> Plan:
        """Fill the budget from the most valuable class down; in rows, so that nothing is rounded."""
        numbers = range(1, len(self.classes) + 1)
        labels = dict(enumerate(self.classes, start=1))
        if budget.keep >= 1.0 or groups.total <= 0:
            return Plan(min(1.0, budget.keep), dict.fromkeys(numbers, 1.0), labels)
        left = budget.keep * groups.total
        rest = groups.total
        rates: dict[int, float] = {}
        for number in numbers:
            rows = groups.counts.get(number, 0)
            rates[number] = 1.0 if rows <= left else left / rows
            left = max(0.0, left - rows)
            rest -= rows
        # Where no other row was seen, what is left over is for those that may come.
        default = min(1.0, left / (rest if rest > 0 else groups.total))
        return Plan(default, rates, labels)
