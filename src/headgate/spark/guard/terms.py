"""What a guard's call fixed for its tasks, and which task is which."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from headgate.guards.inline_policy import InlinePolicy
from headgate.spark.guard.memory import GuardMemory
from headgate.spark.guard.output import results_in
from headgate.store.lease import Holder
from headgate.store.places.place import place_from

__all__ = ["GuardTerms", "TaskId"]


@dataclass(frozen=True)
class TaskId:
    """Which task this is: of which query, batch and partition, and in which run of the query."""

    query: str
    batch: int
    partition: int
    run: str | None

    @classmethod
    def here(cls, call: str) -> TaskId:
        """From Spark's task context; a batch job is a query of one batch, named by its `guard` call."""
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        query = context.getLocalProperty("sql.streaming.queryId") if context else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context else None
        if context is None or query is None or batch is None:
            return cls(f"batch-{call}", 0, partition, None)
        return cls(query, int(batch), partition, context.getLocalProperty("spark.jobGroup.id"))


@dataclass(frozen=True)
class GuardTerms:
    """What a guard's call fixed for its tasks; pickled once, read in every task."""

    name: str
    function: Callable[[Any], Any]
    #: "row", "pandas" or "arrow".
    form: str
    #: All columns, in the order in which they come; their names are not theirs on the way.
    columns: tuple[str, ...]
    #: The function's columns, the guard's own not among them.
    inputs: tuple[str, ...]
    keys: tuple[str, ...]
    arrival: str | None
    #: A boolean column: rows that are not dropped.
    protected: str | None
    #: A column of weights that the rows bring with them.
    weights: str | None
    #: The function's result, and then the guard's own columns.
    output: pa.Schema
    policy: InlinePolicy
    control: str | None
    on_error: str
    dead_letters: str | None
    chunk: int
    seed: int
    #: Whether the rows are a stream's: then workers that are starting cost no rows.
    streaming: bool
    #: Names this call of `guard`, and its number in the driver process.
    call: str
    number: int = 0
    #: The folder where dropped rows go (`headgate.spark.dropped`); None where they only count.
    dropped: str | None = None
    #: The driver process that built the guard.
    driver: Holder | None = None
    clock: Callable[[], float] = time.time
    stopwatch: Callable[[], float] = time.perf_counter
    #: The share of the target by which a row of a run's first batches counts as having come before its
    #: task began, at most. The other share is left for the batch itself, which so ends about a target
    #: after it began, and leaves the next one no more than it can catch up with.
    cold_wait: float = 0.5
    #: Rows that a task takes in before it decides about the first, and their bytes in Arrow: with costs
    #: of 20 microseconds, below which a guard is no gain, they fill a second. They bound memory.
    ahead_rows: int = 50_000
    ahead_bytes: int = 32 << 20

    @property
    def results(self) -> list[pa.Field]:
        """The function's own columns."""
        return results_in(self.output)

    def memory(self) -> GuardMemory | None:
        """The guard's memory, where there is a control folder."""
        if self.control is None:
            return None
        owner = "" if self.driver is None else self.driver.owner
        return GuardMemory(place_from(self.control), self.name, self.policy, self.number, owner)
