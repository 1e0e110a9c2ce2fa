"""The plan in force: which groups, which rates, since when and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.core.plan import Plan
from headgate.errors import HeadgateError
from headgate.store.ledger.record import Record
from headgate.view.facts import JobFacts
from headgate.view.wording import count_text, share_text

__all__ = ["GroupRate", "PlanWords", "plan_words"]

#: Groups that are listed; the rest is counted.
_MOST_GROUPS = 12

_ORIGINS = {
    "plan": "made by the controller and the policy",
    "start": "the plan of a first batch, before anything was measured",
    "fail-open": "failed open: the plan could not be had, and every row is kept",
    "fail-closed": "failed closed: the plan could not be had, and only min keep is kept",
    "unpinned": "the batch had no pin",
    "lost-plan": "the batch ran before, and what it met then cannot be known any more",
    "rescued": "the runs before did not end the batch, and it was run with fewer rows",
    "guard": "a guard has no plan: its tasks decide by the clock",
}


@dataclass(frozen=True)
class GroupRate:
    """A group that the plan lists, and the share of it that is kept."""

    name: str
    rate: float
    #: Rows of the group in the last batch, where its policy counts them.
    rows: int | None = None


@dataclass(frozen=True)
class PlanWords:
    """What the last batch met, and what the next one will."""

    #: In a sentence: what is kept.
    sentence: str
    #: Why there is this plan: its origin, in words.
    origin: str
    default: float
    groups: tuple[GroupRate, ...] = ()
    more_groups: int = 0
    #: The first of the latest batches that met exactly this plan, and when it began.
    since_batch: int | None = None
    since_at: float | None = None
    #: The next plan's default rate, after which batch and when it was published.
    next_default: float | None = None
    next_after: int | None = None
    next_at: float | None = None


def plan_words(facts: JobFacts) -> PlanWords | None:
    """None for a guard, and where neither a batch nor a plan is there."""
    if facts.kind == "guard":
        return None
    value = facts.published or {}
    try:
        upcoming = Plan.from_json(value["plan"]) if "plan" in value else None
    except HeadgateError:  # of another version, or no plan at all
        upcoming = None
    last = facts.records[-1] if facts.records else None
    plan = last.plan if last is not None else upcoming
    if plan is None:
        return None
    counts = {} if last is None else last.found.groups
    groups = sorted(plan.exceptions.items(), key=lambda item: (-counts.get(str(item[0]), 0), item[0]))
    began = _first_with(facts.records)
    return PlanWords(
        sentence=_sentence(plan, facts.kind),
        origin=_ORIGINS.get("start" if last is None else last.origin, last.origin if last else ""),
        default=plan.default,
        groups=tuple(
            GroupRate(plan.labels.get(key) or f"group {key}", rate, counts.get(str(key)))
            for key, rate in groups[:_MOST_GROUPS]
        ),
        more_groups=max(0, len(groups) - _MOST_GROUPS),
        since_batch=None if began is None else began.batch,
        since_at=None if began is None else began.started_at,
        next_default=None if upcoming is None else upcoming.default,
        next_after=None if upcoming is None else int(value.get("after", -1)),
        next_at=None if upcoming is None else float(value.get("at", 0.0)),
    )


def _sentence(plan: Plan, kind: str) -> str:
    if plan.keeps_everything:
        return "Every row is kept." if kind == "gate" else "Every row is taken in and compared."
    if plan.work is not None:
        units = count_text(plan.work.units)
        rows = "" if plan.rows is None else " Rows that are expected to match least are left out."
        return f"Each task may spend {units} units on comparing; the best blocks come first.{rows}"
    if plan.level is not None:
        return (
            f"Each group of the batch keeps rows by its own size, at level {plan.level:.3g}; "
            f"{share_text(plan.default)} of the rows in all."
        )
    if kind == "join":
        return f"{share_text(plan.default)} of the comparisons of a full join are made, the best first."
    but = "; the groups below have their own rates" if plan.exceptions else ""
    return f"{share_text(plan.default)} of the rows are kept{but}."


def _first_with(records: Sequence[Record]) -> Record | None:
    """The first of the latest batches whose plan keeps exactly what the last one's does."""
    if not records:
        return None
    keeps, first = _keeps(records[-1].plan), records[-1]
    for record in reversed(records):
        if _keeps(record.plan) != keeps:
            break
        first = record
    return first


def _keeps(plan: Plan) -> tuple[object, ...]:
    """What the plan's digest is made of; a look compares hundreds, and a digest takes a hash of each."""
    return plan.default, plan.exceptions, plan.draw, plan.work, plan.rows
