"""Fixed rates for named groups, under a budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.core.groups import GroupStats
from headgate.core.load import Budget
from headgate.core.plan import Plan
from headgate.errors import BadArgument
from headgate.policies.policy import Grouping, Policy

__all__ = ["GroupRates", "label"]


def label(values: tuple[object, ...]) -> str:
    """How a group is shown to people and found in a `GroupStats`."""
    return " | ".join("null" if v is None else str(v) for v in values)


@dataclass(frozen=True)
class GroupRates(Policy):
    """People name groups and the most they want kept of each; the budget lowers all in proportion.

    ``GroupRates("level", {"DEBUG": 0.01})`` keeps one debug row in a hundred and, while there is no
    overload, everything else. Several columns: give tuples.

    >>> policy = GroupRates("level", {"DEBUG": 0.01})
    >>> policy.plan(Budget(0.5, "shedding"), GroupStats(keys={"DEBUG": 9})).rate_of(9)
    0.005
    """

    by: str | tuple[str, ...]
    rates: Mapping[object, float] = field(hash=False)
    default: float = 1.0

    def __post_init__(self) -> None:
        for group, rate in [*self.rates.items(), ("default", self.default)]:
            if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
                raise BadArgument(f"rate {rate!r} of group {group!r} is outside (0, 1]")
        width = len(self._columns)
        by_name: dict[str, object] = {}
        for group in self.rates:
            if len(self._values(group)) != width:
                raise BadArgument(
                    f"group {group!r} has {len(self._values(group))} values for the {width} "
                    f"columns {self._columns!r}: give one value for each column"
                )
            name = label(self._values(group))
            if name in by_name:
                raise BadArgument(
                    f"groups {by_name[name]!r} and {group!r} are both shown as {name!r}, and nobody "
                    "could tell them apart: leave one out, or group by a column whose values differ as "
                    "text"
                )
            by_name[name] = group

    @property
    def _columns(self) -> tuple[str, ...]:
        return (self.by,) if isinstance(self.by, str) else tuple(self.by)

    @staticmethod
    def _values(group: object) -> tuple[object, ...]:
        return group if isinstance(group, tuple) else (group,)

    @property
    def grouping(self) -> Grouping:
        """Groups by the values of the columns."""
        return Grouping(columns=self._columns, named=tuple(self._values(g) for g in self.rates))

    def plan(self, budget: Budget, groups: GroupStats) -> Plan:
        """Each named group at its rate, all in proportion to the budget."""
        exceptions: dict[int, float] = {}
        labels: dict[int, str] = {}
        for group, rate in self.rates.items():
            name = label(self._values(group))
            if name in groups.keys:
                exceptions[groups.keys[name]] = rate * budget.keep
                labels[groups.keys[name]] = name
        return Plan(self.default * budget.keep, exceptions, labels)
