"""The ledger: one record a batch and gate, saying what arrived, what was kept, what was shed.

Records are appended to text files of one JSON object a line. A process killed while it appends
leaves at most one torn last line; the reader passes over it, and the next append begins a new line.
A batch recorded twice (it was replayed, or its progress came by two ways) counts once: the last
record wins, and `verify` reports it if the two disagree.

A batch's records are all in one segment (`headgate.store.ledger.segments`), so that whatever is asked of
some batches reads the files of those alone, however long the ledger is. Old segments are compressed, and
expire; their sums stay (`headgate.store.ledger.carried`).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from headgate.errors import SnapshotError
from headgate.store.folder import folders_in
from headgate.store.ledger.carried import (
    Carried,
    LedgerTotals,
    close_one,
    expirable,
    expire_one,
    totals_of,
)
from headgate.store.ledger.files import LedgerFiles, Mark
from headgate.store.ledger.parts import SEGMENT
from headgate.store.ledger.record import Evidence, Findings, Record, Size, Target
from headgate.store.ledger.segments import Segments
from headgate.store.ledger.totals import Totals
from headgate.store.places.place import Place
from headgate.store.stored_json import parsed_json

__all__ = ["Evidence", "Findings", "Ledger", "Record", "Size", "Target", "gates_in", "queries_of"]

#: The batch of a line, without reading all of it: the name is written in front of whatever people gave.
_BATCH = re.compile(rb'^\{"v":\d+,"gate":"[^"\\]*","query":"[^"\\]*","batch":(\d+),')


def gates_in(control: Place) -> list[str]:
    """Names of the gates that have used this control folder."""
    return folders_in(control / "gates")


def queries_of(control: Place, gate: str) -> list[str]:
    """Ids of the queries that have run behind this gate."""
    return folders_in(control / "gates" / gate / "queries")


def _files_in(folder: Place) -> LedgerFiles:
    """A ledger's files, or its objects."""
    if isinstance(folder, Path):
        return Segments(folder)
    from headgate.store.ledger.chunks import Chunks  # late: most ledgers are files

    return Chunks(folder)


