"""`Policy`: which rows to shed. A policy knows groups and values; it knows no clocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from headgate.load import Budget, Concept
from headgate.plan import Plan

__all__ = ["Grouping", "Policy"]


@dataclass(frozen=True)
class Grouping:
    """How rows fall into the groups that a plan's exceptions name.

    Either `columns` (a group's key is a 64-bit hash of their values), or `classes`: SQL predicates,
    the most valuable first; a row's key is 1 + the index of the first that holds, and 0 if none.
    """

    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    #: Groups that people named, as values of `columns`; the gate looks their keys up.
    named: tuple[tuple[object, ...], ...] = ()

    @property
    def trivial(self) -> bool:
        """Whether all rows are in one group."""
        return not self.columns and not self.classes


class Policy(ABC):
    """Turns a budget into a plan. One method is required; stateless, so one object serves many gates."""

    @abstractmethod
    def plan(self, budget: Budget, concept: Concept) -> Plan:
        """The plan that keeps about ``budget.keep`` of the rows, those worth most first."""

    @property
    def grouping(self) -> Grouping:
        """The groups that this policy tells apart; by default none."""
        return Grouping()

    def would_keep(self, plan: Plan, concept: Concept) -> float | None:
        """The share of the concept's rows that a plan keeps, where its rates do not tell; else None."""
        return None

    def remark(self, plan: Plan, concept: Concept) -> str:
        """What people should know of a batch that met this plan; by default nothing."""
        return ""
