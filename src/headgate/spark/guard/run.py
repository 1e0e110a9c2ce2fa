"""The driver's side of a guard: merges what workers learned, keeps the books, judges the target."""

from __future__ import annotations

import logging
import statistics
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from headgate.core.load import LoadSample
from headgate.core.plan import KEEP_ALL
from headgate.guards.inline_policy import InlinePolicy
from headgate.settings import RETENTION_S
from headgate.spark.guard.memory import GuardMemory
from headgate.spark.guard.meter import GuardReport
from headgate.spark.guard.task import COLD_BATCHES
from headgate.store.ledger.bookkeeper import Bookkeeper
from headgate.store.ledger.records import Ledger, Record
from headgate.store.upkeep import Upkeep

__all__ = ["GuardRun", "GuardSpec"]

log = logging.getLogger("headgate")

#: Batches by which a target is judged, and how far above it the wait for a batch puts it out of reach.
_JUDGED, _OUT_OF_REACH = 9, 1.5


@dataclass(frozen=True)
class GuardSpec:
    """What a guard's call fixed for good."""

    name: str
    control: Path
    policy: InlinePolicy
    retention_s: float = RETENTION_S

    def open(self, query: str) -> GuardRun:
        """The guard at work in a query."""
        return GuardRun(self, query)


class GuardRun:
    """One guard in one query, as its batches end."""

    def __init__(self, spec: GuardSpec, query: str) -> None:
        self.spec, self.query = spec, query
        self._memory = GuardMemory(spec.control, spec.name, spec.policy)
        self._ledger = Ledger(spec.control, spec.name, query)
        self._books = Bookkeeper(self._ledger, f"guard {spec.name!r} of query {query}")
        self.upkeep = Upkeep.of_run(spec.control, spec.name, query, spec.retention_s)
        self._waits: deque[float] = deque(maxlen=_JUDGED)
        self._batches = 0
        self._said_unreachable = False
        self.last_batch = self._ledger.last_batch()

    def refresh(self) -> None:
        """A guard has no settings that change while it runs."""
        self._books.retry()

    def finish(self) -> None:
        """The query is over."""
        self._books.retry()

    def pass_over(self, batch: int) -> None:
        """A batch ended that had nothing for this guard."""
        self.last_batch = max(self.last_batch, batch)

    def handle(self, report: GuardReport) -> Record | None:
        """Take up a finished batch; None if it was taken up before."""
        sample = report.sample
        if sample.batch_id <= self.last_batch:
            return None
        self.last_batch = sample.batch_id
        record = self._record(report)
        try:
            self._books.add(record)
            self._memory.merge(self.query, sample.batch_id)
            if sample.arrived > 0:
                self._batches += 1
                if self._batches == COLD_BATCHES:
                    self._memory.note_warm(self.query, report.run)
            self.upkeep.after(sample.batch_id, self.spec.retention_s)
        except OSError as error:
            log.warning(
                "guard %r of query %s: batch %d is not in the ledger (%s)",
                self.spec.name, self.query, sample.batch_id, error,
            )  # fmt: skip
        self._judge_target(sample)
        return record

    def _record(self, report: GuardReport) -> Record:
        sample, outcomes = report.sample, dict(report.outcomes)
        failed = outcomes["failed"]
        reasons = {k: n for k, n in outcomes.items() if k not in ("kept", "failed")}
        why = f"queue {report.queue_ms:.0f} ms (longest {report.longest_queue_ms:.0f})"
        why += f", cost {report.cost_ms:.2f} ms a row" + (f", {failed} failed" if failed else "")
        return Record(
            gate=self.spec.name,
            query=self.query,
            batch=sample.batch_id,
            arrived=sample.arrived,
            kept=sample.kept,
            shed=sum(reasons.values()),
            plan=KEEP_ALL,
            kind="guard",
            origin="guard",
            state="shedding" if sum(reasons.values()) > reasons["dead_letter"] else "idle",
            why=why,
            started_at=sample.started_at,
            duration_s=sample.duration_s,
            parts_ms=dict(report.parts_ms),
            delay_s=sample.delay_s,
            backlog=sample.backlog,
            offsets=list(report.offsets),
            groups={**{k: n for k, n in reasons.items() if n}, **({"failed": failed} if failed else {})},
            measures={
                "queue_ms": round(report.queue_ms, 3),
                "longest_queue_ms": round(report.longest_queue_ms, 3),
                "cost_ms": round(report.cost_ms, 4),
            },
        )

    def _judge_target(self, sample: LoadSample) -> None:
        """Rows that wait longer than the target for their batch put it out of reach: say so once.

        Only where rows are dropped to keep batches short; else they may be long from overload alone.
        """
        if sample.oldest_arrival is None or self._said_unreachable or self.spec.policy.which == "none":
            return
        self._waits.append(sample.started_at - sample.oldest_arrival)
        if len(self._waits) < _JUDGED:
            return
        wait, tau = statistics.median(self._waits), self.spec.policy.target.tau_s
        if wait > _OUT_OF_REACH * tau:
            self._said_unreachable = True
            log.warning(
                "guard %r: rows wait %.2f s for their batch, whatever is dropped; the target of %.2f s "
                "is out of reach. Reachable is about %.2f s: raise the target, or shorten the trigger "
                "and the batches",
                self.spec.name, wait, tau, wait,
            )  # fmt: skip
