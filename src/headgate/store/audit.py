"""Does the ledger balance? `audit` checks it against itself and against the pinned plans."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headgate.store.ledger import Ledger, Record, gates_in, queries_of
from headgate.store.plans import PlanStore

__all__ = ["Audit", "audit"]

#: A kept share is suspect when it is so many standard deviations from its plan's rate.
_SIGMAS = 6.0


@dataclass
class Audit:
    """The findings on one gate in one query."""

    gate: str
    query: str
    #: "gate" or "guard".
    kind: str = "gate"
    batches: int = 0
    arrived: int = 0
    kept: int = 0
    shed: int = 0
    #: Batches whose counts do not add up, or cannot be under their plan.
    unbalanced: list[int] = field(default_factory=list)
    #: Batches recorded twice with other counts or another plan.
    contradicted: list[int] = field(default_factory=list)
    #: Batches whose record names another plan than was pinned.
    other_plan: list[int] = field(default_factory=list)
    #: Batches that kept a share their plan makes all but impossible. Duplicated rows share one
    #: fate, so a stream of few distinct rows can show up here without a fault.
    unlikely: list[int] = field(default_factory=list)
    #: Batches that began (their plan is pinned) and have no record, though later ones have: the
    #: query was killed between the commit and the report. `headgate.recount` settles them.
    unsettled: list[int] = field(default_factory=list)
    #: Batches that began after the last one recorded: running now, or cut off by a kill. What did
    #: not commit runs again when the query restarts; `headgate.recount` settles what did.
    begun: list[int] = field(default_factory=list)
    #: Batches whose pin was cut off by a crash: what they met is in the record, if they have one.
    torn_pins: list[int] = field(default_factory=list)
    #: Files of the ledger that cannot be read to their end, with the reason.
    damaged: dict[str, str] = field(default_factory=dict)
    #: Records of batches before this one have expired; their sums follow.
    records_from: int = 0
    expired: dict[str, int] = field(default_factory=dict)

    @property
    def balanced(self) -> bool:
        """Whether every recorded row is accounted for."""
        return not (self.unbalanced or self.contradicted or self.other_plan or self.damaged)

    @property
    def complete(self) -> bool:
        """Whether, besides, no batch is missing."""
        return self.balanced and not self.unsettled

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "balanced": self.balanced, "complete": self.complete}


def audit(
    control: Path,
    gate: str | None = None,
    query: str | None = None,
    *,
    first: int | None = None,
    last: int | None = None,
) -> list[Audit]:
    """One `Audit` for each gate and query in the control folder, or for those named.

    `first` and `last` are batches: only records from the one to the other are looked at, and no others
    are read.
    """
    return [
        _audit_one(control, g, q, first, last)
        for g in ([gate] if gate else gates_in(control))
        for q in ([query] if query else queries_of(control, g))
    ]


def _audit_one(control: Path, gate: str, query: str, first: int | None, last: int | None) -> Audit:
    found = Audit(gate, query)
    store, ledger = PlanStore(control, gate, query), Ledger(control, gate, query)
    seen: set[int] = set()
    for record in _last_records(ledger, first, last, found):
        batch = record.batch
        seen.add(batch)
        found.kind = record.kind
        found.batches += 1
        found.arrived += record.arrived
        found.kept += record.kept
        found.shed += record.shed
        if not record.balanced:
            found.unbalanced.append(batch)
        pinned = store.pinned(batch)
        if pinned is not None and pinned.plan.digest != record.plan.digest:
            found.other_plan.append(batch)
        if not _plausible(record):
            found.unlikely.append(batch)
    latest = ledger.last_batch()
    asked = [b for b in store.pinned_batches() if (first or 0) <= b and (last is None or b <= last)]
    silent = [b for b in asked if b not in seen]
    found.unsettled = [b for b in silent if b < latest]
    found.begun = [b for b in silent if b > latest]
    found.torn_pins = [b for b in asked if store.pinned(b) is None]
    found.damaged = dict(ledger.damaged)
    totals = ledger.totals()
    found.records_from = totals.begins
    gone = totals.expired
    found.expired = {
        "batches": gone.batches, "arrived": gone.arrived, "kept": gone.kept, "shed": gone.shed,
    }  # fmt: skip
    return found


def _last_records(ledger: Ledger, first: int | None, last: int | None, found: Audit) -> Iterator[Record]:
    """The last record of each batch in order; one segment at a time is in memory."""
    for records in ledger.by_segment(first, last):
        seen: dict[int, Record] = {}
        for record in records:
            before = seen.get(record.batch)
            if before is not None and _counts(before) != _counts(record):
                found.contradicted.append(record.batch)
            seen[record.batch] = record
        yield from (record for _, record in sorted(seen.items()))


def _counts(record: Record) -> tuple[int, int, int, str]:
    return record.arrived, record.kept, record.shed, record.plan.digest


def _plausible(record: Record) -> bool:
    drawn = record.plan.level is not None or "groups" in record.measures
    if record.kind in ("guard", "join") or record.plan.exceptions or drawn:
        return True  # the mix of groups is not in the record
    rate, n = record.plan.default, record.arrived
    return abs(record.kept - rate * n) <= _SIGMAS * math.sqrt(n * rate * (1 - rate)) + 1
