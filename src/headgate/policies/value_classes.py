"""Shed by value class: nothing of a better class is shed while a row of a worse one remains."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.errors import BadArgument
from headgate.load import Budget, Concept
from headgate.plan import Plan
from headgate.policies.contract import Grouping, Policy

__all__ = ["ValueClasses"]


@dataclass(frozen=True)
class ValueClasses(Policy):
    """Classes are SQL predicates, the most valuable first; rows that match none come last.

    The budget is filled from the top: with 10 % of the rows in the class and a budget of 40 %, the
    class is kept whole and the rest at (0.4 - 0.1) / 0.9. Only when the budget is smaller than the
    class itself do its own rows yield, and by then no other row is kept.

    >>> policy = ValueClasses(("priority = 'high'",))
    >>> policy.plan(Budget(0.4, "shedding"), Concept(counts={1: 10}, total=100)).rate_of(1)
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

    def plan(self, budget: Budget, concept: Concept) -> Plan:
        """Fill the budget from the most valuable class down."""
        left = budget.keep
        rates: dict[int, float] = {}
        rest = 1.0
        for number in range(1, len(self.classes) + 1):
            share = concept.share(number)
            rates[number] = 1.0 if share <= left else left / share
            left = max(0.0, left - share)
            rest -= share
        if budget.keep >= 1.0:
            default = 1.0
        elif rest <= 0.0:
            # No such row was seen: whatever comes is worth less than the classes are.
            default = min(1.0, left) if left > 0 else 0.0
        else:
            default = min(1.0, left / rest)
        return Plan(default, rates, labels=dict(enumerate(self.classes, start=1)))
