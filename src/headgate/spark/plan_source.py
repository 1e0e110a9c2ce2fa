"""The plan as a Spark data source: read once a batch, in a task that knows its batch.

Spark plans the source once but calls `read` again for every micro-batch, in a task whose local
properties name the query and the batch. So `read` can pin the batch's plan on first use, and a
replayed batch meets the plan that it met before.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from headgate.plan import KEEP_ALL, Plan
from headgate.store.folder import claim_json
from headgate.store.plans import PinnedPlan, PlanStore

__all__ = ["FORMAT", "PlanSource"]

FORMAT = "headgate_plan"


class PlanSource(DataSource):
    """Two views of a plan: ``thresholds`` (one row: the default's, then each class's), and
    ``exceptions`` (a row for each group key)."""

    @classmethod
    def name(cls) -> str:
        """The name under which Spark finds it."""
        return FORMAT

    def schema(self) -> str:
        """The columns of the view."""
        return "t array<bigint>" if self.options["view"] == "thresholds" else "k bigint, t bigint"

    def reader(self, schema: Any) -> DataSourceReader:
        """A reader for one view."""
        return PlanReader(dict(self.options))


class PlanReader(DataSourceReader):
    """Runs in a Python worker; never lets a query die of a lost control folder."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """The rows of the view, under the plan of the batch that is running."""
        plan = self._plan()
        default, exceptions = plan.thresholds()
        if self._options["view"] == "thresholds":
            classes = range(1, int(self._options["classes"]) + 1)
            yield ([default, *(exceptions.get(number, default) for number in classes)],)
        else:
            yield from exceptions.items()

    def _plan(self) -> Plan:
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context else None
        control = Path(self._options["control"])
        if query is None or batch is None:
            return self._trial(control)
        try:
            store = PlanStore(control, self._options["gate"], query)
            return store.pin(int(batch), self._fallback, self._options["shape"]).plan
        except Exception:  # whatever is wrong with the folder, the query goes on
            return self._fallback().plan

    @staticmethod
    def _trial(control: Path) -> Plan:
        """The gate's call reads once, outside any batch: do here what a batch will need."""
        if not control.is_dir():
            raise OSError(f"control folder {str(control)!r} is not there")
        trial = control / f".trial-{uuid.uuid4().hex}"
        claim_json(trial, {})
        trial.unlink()
        return KEEP_ALL

    def _fallback(self) -> PinnedPlan:
        if self._options["on_failure"] == "closed":
            return PinnedPlan(Plan(self._floor()), "fail-closed")
        return PinnedPlan(KEEP_ALL, "fail-open")

    def _floor(self) -> float:
        """The floor that people set, if the folder can be read; else the one given at the call.

        Only a failure reads the settings: a batch whose plan is there has no need of them.
        """
        try:
            from headgate.store.settings_file import SettingsFile

            return SettingsFile(Path(self._options["control"]), self._options["gate"]).effective().floor
        except Exception:
            return float(self._options["floor"])
