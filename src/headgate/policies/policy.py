"""`Policy`: which rows to shed. A policy knows groups and values; it knows no clocks."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NoReturn, Self

from headgate.core.groups import GroupStats
from headgate.core.load import Budget
from headgate.core.plan import Plan
from headgate.errors import BadArgument
from headgate.policies.drawing import Drawing

__all__ = ["OF_THE_GATE", "Grouping", "Policy"]

#: The gate's own arguments: how much and how, which people look for at a policy.
OF_THE_GATE = (
    "hold", "delay", "rate", "control", "keep", "controller", "arrival", "identity", "mode", "min_keep",
    "on_failure", "start", "seed", "weight", "on_reshape", "retention", "checkpoint", "inside",
    "first_rows", "rescue",
)  # fmt: skip


@dataclass(frozen=True)
class Grouping:
    """How rows fall into the groups that a plan's exceptions name.

    Either `columns` (a group's key is a 64-bit hash of their values), or `classes`: SQL predicates,
    the most valuable first; a row's key is 1 + the index of the first that holds, and 0 if none.

    >>> Grouping(columns=("route",)).trivial, Grouping().trivial
    (False, True)
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
    """Turns a budget into a plan. One method is required; stateless, so one object serves many gates.

    What a policy needs besides it declares, and nobody asks its type:

    - `grouping`: the groups that its plans tell apart, by columns or by predicates;
    - `counts_groups`: the heaviest of those groups in each batch;
    - `drawing`: rows are drawn by the groups of their own batch, by a rule of its own or by a level;
    - `meets`, `within_s`: in front of a join, the groups of the other stream.

    What it knows better than its gate it may say: `on_its_own` (how much is enough), `would_keep`
    (what a plan keeps where rates do not tell) and `remark` (what people should know of a batch).

    >>> class HalfOfWhatFits(Policy):
    ...     def plan(self, budget: Budget, groups: GroupStats) -> Plan:
    ...         return Plan(1.0 if budget.keep == 1.0 else 0.5 * budget.keep)
    >>> HalfOfWhatFits().plan(Budget(0.4, "shedding"), GroupStats()).default
    0.2
    """

    def __new__(cls, *given: object, **named: object) -> Self:
        """Refuse arguments by names that the policy does not have, and say whose they are.

        Here and not in `__init__`, which dataclasses write themselves. What is missing is Python's to
        tell: copies and pickles are made without arguments.
        """
        bare = cls.__init__ is object.__init__
        legal = {} if bare else dict(inspect.signature(cls.__init__).parameters)
        if bare and given:
            raise BadArgument(f"{cls.__name__}{given!r}: this policy takes no arguments")
        if not any(p.kind is p.VAR_KEYWORD for p in legal.values()):
            for name in named:
                if name not in legal:
                    raise BadArgument(_stray(cls.__name__, name, named[name], [*legal][1:]))
        return super().__new__(cls)

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Refused: a policy in the place of a gate (``DataFrame.transform``) would shed nothing."""
        raise BadArgument(
            f"{type(self).__name__}(...) is a policy: it says which rows to shed, and a gate sheds "
            "them; write .transform(hg.gate('name', rate=0.1, policy=...)), or give the gate hold= and "
            "control= instead of rate="
        )

    @abstractmethod
    def plan(self, budget: Budget, groups: GroupStats) -> Plan:
        """The plan that keeps about ``budget.keep`` of the rows, those worth most first."""

    @property
    def grouping(self) -> Grouping:
        """The groups that this policy tells apart; by default none."""
        return Grouping()

    @property
    def meets(self) -> str | None:
        """In front of a join: the gate of the other stream, whose groups it wants to know; else None."""
        return None

    @property
    def within_s(self) -> float | None:
        """In front of a join: how many seconds rows of the other stream wait in it; else None."""
        return None

    @property
    def drawing(self) -> Drawing | None:
        """How rows are drawn by the groups of their own batch; None where the plan's rates decide."""
        return None

    @property
    def counts_groups(self) -> bool:
        """Whether it wants to know the heaviest groups of each batch, by `Grouping.columns`."""
        return False

    def on_its_own(self) -> Policy | None:
        """The policy where nobody says how much to keep, if it knows how much is enough; else None."""
        return None

    def would_keep(self, plan: Plan, groups: GroupStats) -> float | None:
        """The share of the groups' rows that a plan keeps, where its rates do not tell; else None."""
        return None

    def remark(self, plan: Plan, groups: GroupStats) -> str:
        """What people should know of a batch that met this plan; by default nothing."""
        return ""


def _stray(policy: str, name: str, value: object, legal: list[str]) -> str:
    problem = f"{policy}({name}={value!r}): there is no argument {name!r}"
    if name in OF_THE_GATE:
        beside = "" if name == "keep" else f", policy={policy}(...)"  # keep= is a policy itself
        return (
            f"{problem}; a policy says which rows to shed, and {name}= is the gate's: "
            f"hg.gate('name', {name}={value!r}{beside})"
        )
    close = [f"; did you mean {match}=?" for match in get_close_matches(name, legal, 1)]
    return f"{problem}, it takes {', '.join(legal) or 'none'}{''.join(close)}"
