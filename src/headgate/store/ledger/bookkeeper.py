"""Records on their way into a ledger: what cannot be written now is written as soon as it can be."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from headgate.store.ledger.records import Ledger, Record

__all__ = ["MOST_WAITING", "Bookkeeper"]

log = logging.getLogger("headgate")

#: Records that wait at most; the oldest go first, and their batches show as unsettled.
MOST_WAITING = 1000


class Bookkeeper:
    """Appends the records of one gate in one query, in the order in which they came.

    Each names the one before it, so that an audit misses records that somebody deleted.
    `written` is told of each record that is in the ledger, whenever that came to be.
    """

    def __init__(
        self, ledger: Ledger, whose: str, written: Callable[[Record], None] = lambda _: None
    ) -> None:
        self._ledger, self._whose, self._written = ledger, whose, written
        self._waiting: deque[Record] = deque()
        #: The batch that was recorded last.
        self._last: int | None = None

    def add(self, record: Record) -> None:
        """Append it behind those that wait; raises OSError where that cannot be done now."""
        self._waiting.append(record)
        if len(self._waiting) > MOST_WAITING:
            lost = self._waiting.popleft()
            log.error("%s: batch %d could not be recorded, and is given up", self._whose, lost.batch)
        self.write()

    def write(self) -> None:
        """Append all that wait, as far as that can be done."""
        while self._waiting:
            try:
                self._ledger.append(replace(self._waiting[0], after=self._last))
            except (TypeError, ValueError) as error:  # no JSON can be made of it, now or later
                batch = self._waiting.popleft().batch
                log.error("%s: batch %d cannot be recorded: %s", self._whose, batch, error)
            else:
                self._last = self._waiting[0].batch
                self._written(self._waiting.popleft())

    def retry(self) -> None:
        """The same, between batches: quietly, since it was said when it could not be written."""
        try:
            waited = len(self._waiting)
            self.write()
        except OSError:
            return
        if waited:
            log.info("%s: %d records that had waited are in the ledger now", self._whose, waited)
