"""How a gate stands in a query: its last batches and its sums, as ``headgate status`` shows them.

Made from a ledger, or kept up by whoever writes it, so that nobody has to read five thousand open
records of each of five hundred gates to say what they do now.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from headgate.core.plan import Plan
from headgate.store.ledger.carried import LedgerTotals
from headgate.store.ledger.parts import SEGMENT
from headgate.store.ledger.records import Ledger, Record
from headgate.store.ledger.totals import Totals

__all__ = ["RECENT", "Standing", "unreadable"]

#: Batches over which the kept share is taken.
RECENT = 20


class Standing:
    """The last records of a gate in a query, and sums over all."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._recent: deque[Record] = deque(maxlen=RECENT)
        self._totals = LedgerTotals(Totals(), Totals())
        #: Whether the sums may be others: then the ledger is read when somebody asks.
        self._stale = True
        self._lock = threading.Lock()

    def _read(self) -> None:
        self._recent = deque(self._ledger.tail(RECENT), maxlen=RECENT)
        self._totals = self._ledger.totals()
        self._stale = False

    def take(self, record: Record) -> None:
        """A record was added to the ledger, and nobody else writes there."""
        with self._lock:
            last = self._totals.all.last_batch
            # It may count instead of another; and with a segment that is over, others may expire.
            other = last is None or record.batch <= last or record.batch // SEGMENT != last // SEGMENT
            self._stale = self._stale or other
            if self._stale:
                return
            self._recent.append(record)
            more = self._totals.all.plus(Totals.of([record.to_json()]))
            self._totals = LedgerTotals(more, self._totals.expired, self._totals.begins)

    def to_json(self, plan: Plan | None) -> dict[str, Any]:
        """As status shows it, with the plan that holds."""
        with self._lock:
            if self._stale:
                self._read()
            recent, totals = list(self._recent), self._totals
        return _as_shown(recent, totals, plan)


def unreadable(why: str) -> dict[str, Any]:
    """The same of a ledger that makes no sense: nothing, and why."""
    return {**_as_shown([], LedgerTotals(Totals(), Totals()), None), "state": "?", "why": why}


def _as_shown(recent: list[Record], totals: LedgerTotals, plan: Plan | None) -> dict[str, Any]:
    arrived = sum(r.arrived for r in recent)
    last = recent[-1] if recent else None
    sums = totals.all
    return {
        "state": last.state if last else "",
        "why": last.why if last else "",
        "keep_rate": None if plan is None else plan.default,
        "exceptions": 0 if plan is None else len(plan.exceptions),
        "kept_share": sum(r.kept for r in recent) / arrived if arrived else None,
        "last_batch": last.batch if last else None,
        "last_started_at": last.started_at if last else None,
        "last_duration_s": last.duration_s if last else None,
        "last_delay_s": last.delay_s if last else None,
        "would_shed": last.would_shed if last else 0,
        "batches": sums.batches,
        "arrived": sums.arrived,
        "kept": sums.kept,
        "shed": sums.shed,
        "records_from": totals.begins,
    }
