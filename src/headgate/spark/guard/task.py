"""The guard in a Python worker: rows in, one at a time or in chunks; results and counts out.

Everything here runs inside a Spark task. The clock of a row's wait and the clock of its cost are one:
the performance counter, set to the wall clock once a task, so that a wall clock that jumps does not bend
costs.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from headgate.errors import GuardedFunctionError, HeadgateError
from headgate.guards.inline import InlineShedder
from headgate.guards.inline_policy import InlinePolicy
from headgate.sketches.hashing import mix64
from headgate.sketches.keys import stable_key
from headgate.spark.gate.task_plan import run_of_task
from headgate.spark.guard.memory import GuardMemory
from headgate.spark.guard.output import (
    ERROR,
    MISFIT,
    Done,
    Out,
    Shaper,
    arrays_of,
    called,
    misfit_in,
    record_batch,
    results_in,
)
from headgate.store.folder import write_text
from headgate.store.gate_call import GateCall
from headgate.store.lease import Holder

__all__ = ["COLD_BATCHES", "GuardTask"]

#: Batches of a run that are cold.
COLD_BATCHES = 2
#: In a worker without a control folder: what the process remembers, by guard, query and partition.
_REMEMBERED: dict[tuple[str, str, int], dict[str, Any]] = {}
_MOST_REMEMBERED = 256


@dataclass(frozen=True)
class Place:
    """Which task this is."""

    query: str
    batch: int
    partition: int
    run: str | None

    @classmethod
    def here(cls, call: str) -> Place:
        """From Spark's task context; a batch job is a query of one batch, named by its `guard` call."""
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        query = context.getLocalProperty("sql.streaming.queryId") if context else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context else None
        if context is None or query is None or batch is None:
            return cls(f"batch-{call}", 0, partition, None)
        return cls(query, int(batch), partition, context.getLocalProperty("spark.jobGroup.id"))


@dataclass(frozen=True)
class GuardTask:
    """What `mapInArrow` calls with a partition's rows; pickled once, run in every task."""

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
    #: The driver process that built the guard.
    driver: Holder | None = None
    clock: Callable[[], float] = time.time
    stopwatch: Callable[[], float] = time.perf_counter

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A partition's rows."""
        work: _Work | None = None
        for batch in batches:
            if batch.num_rows:
                work = work or _Work(self, Place.here(self.call))
                yield work.batch(batch.rename_columns(list(self.columns)))
        if work is not None:
            work.finish()

    @property
    def results(self) -> list[pa.Field]:
        """The function's own columns."""
        return results_in(self.output)

    def memory(self) -> GuardMemory | None:
        """The guard's memory, where there is a control folder."""
        return None if self.control is None else GuardMemory(Path(self.control), self.name, self.policy)


