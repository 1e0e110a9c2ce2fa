"""Do the books hold? `audit` checks them against themselves, the pinned plans, and the offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from headgate.core.witness import likely_share
from headgate.store.ledger.records import Ledger, Record, gates_in, queries_of
from headgate.store.places.place import Place
from headgate.store.plans import PlanStore
from headgate.store.repaid.marks import marks_of
from headgate.store.stored_json import parsed_json

__all__ = ["MOST_NAMED", "UNDER_WAY", "Audit", "audit"]

#: Batches that may have begun and not be recorded yet: one runs, and the loop is some behind.
UNDER_WAY = 10
#: Batches of one hole that are named: a spoilt number makes a hole of any size.
MOST_NAMED = 100_000


@dataclass
class Audit:
    """The findings on one gate in one query."""

    gate: str
    query: str
    #: "gate", "guard" or "join".
    kind: str = "gate"
    batches: int = 0
    arrived: int = 0
    kept: int = 0
    shed: int = 0
    #: Batches whose counts a witness confirmed to the row (offsets, rows handed out, whole passes).
    witnessed: int = 0
    #: Batches whose counts do not add up, or cannot be under their plan.
    unbalanced: list[int] = field(default_factory=list)
    #: Batches recorded twice with other counts, another plan or other kept rows.
    contradicted: list[int] = field(default_factory=list)
    #: Batches whose record names another plan than was pinned.
    other_plan: list[int] = field(default_factory=list)
    #: Batches whose counts a witness contradicts. `headgate.recount` settles them.
    doubtful: list[int] = field(default_factory=list)
    #: Why they are, by batch.
    doubts: dict[int, str] = field(default_factory=dict)
    #: Batches that were counted again, since their first counts were lost or doubtful.
    repaired: list[int] = field(default_factory=list)
    #: Batches whose shed rows were repaid (`headgate backfill`), and how many rows that were.
    repaid: list[int] = field(default_factory=list)
    repaid_rows: int = 0
    #: Those among them of which more or fewer rows were repaid than were shed.
    repaid_otherwise: list[int] = field(default_factory=list)
    #: Batches that kept a share their plan makes all but impossible. Duplicated rows share one
    #: fate, so a stream of few distinct rows can show up here without a fault.
    unlikely: list[int] = field(default_factory=list)
    #: Batches that began (their plan is pinned) and have no record, though later ones have (the query
    #: was killed between the commit and the report), or more have begun since than can be under way
    #: (nobody keeps the books). `headgate.recount` settles them.
    unsettled: list[int] = field(default_factory=list)
    #: Batches with neither pin nor record between others, over which the offsets went on: the control
    #: folder was away, or the query ran without its gate. Of one hole, the first 100,000.
    missing: list[int] = field(default_factory=list)
    #: Batches from the first to the last that were recorded, as a later record says, and are no more,
    #: though they have not expired: the control folder was deleted or replaced while the query ran.
    deleted: list[tuple[int, int]] = field(default_factory=list)
    #: The first batch with a record where that is not the query's first and nothing has expired: the
    #: gate was added then, or its folder was lost while the query stood still. Nobody can tell which.
    begins_late: int | None = None
    #: The latest that began after the last one recorded: running now, or cut off by a kill. What did
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
    def consistent(self) -> bool:
        """Whether no record contradicts itself, another one, or its pin."""
        contradict = self.contradicted or self.other_plan or self.repaid_otherwise
        return not (self.unbalanced or contradict or self.damaged)

    @property
    def balanced(self) -> bool:
        """Whether every recorded row is accounted for, and no witness says otherwise."""
        return self.consistent and not self.doubtful

    @property
    def complete(self) -> bool:
        """Whether, besides, no batch is missing."""
        return self.balanced and not (self.unsettled or self.missing or self.deleted)

    @property
    def verdict(self) -> str:
        """The worst that was found, in a word or two."""
        if not self.consistent:
            return "not balanced"
        if self.doubtful:
            return "doubtful"
        if not self.complete:
            return "missing"
        return "repaired" if self.repaired else "balanced"

    def to_json(self) -> dict[str, Any]:
        """As `headgate ledger verify --json` prints it."""
        said = {"verdict": self.verdict, "balanced": self.balanced, "complete": self.complete}
        return {**asdict(self), **said}


def audit(
    control: Place,
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


def _audit_one(control: Place, gate: str, query: str, first: int | None, last: int | None) -> Audit:
    found = Audit(gate, query)
    store, ledger = PlanStore(control, gate, query), Ledger(control, gate, query)
    inside = range(first or 0, (1 << 62) if last is None else last + 1)
    pinned_batches = store.pinned_batches()
    pins = [b for b in pinned_batches if b in inside]
    seen: set[int] = set()
    gaps = Gaps(pins)
    named: set[int] = set()
    repaid = marks_of(control, gate, query).rows()
    for record in _last_records(ledger, first, last, found):
        seen.add(record.batch)
        _add(found, record)
        _repaid(found, record, repaid.get(record.batch))
        gaps.add(record)
        if record.after is not None and record.after < record.batch and record.after not in seen:
            named.add(record.after)
        pinned = store.pinned(record.batch)
        if pinned is not None and pinned.plan.digest != record.plan.digest:
            found.other_plan.append(record.batch)
    # A batch begins when the one before it is through: what is further back than the loop may be behind
    # was not recorded, and will not be.
    under_way = max([ledger.last_batch(), *pinned_batches[:-UNDER_WAY][-1:]])
    silent = [b for b in pins if b not in seen]
    found.unsettled = [b for b in silent if b <= under_way]
    found.begun = [b for b in silent if b > under_way]
    found.torn_pins = [b for b in pins if store.pinned(b) is None]
    found.damaged = dict(ledger.damaged)
    totals = ledger.totals()
    found.records_from = totals.begins
    known = seen.union(pins)
    gone = {b for b in named - known if b in inside and b >= totals.begins}
    found.deleted = _spans(gone, known, max(inside.start, totals.begins))
    if found.kind == "gate":
        found.missing = [b for b in gaps.found if not _inside(b, found.deleted)]
    earliest = min(known, default=0)
    if earliest > 0 and not (found.deleted or totals.begins or inside.start):
        found.begins_late = earliest
    old = totals.expired
    found.expired = {
        "batches": old.batches, "arrived": old.arrived, "kept": old.kept, "shed": old.shed,
    }  # fmt: skip
    return found


def _spans(gone: set[int], known: set[int], first: int) -> list[tuple[int, int]]:
    """Each of these batches with those right before it of which nothing is known either."""
    spans: list[tuple[int, int]] = []
    for batch in sorted(gone):
        low = 1 + max((b for b in known if b < batch), default=first - 1)
        spans = [span for span in spans if span[0] < low]  # of the same hole, and shorter
        spans.append((low, batch))
    return spans


def _inside(batch: int, spans: list[tuple[int, int]]) -> bool:
    return any(low <= batch <= high for low, high in spans)


def _last_records(ledger: Ledger, first: int | None, last: int | None, found: Audit) -> Iterator[Record]:
    """The last record of each batch in order; one segment at a time is in memory."""
    for records in ledger.by_segment(first, last):
        seen: dict[int, Record] = {}
        contradicted: set[int] = set()
        for record in records:
            before = seen.get(record.batch)
            if before is not None and _contradicts(before, record):
                contradicted.add(record.batch)
            seen[record.batch] = record
        found.contradicted += sorted(contradicted)
        yield from (record for _, record in sorted(seen.items()))


def _add(found: Audit, record: Record) -> None:
    batch = record.batch
    found.kind = record.kind
    found.batches += 1
    found.arrived += record.arrived
    found.kept += record.kept
    found.shed += record.shed
    found.witnessed += record.evidence.witness in ("offsets", "rows", "passes")
    if not record.balanced:
        found.unbalanced.append(batch)
    if record.evidence.doubt:
        found.doubtful.append(batch)
        found.doubts[batch] = record.evidence.doubt
    if record.evidence.repaired:
        found.repaired.append(batch)
    if not _plausible(record):
        found.unlikely.append(batch)


def _repaid(found: Audit, record: Record, rows: int | None) -> None:
    if rows is None:
        return
    found.repaid.append(record.batch)
    found.repaid_rows += rows
    if rows != record.shed:
        found.repaid_otherwise.append(record.batch)


def _contradicts(before: Record, record: Record) -> bool:
    """Whether two records of one batch cannot both be right. What settles a doubt does not."""
    if before.evidence.doubt:
        return False
    prints = {before.evidence.fingerprint, record.evidence.fingerprint} - {""}
    return len(prints) > 1 or _counts(before) != _counts(record)


def _counts(record: Record) -> tuple[int, int, int, str]:
    return record.arrived, record.kept, record.shed, record.plan.digest


class Gaps:
    """Batches between others of which nothing is known, and over which the sources' offsets went on.

    Spark also numbers batches that bring no rows (they only let state go); Spark may report nothing of
    a gate for those, and then the next batch begins where the one before them ended.
    """

    def __init__(self, pins: list[int]) -> None:
        self._pins = iter(pins)
        self._pin = next(self._pins, None)
        self._before: tuple[int, Record | None] | None = None
        self.found: list[int] = []

    def add(self, record: Record) -> None:
        """The next record; they come in the order of their batches."""
        while self._pin is not None and self._pin <= record.batch:
            if self._pin < record.batch:
                self._known(self._pin, None)
            self._pin = next(self._pins, None)
        self._known(record.batch, record)

    def _known(self, batch: int, record: Record | None) -> None:
        if self._before is not None:
            number, before = self._before
            if batch - number > 1 and not _adjacent(before, record):
                self.found += range(number + 1, min(batch, number + 1 + MOST_NAMED))
        self._before = (batch, record)


def _adjacent(before: Record | None, after: Record | None) -> bool:
    """Whether the one begins in the sources where the other ended."""
    if before is None or after is None or not before.offsets:
        return False
    ends = [_parsed(source.get("endOffset")) for source in before.offsets]
    return ends == [_parsed(source.get("startOffset")) for source in after.offsets]


def _parsed(offset: Any) -> Any:
    """Connect sessions report offsets as text."""
    try:
        return parsed_json(offset) if isinstance(offset, str) else offset
    except ValueError:
        return offset


def _plausible(record: Record) -> bool:
    if record.kind in ("guard", "join") or "groups" in record.found.measures:
        return True  # the mix of groups is not in the record
    return likely_share(record.arrived, record.kept, record.plan)
