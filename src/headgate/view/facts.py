"""What was read of one gate, guard or join in one query: facts without a word of judgement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headgate.settings import GateSettings
from headgate.store.lease import Holder
from headgate.store.ledger.carried import LedgerTotals
from headgate.store.ledger.record import Record
from headgate.store.ledger.totals import Totals
from headgate.view.first_batch import FirstBatch

__all__ = [
    "Asked",
    "GuardInsides",
    "JobFacts",
    "Measure",
    "measured_s",
    "target_in_force",
    "targets_in_force",
]

#: What a target is about: how long a batch takes, how late its oldest row is, how long rows wait for an
#: expensive function; or nothing, where a share of rows was asked for.
Measure = Literal["duration", "delay", "queue", ""]


@dataclass(frozen=True)
class Asked:
    """What people asked of it, in code and since."""

    kind: str = "gate"
    mode: str = "shed"
    measure: Measure = ""
    target_s: float | None = None
    rate: float | None = None
    min_keep: float | None = None
    on_failure: str = "open"
    #: In words where it is no gate's: "average 1 s".
    target: str = ""
    #: What people changed since the code declared it, by name.
    changed: Mapping[str, Any] = field(default_factory=dict)
    #: Whether its settings can be changed while it runs.
    live: bool = True
    #: Why its settings cannot be read.
    fault: str = ""

    @classmethod
    def of_gate(cls, settings: GateSettings, changed: Mapping[str, Any]) -> Asked:
        """A gate's or a join's."""
        measures: dict[str, Measure] = {"duration": "duration", "delay": "delay", "share": ""}
        return cls(
            mode=settings.mode,
            measure=measures[settings.target_of],
            target_s=settings.target_s,
            rate=settings.rate,
            min_keep=settings.min_keep,
            on_failure=settings.on_failure,
            changed=changed,
        )

    @classmethod
    def of_guard(cls, declared: Mapping[str, Any]) -> Asked:
        """A guard's, which follows its code."""
        return cls(
            kind="guard",
            mode=str(declared.get("policy", "")),
            measure="queue",
            target_s=declared.get("target_s"),
            target=str(declared.get("target", "")),
            live=False,
        )


@dataclass(frozen=True)
class GuardInsides:
    """What the tasks of a guard remember."""

    #: The price of each queue: rows dearer than that are dropped, in seconds of cost.
    prices_s: tuple[float, ...] = ()
    #: The dearest keys: the key's hash, its mean cost in seconds, how often it came.
    dearest: tuple[tuple[int, float, float], ...] = ()


@dataclass(frozen=True)
class JobFacts:
    """One gate, guard or join in one query."""

    gate: str
    query: str
    asked: Asked
    holder: Holder | None = None
    heartbeat_age_s: float | None = None
    #: What was published last (`headgate.store.plans.PlanStore.published`).
    published: Mapping[str, Any] | None = None
    #: The latest records, oldest first.
    records: tuple[Record, ...] = ()
    totals: LedgerTotals = field(default_factory=lambda: LedgerTotals(Totals(), Totals()))
    #: When the batch after the last recorded one began, if it has.
    running_since: float | None = None
    #: The batch that runs before there is any record.
    first_batch: FirstBatch | None = None
    guard: GuardInsides | None = None
    #: Why its files cannot be read; what else is here was so before.
    fault: str = ""
    #: Rows that were repaid (`hg.repay`), of batches that still have records.
    repaid: int = 0

    @property
    def kind(self) -> str:
        """gate, guard or join."""
        return self.records[-1].kind if self.records else self.asked.kind

    @property
    def ended(self) -> bool:
        """Whether its driver said that the query is over."""
        return self.holder is not None and self.holder.released


def measured_s(record: Record, measure: Measure) -> float | None:
    """What the target is about, in one batch; None where it was not measured."""
    if measure == "delay":
        return record.delay_s
    if measure == "queue":
        queue_ms = record.found.measures.get("queue_ms")
        return None if queue_ms is None or not math.isfinite(queue_ms) else queue_ms / 1000.0
    return record.duration_s


def targets_in_force(records: Sequence[Record], asked: Asked) -> list[float | None]:
    """The target of each batch while it ran; None where there was none, or one of another kind.

    A record of an earlier version does not say it. Then it is today's, unless people have changed that
    while the query ran: nobody knows when.
    """
    unsaid = None if {"hold", "delay", "rate"} & asked.changed.keys() else asked.target_s
    found = []
    for record in records:
        then = record.target
        if not then.target_of:
            found.append(unsaid)
        else:
            found.append(then.target_s if then.target_of == asked.measure else None)
    return found


def target_in_force(record: Record, asked: Asked) -> float | None:
    """The same for one batch."""
    return targets_in_force((record,), asked)[0]