class Ledger:
    """The records of one gate in one query."""

    def __init__(self, control: Place, gate: str, query: str) -> None:
        self.gate, self.query = gate, query
        self._segments = _files_in(control / "gates" / gate / "queries" / query / "ledger")

    def append(self, record: Record) -> None:
        """Add a record; it is on disk when this returns."""
        line = json.dumps(record.to_json(), separators=(",", ":"))
        self._segments.append(record.batch // SEGMENT, line)

    def lines(self, first: int | None = None, last: int | None = None) -> Iterator[Record]:
        """Every whole record of these batches, segment by segment, in the order written."""
        for records in self.by_segment(first, last):
            yield from records

    def records(self, first: int | None = None, last: int | None = None) -> dict[int, Record]:
        """The last record of each of these batches, by batch; all batches by default."""
        return dict(sorted({r.batch: r for r in self.lines(first, last)}.items()))

    def by_segment(self, first: int | None = None, last: int | None = None) -> Iterator[list[Record]]:
        """As `lines`, a segment at a time: no batch is in two of them, so memory stays bounded."""
        listing = self._segments.listing()
        low = -1 if first is None else first
        for segment in listing.numbers:
            if (segment + 1) * SEGMENT <= low or (last is not None and segment * SEGMENT > last):
                continue
            yield [
                record
                for line in self._segments.lines(segment, listing)
                if (batch := _batch_in(line)) is not None
                and batch >= low
                and (last is None or batch <= last)
                and (record := self._record_in(line)) is not None
            ]

    def record(self, batch: int) -> Record | None:
        """The record of one batch, from one segment; None if there is none."""
        found = None
        for line in self._segments.lines(batch // SEGMENT):
            if _batch_in(line) == batch:
                found = self._record_in(line) or found
        return found

    def _record_in(self, line: bytes) -> Record | None:
        """The record of a line; None if it was torn, or is none: of that, an audit is told."""
        try:
            return _record_in(line)
        except SnapshotError as error:
            self._segments.note_damage(f"batch {_batch_in(line)}", error)
            return None

    def tail(self, most: int) -> list[Record]:
        """The latest batches' records, oldest first; reads back from the end as far as it must."""
        found: list[Record] = []
        listing = self._segments.listing()
        for segment in reversed(listing.numbers):
            of_batch: dict[int, list[bytes]] = {}
            for line in self._segments.lines(segment, listing):
                batch = _batch_in(line)
                if batch is not None:
                    of_batch.setdefault(batch, []).append(line)
            for batch in sorted(of_batch, reverse=True):
                whole = (
                    r for line in reversed(of_batch[batch]) if (r := self._record_in(line)) is not None
                )
                found.extend(itertools.islice(whole, 1))
                if len(found) >= most:
                    return found[::-1]
        return found[::-1]

    def appended(self, since: Mark | None) -> tuple[Mark, list[Record] | None]:
        """The records that came since the mark, and the mark of now; None: read all there is.

        For whoever looks again and again (`headgate.store.ledger.follow`): it costs what came, and not
        what is there.
        """
        mark, lines = self._segments.appended(since)
        if lines is None:
            return mark, None
        return mark, [record for line in lines if (record := self._record_in(line)) is not None]

    def last(self) -> Record | None:
        """The record of the latest batch."""
        return next(iter(self.tail(1)), None)

    def last_batch(self) -> int:
        """The latest batch that has a record; -1 if none has."""
        last = self.last()
        if last is not None:
            return last.batch
        ended = Carried.load(self._segments.at).expired.last_batch
        return -1 if ended is None else ended

    def settled(self, batches: set[int]) -> set[int]:
        """Those of these batches that have a record; reads their segments, and parses nothing else."""
        listing = self._segments.listing()
        there = {
            batch
            for segment in {b // SEGMENT for b in batches} & set(listing.numbers)
            for line in self._segments.lines(segment, listing)
            if (batch := _batch_in(line)) in batches and self._record_in(line) is not None
        }
        return batches & there

    def totals(self) -> LedgerTotals:
        """Batches and rows over all time; reads the open segment, and of closed ones their sums."""
        return totals_of(self._segments)

    def begins(self) -> int:
        """Records of batches before this one have expired; 0 if none have."""
        return Carried.load(self._segments.at).begins

    def span(self, since: float | None, until: float | None) -> tuple[int, int]:
        """The batches that began in this time, first and last; finds them by halving.

        An empty span has its last before its first.
        """
        numbers = self._segments.listing().numbers
        if not numbers:
            return 0, -1
        first, last = numbers[0] * SEGMENT, (numbers[-1] + 1) * SEGMENT - 1
        if since is not None:
            first = self._border(numbers, lambda at: at >= since, last + 1)
        if until is not None:
            last = self._border(numbers, lambda at: at > until, last + 1) - 1
        return first, last

    def _border(self, numbers: list[int], reached: Callable[[float], bool], otherwise: int) -> int:
        """The first batch whose start is `reached`, taking segments for ordered by time."""
        low, high = 0, len(numbers)
        while low < high:
            middle = (low + high) // 2
            latest = self._latest_start(numbers[middle])
            if latest is not None and reached(latest):
                high = middle
            else:
                low = middle + 1
        if low == len(numbers):
            return otherwise
        values = self._segments.values(numbers[low])
        starts = [(int(v["batch"]), float(v.get("started_at", 0.0))) for v in values]
        return min((batch for batch, at in starts if at > 0.0 and reached(at)), default=otherwise)

    def _latest_start(self, segment: int) -> float | None:
        listing = self._segments.listing()
        parts = listing.parts(segment)
        if segment in listing.plain or not parts or any(p in listing.closing for p in parts):
            return Totals.of(self._segments.values(segment, listing)).last_at
        found = [self._segments.summary(p).own.last_at for p in parts]
        return max((at for at in found if at is not None), default=None)

    @property
    def damaged(self) -> dict[str, str]:
        """Files that this object could not read to their end, with the reason."""
        return self._segments.damaged

    @property
    def no_records(self) -> str:
        """Of lines that this object met and that are no records: which, and why; empty if none were."""
        found = [f"{n} cannot be read ({w})" for n, w in self.damaged.items() if n.startswith("batch ")]
        return "" if not found else "the record of " + "; of ".join(found[:3])

    # What keeps the ledger small; by one at a time (`headgate.store.keeping.upkeep`).

    def close_one(self, now: float) -> bool:
        """Compress one segment that is over; whether there was one."""
        return close_one(self._segments, now)

    def expire_one(self, older_than: float) -> bool:
        """Forget the records of the oldest segment if all its batches began before; whether so."""
        return expire_one(self._segments, older_than)

    def due(self, older_than: float) -> tuple[int, int]:
        """How many segments are to be compressed, and how many are to expire."""
        listing = self._segments.listing()
        latest = max(listing.numbers, default=0)
        over = [s for s in listing.plain if s < latest]
        return len(over) + len(listing.closing), len(expirable(self._segments, older_than))

    def expire(self, older_than: float) -> int:
        """Forget all records of segments that are older; how many segments."""
        count = 0
        while self.expire_one(older_than):
            count += 1
        return count


def _batch_in(line: bytes) -> int | None:
    match = _BATCH.match(line)
    if match is not None:
        return int(match[1])
    try:
        batch = parsed_json(line)["batch"]
    except (ValueError, KeyError, TypeError):
        return None
    return batch if type(batch) is int else None


def _record_in(line: bytes) -> Record | None:
    try:
        value = parsed_json(line)
    except ValueError:  # torn
        return None
    return Record.from_json(value)
