"""The driver's side of a guard: merges what workers learned, keeps the books, judges the target."""

from __future__ import annotations

import logging
import statistics
from collections import deque
from dataclasses import dataclass

from headgate.core.cold_start import COLD_BATCHES
from headgate.core.load import LoadSample
from headgate.core.plan import KEEP_ALL
from headgate.guards.inline_policy import InlinePolicy
from headgate.run.run import BookedRun
from headgate.run.spec import Spec
from headgate.settings import RETENTION_S
from headgate.spark.dropped.lists import Lister
from headgate.spark.guard.memory import GuardMemory
from headgate.spark.guard.meter import GuardReport
from headgate.spark.loop.numbered_metrics import read_metric
from headgate.store.lease import this_process
from headgate.store.ledger.record import Findings, Record, Target

__all__ = ["GuardRun", "GuardSpec"]

log = logging.getLogger("headgate")

#: Batches by which a target is judged, and how far above it the wait for a batch puts it out of reach.
#: They only decide when a warning is logged: nine outlast a stall, and half a target is more than noise.
_JUDGED, _OUT_OF_REACH = 9, 1.5


@dataclass(frozen=True)
class GuardSpec(Spec):
    """What a guard's call fixed for good."""

    policy: InlinePolicy
    retention_s: float = RETENTION_S
    #: The folder where dropped rows go; None where they only count.
    dropped: str | None = None

    def open(self, query: str) -> GuardRun:
        """The guard at work in a query."""
        return GuardRun(self, query)


class GuardRun(BookedRun[GuardSpec, GuardReport]):
    """One guard in one query, as its batches end. It has no plan: its workers follow the clock."""

    KIND = "guard"

    def __init__(self, spec: GuardSpec, query: str) -> None:
        super().__init__(spec, query)
        self._memory = GuardMemory(spec.control, spec.name, spec.policy, owner=this_process().owner)
        self._waits: deque[float] = deque(maxlen=_JUDGED)
        self._batches = 0
        self._said_unreachable = False
        self._lister = None if spec.dropped is None else Lister(spec.dropped, query, str(self))
        # What a batch dropped depended on the clock: one that runs again says nothing of its first time.
        self.last_batch = self._ledger.last_batch()

    def begin(self) -> float:
        """A guard has no settings that change while it runs."""
        return self.spec.retention_s

    def target_of_batch(self, began: float) -> Target:
        """How long rows may wait, as its code says."""
        return Target(self.spec.policy.target.tau_s, "queue")

    def learn(self, report: GuardReport) -> None:
        """Whether the target can be reached at all; the costs are the workers' to learn."""
        self._judge_target(report.sample)
        if self._lister is not None:  # in front of the record: what it counts is listed then
            reasons = {k: n for k, n in report.outcomes.items() if n and k not in ("kept", "failed")}
            self._lister.take(report.sample.batch_id, report.files, reasons)

    def finish(self) -> None:
        """Try a last time what could not be written."""
        super().finish()
        if self._lister is not None:
            self._lister.write()

    def remember(self, report: GuardReport) -> None:
        """Merge what the workers learned in the batch."""
        batch, arrived = report.sample.batch_id, report.sample.arrived
        metric = read_metric(report.metric)
        self._memory.merge(self.query, batch, 0 if metric is None else metric.call.number)
        if arrived > 0:
            self._batches += 1
            if self._batches == COLD_BATCHES:
                self._memory.note_warm(self.query, report.run)

    def record(self, report: GuardReport) -> Record:
        """Rows by what became of them, and what they waited and cost."""
        outcomes = dict(report.outcomes)
        failed = outcomes["failed"]
        reasons = {k: n for k, n in outcomes.items() if k not in ("kept", "failed")}
        why = f"queue {report.queue_ms:.0f} ms (longest {report.longest_queue_ms:.0f})"
        why += f", cost {report.cost_ms:.2f} ms a row" + (f", {failed} failed" if failed else "")
        return self.booked(
            report,
            shed=sum(reasons.values()),
            plan=KEEP_ALL,
            kind="guard",
            origin="guard",
            state="shedding" if sum(reasons.values()) > reasons["dead_letter"] else "idle",
            why=why,
            found=Findings(
                {**{k: n for k, n in reasons.items() if n}, **({"failed": failed} if failed else {})},
                {
                    "queue_ms": round(report.queue_ms, 3),
                    "longest_queue_ms": round(report.longest_queue_ms, 3),
                    "cost_ms": round(report.cost_ms, 4),
                },
            ),
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
