"""`RunningJob`: a job's query while it runs, in figures, and how it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headgate.job.job import Job
from headgate.spark.gate.meter import reports_in
from headgate.spark.job.build import first_words
from headgate.spark.loop.loop import ControlLoop
from headgate.spark.loop.progress import last_batch, recent_reports
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger
from headgate.store.places.place import Place, control_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Figures", "Outcome", "RunningJob"]

#: A job that is told to end lets its batch finish for so long.
_PATIENCE_S = 30.0


@dataclass(frozen=True)
class Figures:
    """What the run has seen so far; rows of this run alone."""

    batches: int = 0
    last_batch: int | None = None
    arrived: int = 0
    #: None where the gate has no meters: a fixed rate without a control folder.
    kept: int | None = 0
    duration_s: float | None = None
    #: Rows a second, by Spark's own count of the last batch.
    rows_per_s: float | None = None
    state: str = ""
    why: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    query: str
    #: ``stopped`` by a person, ``time`` is up, ``finished`` (all there was was read), ``failed``.
    ended: str
    seconds: float
    figures: Figures
    #: What an audit of the ledger says; empty without a control folder.
    verdict: str = ""
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether the query did not fail and its books are in order."""
        return self.ended != "failed" and self.verdict in ("", "balanced", "repaired")

    def to_json(self) -> dict[str, Any]:
        """As `headgate run --json` prints it."""
        found, kept = self.figures, self.figures.kept
        return {
            "query": self.query,
            "ended": self.ended,
            "seconds": round(self.seconds, 1),
            "batches": found.batches,
            "arrived": found.arrived,
            "kept": kept,
            "shed": None if kept is None else found.arrived - kept,
            "verdict": self.verdict,
            "error": self.error,
        }


class RunningJob:
    """One run of a job."""

    def __init__(
        self,
        spark: SparkSession,
        job: Job,
        query: StreamingQuery,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark, self._job, self._query, self._clock = spark, job, query, clock
        self._began = clock()
        self._figures = Figures()
        self._control: Place | None = None if job.control is None else control_place(job.control)

    @property
    def query(self) -> str:
        """The query's id."""
        return str(self._query.id)

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return self._clock() - self._began

    @property
    def active(self) -> bool:
        """Whether it still runs."""
        return bool(self._query.isActive)

    def look(self) -> Figures:
        """What it has done until now."""
        seen = -1 if self._figures.last_batch is None else self._figures.last_batch
        if last_batch(self._query) > seen:
            for report in recent_reports(self._query):
                progress = json.loads(report)
                if int(progress["batchId"]) > seen and int(progress.get("numInputRows") or 0) > 0:
                    self._take(progress)
            self._figures = self._with_state(self._figures)
        return self._figures

    def _take(self, progress: Mapping[str, Any]) -> None:
        before, report = self._figures, reports_in(progress).get(self._job.gate["name"])
        arrived = int(progress["numInputRows"]) if report is None else report.sample.arrived
        kept = None if report is None or before.kept is None else before.kept + report.sample.kept
        took_ms = (progress.get("durationMs") or {}).get("triggerExecution")
        self._figures = replace(
            before,
            batches=before.batches + 1,
            last_batch=int(progress["batchId"]),
            arrived=before.arrived + arrived,
            kept=kept,
            duration_s=None if took_ms is None else took_ms / 1000.0,
            rows_per_s=progress.get("inputRowsPerSecond"),
        )

    def _with_state(self, figures: Figures) -> Figures:
        if self._control is None:
            return figures
        last = Ledger(self._control, self._job.gate["name"], self.query).tail(1)
        return replace(figures, state=last[-1].state, why=last[-1].why) if last else figures

    def stop(self, hurry: Callable[[], bool] = lambda: False, patience_s: float = _PATIENCE_S) -> None:
        """End the query between two batches, or in the middle of one if that takes too long.

        A batch that is cut short runs again when the job does, and keeps the same rows.
        """
        until = self._clock() + patience_s
        while self.active and self._query.status["isTriggerActive"]:
            if hurry() or self._clock() > until:
                break
            time.sleep(0.05)
        self._query.stop()

    def outcome(self, ended: str) -> Outcome:
        """All of it, once the query is over and its last batch is in the ledger."""
        error = self._query.exception()
        ControlLoop.of(self._spark).drain()
        figures = self._with_state(self.look())
        verdict = ""
        if self._control is not None:
            audits = audit(self._control, self._job.gate["name"], self.query)
            verdict = next((one.verdict for one in audits), "")
        said = "" if error is None else self._job.secrets.shown(first_words(error))
        ended = ended if error is None else "failed"
        return Outcome(self.query, ended, self.seconds, figures, verdict, said)
