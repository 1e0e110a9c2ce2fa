"""`Offer`: what a plan is made of once the size of its batch is known; published beside the plan.

A control loop decides between batches, and does not know how large the next one will be; whoever pins
the plan of a batch does. So the loop publishes a plan for the size that it expects, and beside it what
that plan was made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from headgate.core.batch_size import Sizing
from headgate.core.groups import GroupStats, Strata
from headgate.core.load import Budget
from headgate.core.row_budget import RowBudget
from headgate.core.row_sic import RowSic
from headgate.errors import SnapshotError

__all__ = ["Offer", "Offered"]


class Offered(Protocol):
    """What is published beside a plan: a gate's `Offer`, or another mechanism's own."""

    def to_json(self) -> dict[str, Any]:
        """As JSON."""


@dataclass(frozen=True)
class Offer:
    """A budget for a batch of any size, what is known of groups, and what sizes mean in rows."""

    budget: Budget
    groups: GroupStats
    sizing: Sizing = field(default_factory=Sizing)
    #: The share of the rows that a whole budget would keep: below 1 where a policy has maxima of its
    #: own, and then the budget is for those rows alone.
    wanted: float = 1.0
    #: The policy that `groups` was counted for, as text; to another one it says nothing.
    policy: str = ""
    #: Whether plans are cut at all: in monitor mode only the size is told.
    cuts: bool = True

    @property
    def by_time(self) -> bool:
        """Whether the time that a batch covers changes what it gets."""
        fits = self.budget.fits
        return self.budget.row_sic is not None or (fits is not None and fits.grant is not None)

    def at(self, rows: float, covers_s: float | None = None) -> Budget:
        """The budget for a batch of so many rows, that covers so many seconds where that is known."""
        # A batch without rows runs whole; one with rows is none, however few of them are wanted.
        wanted = max(1, round(rows * self.wanted)) if rows > 0 else 0
        budget = self.budget.at(wanted, covers_s)
        if self.budget.row_sic is None or rows <= 0:
            return budget
        # All rows that come are the source's, whatever a policy would never keep.
        return replace(budget, sic=self.budget.row_sic.at(rows, covers_s))

    def to_json(self) -> dict[str, Any]:
        """As a JSON object, for the plan's file."""
        return {
            "budget": _budget_to_json(self.budget),
            "groups": _groups_to_json(self.groups),
            "sizing": self.sizing.to_json(),
            "wanted": self.wanted,
            "policy": self.policy,
            "cuts": self.cuts,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Offer:
        """The offer that `to_json` wrote."""
        try:
            return cls(
                _budget_from_json(value["budget"]),
                _groups_from_json(value["groups"]),
                Sizing.from_json(value["sizing"]),
                float(value["wanted"]),
                str(value["policy"]),
                bool(value["cuts"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise SnapshotError(f"what was published is no offer ({error!r})") from error


def _budget_to_json(budget: Budget) -> dict[str, Any]:
    fits = None if budget.fits is None else budget.fits.to_json()
    value = {"keep": budget.keep, "state": budget.state, "why": budget.why, "sic": budget.sic}
    row_sic = {} if budget.row_sic is None else {"row_sic": budget.row_sic.to_json()}
    return {**value, "fits": fits, **row_sic}


def _budget_from_json(value: Mapping[str, Any]) -> Budget:
    fits, sic, row_sic = value["fits"], value["sic"], value.get("row_sic")
    return Budget(
        keep=float(value["keep"]),
        state=str(value["state"]),
        why=str(value["why"]),
        sic=None if sic is None else float(sic),
        fits=None if fits is None else RowBudget.from_json(fits),
        row_sic=None if row_sic is None else RowSic.from_json(row_sic),
    )


def _groups_to_json(groups: GroupStats) -> dict[str, Any]:
    strata = groups.strata
    return {
        "counts": list(groups.counts.items()),
        "total": groups.total,
        "keys": dict(groups.keys),
        "strata": None if strata is None else [strata.count, list(strata.curve), strata.deviation],
        "span_us": groups.span_us,
        "present": groups.present,
    }


def _groups_from_json(value: Mapping[str, Any]) -> GroupStats:
    strata = value["strata"]
    if strata is not None:
        count, curve, deviation = strata
        strata = Strata(int(count), tuple(float(rows) for rows in curve), float(deviation))
    return GroupStats(
        counts={int(key): int(rows) for key, rows in value["counts"]},
        total=int(value["total"]),
        keys={str(label): int(key) for label, key in value["keys"].items()},
        strata=strata,
        span_us=value["span_us"],
        present=value["present"],
    )