class _Work:
    """One task, from the moment its first rows are there."""

    def __init__(self, task: GuardTask, place: Place) -> None:
        self._task, self._place = task, place
        self._memory = task.memory()
        self._letters: list[str] = []
        self._cold = True
        self._shedder = self._build()
        self._began = task.clock()
        self._offset = self._began - task.stopwatch()

    def _build(self) -> InlineShedder:
        task, place = self._task, self._place
        own: Mapping[str, Any] | None = None
        costs = task.policy.costs()
        warm_run: str | None = None
        if self._memory is None:
            state = _REMEMBERED.get(self._remembered_as)
            if state is not None and state["policy"] == task.policy:
                costs, own = state["costs"], state["queue"]
                warm_run = state["run"] if state["batches"] >= COLD_BATCHES else None
        else:
            with contextlib.suppress(OSError):  # nothing is remembered, and the query goes on
                costs = self._memory.costs(place.query, place.batch)
                own = self._memory.queue(place.query, place.partition)
                warm_run = self._memory.warm_run(place.query)
                if task.streaming:
                    driver = None if task.driver is None else replace(task.driver, run=run_of_task())
                    self._memory.mark_begun(place.query, place.batch, driver, GateCall(task.number))
        self._cold = task.streaming and (place.run is None or warm_run != place.run)
        self._costs = costs
        luck = mix64(task.seed + mix64((place.batch << 20) + place.partition))
        try:
            return task.policy.build(costs, costs.mean, luck, own)
        except (HeadgateError, KeyError, TypeError, ValueError):
            return task.policy.build(costs, costs.mean, luck, None)  # damaged: begin again

    @property
    def _remembered_as(self) -> tuple[str, str, int]:
        query = self._place.query if self._task.streaming else "batch"
        return self._task.name, query, self._place.partition

    def _now(self) -> float:
        return self._task.stopwatch() + self._offset

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        out = Out()
        keys = _keys([batch.column(name) for name in self._task.keys])
        arrivals = self._arrivals(batch)
        flags = None
        if self._task.protected is not None:
            flags = batch.column(self._task.protected).to_pylist()
        if self._task.form == "row":
            self._rows(batch, keys, arrivals, flags, out)
        else:
            self._chunks(batch, keys, arrivals, flags, out)
        task = self._task
        brought = None
        if task.weights is not None:
            brought = batch.column(task.weights).to_numpy(zero_copy_only=False)
        return record_batch(task.output, self._converted(batch, out), out, brought)

    def _arrivals(self, batch: pa.RecordBatch) -> list[float]:
        """When each row began to wait, on the wall clock."""
        if self._task.arrival is None:
            return [self._began] * batch.num_rows
        column = batch.column(self._task.arrival).cast(pa.timestamp("us")).cast(pa.int64())
        micros = column.fill_null(int(1e6 * self._began)).to_numpy(zero_copy_only=False)
        found: list[float] = (micros / 1e6).tolist()
        return found

    def _counted(self, arrivals: list[float]) -> list[float]:
        """From when a row's wait counts.

        In a run's first batches a row counts as if it had come half a target before the task's start,
        or later: workers are starting, and rows that piled up meanwhile say nothing about what the
        operator can do. The other half is left for the batch itself, which so ends about a target after
        it began, and leaves the next one no more than it can catch up with.
        """
        if not self._cold:
            return arrivals
        earliest = self._began - 0.5 * self._task.policy.target.tau_s
        return [max(at, earliest) for at in arrivals]

    # Row functions.

    def _rows(
        self, batch: pa.RecordBatch, keys: list[Hashable], arrivals: list[float],
        flags: list[bool] | None, out: Out,
    ) -> None:  # fmt: skip
        from pyspark.sql import Row

        task = self._task
        make = Row(*task.inputs)
        function, offer, done = task.function, self._shedder.offer, self._shedder.done
        watch, offset = task.stopwatch, self._offset
        shape, keep = Shaper([f.name for f in task.results]), out.done.append
        columns = [batch.column(name).to_pylist() for name in task.inputs]
        counted, passed = self._counted(arrivals), self._shedder.passed
        now = watch() + offset
        for place, values in enumerate(zip(*columns, strict=True)):
            key, arrived = keys[place], arrivals[place]
            weight, reason = 1.0, ""
            if flags is None or not flags[place]:
                weight, reason = offer(key, counted[place], now)
            else:
                passed(counted[place], now)
            if weight == 0.0:
                out.drop(reason)
                now = watch() + offset
                continue
            start = watch()
            try:
                result = shape(function(make(*values)))
            except Exception as error:
                took = watch() - start
                now = start + took + offset
                done(key, took, now)
                self._failed(out, place, key, dict(zip(task.inputs, values, strict=True)), error,
                             (start + offset - arrived, took, weight))  # fmt: skip
                continue
            took = watch() - start
            now = start + took + offset
            done(key, took, now)
            keep(Done(place, result, start + offset - arrived, took, weight))

    def _failed(
        self, out: Out, place: int, key: Hashable, row: dict[str, Any], error: Exception,
        measured: tuple[float, float, float],
    ) -> None:  # fmt: skip
        """The function raised: as the user chose, and never in silence."""
        text = f"{type(error).__name__}: {error}"
        if self._task.on_error == "fail":
            where = f"on a row with key {key!r}"
            if self._task.form != "row":
                where = f"on a call whose first row has key {key!r}"
            raise GuardedFunctionError(
                f"guard {self._task.name!r}: the function failed {where}: {text}. If it is the rows' "
                'fault, on_error="dead-letter" sets them aside, and on_error="keep" passes them on with '
                f"their error in {ERROR}"
            ) from error
        if self._task.on_error == "keep":
            out.done.append(Done(place, None, *measured, text))
            return
        place_of = self._place
        letter = {"error": text, "query": place_of.query, "batch": place_of.batch, "row": row}
        self._letters.append(json.dumps(letter, default=str))
        out.drop("dead_letter")

    # Batch functions.

    def _chunks(
        self, batch: pa.RecordBatch, keys: list[Hashable], arrivals: list[float],
        flags: list[bool] | None, out: Out,
    ) -> None:  # fmt: skip
        chosen: list[tuple[int, float]] = []
        counted = self._counted(arrivals)
        ahead = 0.0
        now = self._now()
        for place in range(batch.num_rows):
            weight, reason = 1.0, ""
            if flags is None or not flags[place]:
                # What was chosen before it runs first.
                weight, reason = self._shedder.offer(keys[place], counted[place], now + ahead)
            else:
                self._shedder.passed(counted[place], now + ahead)
            if weight == 0.0:
                out.drop(reason)
            else:
                chosen.append((place, weight))
                ahead += self._shedder.cost(keys[place])
            if len(chosen) >= self._task.chunk:
                self._run_chunk(batch, chosen, keys, arrivals, out)
                chosen, ahead, now = [], 0.0, self._now()
        if chosen:
            self._run_chunk(batch, chosen, keys, arrivals, out)

    def _run_chunk(
        self, batch: pa.RecordBatch, chosen: list[tuple[int, float]], keys: list[Hashable],
        arrivals: list[float], out: Out,
    ) -> None:  # fmt: skip
        """Call the function with some rows; a failing chunk is called again row by row."""
        places = [place for place, _ in chosen]
        rows = batch.select(list(self._task.inputs)).take(pa.array(places))
        start = self._task.stopwatch()
        try:
            results = called(self._task.function, self._task.form, rows, self._task.results)
        except Exception as error:
            if len(chosen) > 1 and self._task.on_error != "fail":
                for one in chosen:
                    self._run_chunk(batch, [one], keys, arrivals, out)
                return
            took = self._task.stopwatch() - start
            place, weight = chosen[0]
            self._shedder.done(keys[place], took, self._now())
            waited = start + self._offset - arrivals[place]
            self._failed(out, place, keys[place], rows.to_pylist()[0], error, (waited, took, weight))
            return
        took = self._task.stopwatch() - start
        now = self._now()
        for (place, weight), cost, result in zip(
            chosen, self._attributed([keys[p] for p in places], took), results, strict=True
        ):
            self._shedder.done(keys[place], cost, now)
            waited = start + self._offset - arrivals[place]
            out.done.append(Done(place, result, waited, cost, weight))

    def _attributed(self, keys: list[Hashable], took: float) -> list[float]:
        """Share a call's time among its rows, in proportion to what each was expected to take.

        Rows of which nothing is known count as the mean row. As calls with other rows come, a key's
        share moves to what explains their times (the update of maximum-likelihood expectation
        maximisation); the sum is always the time that was measured.
        """
        expected = [self._shedder.cost(key) for key in keys]
        whole = sum(expected)
        if whole <= 0.0:
            return [took / len(keys)] * len(keys)
        return [took * cost / whole for cost in expected]

    # The way out.

    def _converted(self, batch: pa.RecordBatch, out: Out) -> list[pa.Array]:
        """A value that does not fit its column is the function's error."""
        try:
            return arrays_of(self._task.results, out)
        except MISFIT:
            self._set_misfits_aside(batch, out)
            return arrays_of(self._task.results, out)

    def _set_misfits_aside(self, batch: pa.RecordBatch, out: Out) -> None:
        found, out.done = out.done, []
        for done in found:
            misfit = None if done.result is None else misfit_in(self._task.results, done.result)
            if misfit is None:
                out.done.append(done)
                continue
            row = batch.slice(done.place, 1)
            key = _keys([row.column(name) for name in self._task.keys])[0]
            given = row.select(list(self._task.inputs)).to_pylist()[0]
            measured = done.wait_s, done.cost_s, done.weight
            self._failed(out, done.place, key, given, misfit, measured)

    def finish(self) -> None:
        """Leave behind what was learned."""
        task, place = self._task, self._place
        if task.dead_letters is not None:
            name = f"{task.name}-{place.query}-{place.batch:012d}-{place.partition}.jsonl"
            path = Path(task.dead_letters) / name
            if self._letters:
                write_text(path, "\n".join(self._letters) + "\n")
            else:
                path.unlink(missing_ok=True)  # an earlier attempt's
        lessons = list(self._shedder.lessons())
        if self._memory is not None:
            try:
                self._memory.leave_lesson(place.query, place.batch, place.partition, lessons)
                self._memory.keep_queue(place.query, place.partition, self._shedder.state())
            except OSError:
                return  # the control folder is gone: nothing is remembered, and the query goes on
            return
        for key, runs, mean in lessons:
            self._costs.learn(key, mean, runs)
        before = _REMEMBERED.pop(self._remembered_as, None)
        again = before is not None and before["run"] == place.run
        if len(_REMEMBERED) >= _MOST_REMEMBERED:
            _REMEMBERED.clear()
        _REMEMBERED[self._remembered_as] = {
            "policy": task.policy,
            "run": place.run,
            "batches": before["batches"] + 1 if before is not None and again else 1,
            "costs": self._costs,
            "queue": self._shedder.state(),
        }


def _keys(columns: list[pa.Array]) -> list[Hashable]:
    """The rows' keys, as Python values that a dictionary takes."""
    parts: list[list[Any]] = []
    for column in columns:
        values = column.to_pylist()
        if pa.types.is_nested(column.type):
            values = [stable_key(value) for value in values]
        parts.append(values)
    return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))
