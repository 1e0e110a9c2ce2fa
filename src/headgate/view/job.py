"""`Job`: all that people are told of one gate, guard or join in one query."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headgate.store.ledger.record import Record
from headgate.view.facts import JobFacts, measured_s
from headgate.view.insides import Insides, insides
from headgate.view.plan_words import PlanWords, plan_words
from headgate.view.state_words import StateWords, state_words
from headgate.view.verdict import JUDGED, Verdict, inside_share, judge

__all__ = ["Books", "Job", "describe"]


@dataclass(frozen=True)
class Books:
    """The ledger's balance over all time, and of the records that were looked at."""

    batches: int
    arrived: int
    kept: int
    shed: int
    #: Rows that were shed, are not repaid and have their records still: `hg.repay` can read them again
    #: for as long as the source has them.
    can_be_repaid: int
    #: Shed rows that `hg.repay` has handed on, of batches that still have records.
    repaid: int
    #: The first batch that still has a record.
    records_from: int
    #: Of the records looked at: batches, those that do not add up, those that a witness contradicts.
    looked_at: int
    unbalanced: int
    doubtful: int

    @property
    def balanced(self) -> bool:
        """Whether the sums and all that was looked at add up."""
        return self.arrived == self.kept + self.shed and not self.unbalanced and not self.doubtful


@dataclass(frozen=True)
class Job:
    """One gate, guard or join in one query, with a verdict."""

    facts: JobFacts
    verdict: Verdict
    state: StateWords
    plan: PlanWords | None
    insides: Insides | None
    books: Books
    #: Rows a second that come in, over the latest batches; None before there are two.
    arrived_per_s: float | None
    #: What the target is about, in the last batch.
    measured_s: float | None
    #: The share of the latest batches inside the target, and of their rows that was kept.
    inside: float | None
    kept_share: float | None
    #: How far the rows that were expected were off, over the latest batches, as a share.
    size_error: float | None
    #: One standard error of a count over all rows of the last batch, as a share of the count.
    count_error: float | None

    @property
    def name(self) -> str:
        """The gate's name."""
        return self.facts.gate

    @property
    def key(self) -> str:
        """Names the job among all, also in an address of the page."""
        return f"{self.facts.gate}.{self.facts.query[:8]}"

    @property
    def last(self) -> Record | None:
        """The record of the last batch; None before the first."""
        return self.facts.records[-1] if self.facts.records else None

    @property
    def unit(self) -> str:
        """What is counted: a join sheds comparisons."""
        return "comparisons" if self.facts.kind == "join" else "rows"


def describe(facts: JobFacts, now: float) -> Job:
    """The job as of now."""
    state = state_words(facts.records, facts.asked)
    recent = facts.records[-JUDGED:]
    arrived = sum(r.arrived for r in recent)
    last = facts.records[-1] if facts.records else None
    return Job(
        facts=facts,
        verdict=judge(facts, state, now),
        state=state,
        plan=plan_words(facts),
        insides=insides(facts),
        books=_books(facts),
        arrived_per_s=_per_second(recent),
        measured_s=None if last is None else measured_s(last, facts.asked.measure),
        inside=inside_share(recent, facts.asked),
        kept_share=sum(r.kept for r in recent) / arrived if arrived else None,
        size_error=_size_error(recent),
        count_error=None if last is None else _count_error(last),
    )


def _books(facts: JobFacts) -> Books:
    every, gone = facts.totals.all, facts.totals.expired
    return Books(
        batches=every.batches,
        arrived=every.arrived,
        kept=every.kept,
        shed=every.shed,
        can_be_repaid=0 if facts.kind != "gate" else max(0, every.shed - gone.shed - facts.repaid),
        repaid=facts.repaid,
        records_from=facts.totals.begins,
        looked_at=len(facts.records),
        unbalanced=sum(not r.balanced for r in facts.records),
        doubtful=sum(bool(r.evidence.doubt) for r in facts.records),
    )


def _per_second(records: tuple[Record, ...]) -> float | None:
    """From the start of the first of these batches to that of the last, and the rows between."""
    if len(records) < 2:
        return None
    span = records[-1].started_at - records[0].started_at
    return sum(r.arrived for r in records[1:]) / span if span > 0 else None


def _size_error(records: tuple[Record, ...]) -> float | None:
    """The mean distance between expected and arrived rows, where they were expected."""
    pairs = [(r.size.expected_rows, r.arrived) for r in records if r.arrived > 0]
    known = [abs(rows - arrived) / arrived for rows, arrived in pairs if rows is not None]
    return sum(known) / len(known) if known else None


def _count_error(last: Record) -> float | None:
    """Of ``sum(_weight)`` under one rate for all rows: each row is kept by a coin of its own.

    The variance of the estimate is N (1 - p) / p, so its standard error over the count is the root of
    (1 - p) / kept. Groups with rates of their own have smaller errors each; see `hg.count`.
    """
    plan = last.plan
    mixed = plan.exceptions or plan.level is not None or plan.work is not None
    if last.kind != "gate" or mixed or last.kept <= 0 or plan.default >= 1.0:
        return None
    return math.sqrt((1.0 - plan.default) / last.kept)
