"""Shed every row with the same probability."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.groups import GroupStats
from headgate.core.load import Budget
from headgate.core.plan import Plan
from headgate.policies.policy import Policy

__all__ = ["Uniform"]


@dataclass(frozen=True)
class Uniform(Policy):
    """Every row is worth the same: one rate for all. The baseline that other policies must beat.

    >>> Uniform().plan(Budget(0.25, "shedding"), GroupStats()).default
    0.25
    """

    def plan(self, budget: Budget, groups: GroupStats) -> Plan:
        """One default rate, no exceptions."""
        return Plan(budget.keep)
