"""`LedgerFollower`: the latest records and the sums of a ledger, for whoever looks every few seconds.

A page that is open for days must not read a segment of 5,000 records at each refresh. A follower reads
the ledger once, then only what was appended; it reads again where lines have moved (a segment was
closed, some thousand batches apart) and where a batch was recorded anew (a recount, a checkpoint that
was rolled back).
"""

from __future__ import annotations

from dataclasses import replace

from headgate.errors import BadArgument
from headgate.store.ledger.carried import LedgerTotals
from headgate.store.ledger.files import Mark
from headgate.store.ledger.records import Ledger, Record
from headgate.store.ledger.totals import Totals

__all__ = ["LedgerFollower"]


class LedgerFollower:
    """The latest `most` records of a ledger, one for each batch, and its sums, as of the last `look`."""

    def __init__(self, ledger: Ledger, most: int = 240) -> None:
        if most < 1:
            raise BadArgument(f"most={most!r}: follow at least 1 record")
        self._ledger, self._most = ledger, most
        self._mark: Mark | None = None
        self.records: tuple[Record, ...] = ()
        self.totals = LedgerTotals(Totals(), Totals())
        #: How often the ledger was read from its latest segment on, and not only what came.
        self.full_reads = 0

    def look(self) -> None:
        """Take up what came since the last look; raises OSError where the ledger cannot be read."""
        mark, fresh = self._ledger.appended(self._mark)
        if fresh is None or not all(self._follows(record) for record in fresh):
            # The mark is older than what is read now: a line in between comes again, and is known then.
            self.records = tuple(self._ledger.tail(self._most))
            self.totals = self._ledger.totals()
            self.full_reads += 1
        self._mark = mark

    def _follows(self, record: Record) -> bool:
        """Whether the record could be added, or was known."""
        last = self.records[-1].batch if self.records else -1
        if record.batch > last:
            self.records = (*self.records, record)[-self._most :]
            added = self.totals.all.plus(Totals.of([record.to_json()]))
            self.totals = replace(self.totals, all=added)
            return True
        return any(known == record for known in reversed(self.records))
