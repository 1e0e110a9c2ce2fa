"""Which batches are to be repaid, and how they are cut into slices. No Spark here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headgate.errors import BadArgument
from headgate.spark.backfill.parts import untrusted
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger
from headgate.store.places.place import Place
from headgate.store.repaid.slices import Slices

__all__ = ["Wanted", "cut", "wanted_batches"]


@dataclass(frozen=True)
class Wanted:
    """The batches that are open, with the rows that reading each again takes."""

    batches: Mapping[int, int] = field(default_factory=dict)
    #: Batches of which the ledger cannot tell what they shed, and why.
    bad: Mapping[int, str] = field(default_factory=dict)
    #: Batches that were asked for and are repaid.
    before: int = 0


def wanted_batches(
    control: Place,
    gate: str,
    query: str,
    slices: Slices,
    *,
    batches: Iterable[int] | None,
    times: tuple[float | None, float | None],
) -> Wanted:
    """Those that shed rows and are not repaid, of all or of those asked for."""
    ledger = Ledger(control, gate, query)
    asked = None if batches is None else set(batches)
    if asked is not None and not asked:
        raise BadArgument("batches=[] names none: leave it out for all that shed anything")
    first, last = (None, None) if asked is None else (min(asked), max(asked))
    if times != (None, None):
        low, high = ledger.span(*times)
        first = low if first is None else max(first, low)
        last = high if last is None else min(last, high)
        if last < first:
            return Wanted()
    slices.marks.look()
    repaid = slices.marks.rows()
    found: dict[int, int] = {}
    seen: set[int] = set()
    for records in ledger.by_segment(first, last):
        for record in records:
            if asked is None or record.batch in asked:
                seen.add(record.batch)
                found.pop(record.batch, None)  # the last record of a batch counts
                if record.shed > 0 and record.kind == "gate":
                    found[record.batch] = record.arrived
    if asked is not None and times == (None, None) and asked - seen:
        raise BadArgument(
            f"batches {sorted(asked - seen)} are not in the ledger, which has {ledger.begins()} to "
            f"{ledger.last_batch()}"
        )
    (books,) = audit(control, gate, query, first=first, last=last)
    bad = {b: why for b, why in untrusted(books, asked).items() if b not in repaid}
    open_ = {b: n for b, n in sorted(found.items()) if b not in repaid and b not in bad}
    return Wanted(open_, bad, sum(b in repaid for b in found))


def cut(batches: Mapping[int, int], most_rows: int, most_batches: int) -> Iterator[list[int]]:
    """Slices of these batches in order, none with more rows or batches, unless one batch alone has.

    >>> list(cut({1: 40, 2: 40, 3: 40, 5: 500, 6: 1}, 100, 10))
    [[1, 2], [3], [5], [6]]
    """
    taken: list[int] = []
    rows = 0
    for batch, arrived in batches.items():
        if taken and (rows + arrived > most_rows or len(taken) >= most_batches):
            yield taken
            taken, rows = [], 0
        taken.append(batch)
        rows += arrived
    if taken:
        yield taken
