"""Shed by value class: a better one yields only when a sample is all that is kept of the worse ones."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.groups import GroupStats
from headgate.core.load import Budget
from headgate.core.plan import Plan
from headgate.errors import BadArgument
from headgate.policies.policy import Grouping, Policy

__all__ = ["ValueClasses"]

#: The share of a budget that the samples of all classes take at most.
_SAMPLES = 0.1


@dataclass(frozen=True)
class ValueClasses(Policy):
    """Classes are SQL predicates, the most valuable first; rows that match none come last.

    The budget is filled from the top: with 10 % of the rows in the class and a budget of 40 %, the
    class is kept whole and the rest at (0.4 - 0.1) / 0.9. Only when the budget is smaller than the
    class itself do its own rows yield.

    A class of which no row is kept has no row to carry its weight, and a `sum(_weight)` over all rows
    would be too small without a word. So of every class a `sample` is kept, a share of its rows, for
    which all of them together take a tenth of the budget at most; 0 keeps none.

    >>> policy = ValueClasses(("priority = 'high'",))
    >>> policy.plan(Budget(0.4, "shedding"), GroupStats(counts={1: 10}, total=100)).rate_of(1)
    1.0
    >>> plan = policy.plan(Budget(0.1, "shedding"), GroupStats(counts={1: 10}, total=100))
    >>> round(plan.rate_of(1), 3), round(plan.rate_of(0), 3)  # 9.1 rows of the class, 0.9 others
    (0.91, 0.01)
    """

    classes: tuple[str, ...]
    sample: float = 0.01

    def __post_init__(self) -> None:
        if not self.classes or not all(isinstance(c, str) and c.strip() for c in self.classes):
            raise BadArgument(
                f"value classes {self.classes!r}: give at least one SQL predicate, "
                "for instance \"priority = 'high'\""
            )
        if isinstance(self.sample, bool) or not 0.0 <= self.sample <= 1.0:
            raise BadArgument(
                f"sample={self.sample!r} is outside [0, 1]: it is the share of a class's rows that is "
                "kept in any case, so that weights stand for all rows"
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
        sample = min(self.sample, _SAMPLES * budget.keep)
        left = (budget.keep - sample) * groups.total
        rest = groups.total
        rates: dict[int, float] = {}
        for number in numbers:
            rows = groups.counts.get(number, 0)
            others = (1.0 - sample) * rows
            rates[number] = 1.0 if others <= left else sample + left / rows
            left = max(0.0, left - others)
            rest -= rows
        # Where no other row was seen, what is left over is for those that may come.
        default = min(1.0, sample + left / (rest if rest > 0 else groups.total))
        return Plan(default, rates, labels)
