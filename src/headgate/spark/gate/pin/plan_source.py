"""The plan as a Spark data source: read once a batch, in a task that knows its batch.

Spark plans the source once but calls `read` again for every micro-batch, in a task whose local
properties name the query and the batch. So `read` can pin the batch's plan on first use, and a
replayed batch meets the plan that it met before.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from headgate.core.plan import KEEP_ALL, Plan
from headgate.core.rescue import Rescue
from headgate.spark.gate.pin.resolver import Resolver
from headgate.spark.gate.pin.task_plan import TaskPlan, batch_of_task
from headgate.store.folder import claim_json, is_used, read_json, unclaim
from headgate.store.gate_files.gate_call import GateCall
from headgate.store.lease import Holder
from headgate.store.places.place import Place, place_from

__all__ = ["FORMAT", "PlanSource"]

FORMAT = "headgate_plan"


class PlanSource(DataSource):
    """Two views of a plan: ``thresholds`` (one row: the default's, then each class's, and what a row is
    worth at a site), and ``exceptions`` (a row for each group key)."""

    @classmethod
    def name(cls) -> str:
        """The name under which Spark finds it."""
        return FORMAT

    def schema(self) -> str:
        """The columns of the view."""
        if self.options["view"] == "thresholds":
            return "t array<bigint>, sic double"
        return "k bigint, t bigint"

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
            yield [default, *(exceptions.get(number, default) for number in classes)], plan.sic
        else:
            yield from exceptions.items()

    def _plan(self) -> Plan:
        running = batch_of_task()
        given = self._options
        if running is None:
            if "resolver" in given:
                Resolver.from_text(given["resolver"])  # can workers import the policy?
            return self._trial(place_from(given["control"]), given.get("trial"))
        lookup = TaskPlan(
            given["control"], given["gate"], given["shape"], given["on_failure"],
            float(given["min_keep"]), given.get("on_reshape", "refuse"),
            Holder.from_json(json.loads(given.get("driver", "null"))),
            GateCall.from_json(json.loads(given["call"])),
            given.get("resolver"),
            Rescue.from_json(json.loads(given.get("rescue", "null"))), int(given["classes"]),
            "sink_told" in given, "state_apart" in given, given.get("mode", "shed"),
        )  # fmt: skip
        return lookup.of(*running)

    @staticmethod
    def _trial(control: Place, mark: str | None) -> Plan:
        """The gate's call reads once, outside any batch: do here what a batch will need.

        `mark` is a file that the driver has just written: a folder of the same name that does not have
        it is another folder.
        """
        if not is_used(control):
            raise OSError(f"control folder {str(control)!r} is not there")
        if mark is not None and read_json(control / mark) != {"trial": mark}:
            raise OSError(
                f"control folder {str(control)!r} is another one here than on the driver: it does not "
                "have what the driver has just written"
            )
        trial = control / f".trial-{uuid.uuid4().hex}"
        claim_json(trial, {})
        unclaim(trial)
        return KEEP_ALL
