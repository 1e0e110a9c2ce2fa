"""The plan of the batch that a task belongs to: found, or pinned on first use, in a Python worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark import TaskContext

from headgate.plan import KEEP_ALL, Plan
from headgate.store.plans import PinnedPlan, PlanStore

__all__ = ["TaskPlan", "batch_of_task"]


def batch_of_task() -> tuple[str, int] | None:
    """The query and the micro-batch that this task works for; None outside a stream."""
    context = TaskContext.get()
    query = context.getLocalProperty("sql.streaming.queryId") if context else None
    batch = context.getLocalProperty("streaming.sql.batchId") if context else None
    return None if query is None or batch is None else (query, int(batch))


@dataclass(frozen=True)
class TaskPlan:
    """Where a gate's plans are, and what holds when they cannot be had. Never lets a query die."""

    control: str
    gate: str
    shape: str
    on_failure: str
    floor: float

    def of(self, query: str, batch: int) -> Plan:
        """The plan of this batch, from now on and for every attempt."""
        return self.pin(query, batch).plan

    def pin(self, query: str, batch: int) -> PinnedPlan:
        """The same, with why it is this batch's."""
        try:
            store = PlanStore(Path(self.control), self.gate, query)
            return store.pin(batch, self.fallback, self.shape)
        except Exception:  # whatever is wrong with the folder, the query goes on
            return self.fallback()

    def fallback(self) -> PinnedPlan:
        """What holds when the plan cannot be had."""
        if self.on_failure == "closed":
            return PinnedPlan(Plan(self._floor()), "fail-closed")
        return PinnedPlan(KEEP_ALL, "fail-open")

    def _floor(self) -> float:
        """The floor that people set, if the folder can be read; else the one given at the call.

        Only a failure reads the settings: a batch whose plan is there has no need of them.
        """
        try:
            from headgate.store.settings_file import SettingsFile

            return SettingsFile(Path(self.control), self.gate).effective().floor
        except Exception:
            return self.floor
