"""The guard in a Python worker: rows in, one at a time or in chunks; results and counts out.

A task takes in its rows, as many as fit into some memory, before it decides about the first one: what
they will cost together sets the price.

Everything here runs inside a Spark task. The clock of a row's wait and the clock of its cost are one:
the performance counter, set to the wall clock once a task, so that a wall clock that jumps does not bend
costs.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headgate.errors import ControlFolderError
from headgate.guards.inline import Expected
from headgate.sketches.keys import stable_key
from headgate.spark.dropped.writing import DroppedRows
from headgate.spark.guard.calling import Caller, Given
from headgate.spark.guard.learned import Learned
from headgate.spark.guard.output import (
    MISFIT,
    Out,
    arrays_of,
    file_batch,
    misfit_in,
    record_batch,
)
from headgate.spark.guard.terms import GuardTerms, TaskId
from headgate.store.folder import unclaim, write_text
from headgate.store.places.place import place_from

__all__ = ["GuardTask"]


@dataclass(frozen=True)
class GuardTask:
    """What `mapInArrow` calls with a partition's rows."""

    terms: GuardTerms

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Guard the rows of one partition."""
        names = list(self.terms.columns)
        filled = (batch.rename_columns(names) for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is not None:
            work = _Work(self.terms, TaskId.here(self.terms.call))
            yield from work.run(itertools.chain([first], filled))
            work.finish()
            yield from work.files()


class _Work:
    """One task, from the moment its first rows are there."""

    def __init__(self, terms: GuardTerms, task: TaskId) -> None:
        self._terms, self._id = terms, task
        self._learned = Learned(terms, task)
        self._began = terms.clock()
        offset = self._began - terms.stopwatch()
        self._caller = Caller(terms, task, self._learned.shedder, offset)
        self._dropped = None if terms.dropped is None else DroppedRows(terms.dropped, "row")

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What becomes of the rows, Arrow batch by Arrow batch."""
        shedder = self._learned.shedder
        if not shedder.looks_ahead:
            for batch in batches:
                yield self._done(self._given(batch))
            return
        for at_hand, more in self._gathered(batches):
            givens = [self._given(batch) for batch in at_hand]
            shedder.expect(self._expected(givens, more), self._caller.now())
            for given in givens:
                yield self._done(given)

    def _gathered(
        self, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[list[pa.RecordBatch], bool]]:
        """Batches that fit into memory together, and whether there are more."""
        terms, following = self._terms, next(batches, None)
        while following is not None:
            at_hand, rows, size = [following], following.num_rows, following.nbytes
            following = next(batches, None)
            while following is not None:
                rows, size = rows + following.num_rows, size + following.nbytes
                if rows > terms.ahead_rows or size > terms.ahead_bytes:
                    break
                at_hand.append(following)
                following = next(batches, None)
            yield at_hand, following is not None

    def _expected(self, givens: list[Given], more: bool) -> Expected:
        keys = list(itertools.chain.from_iterable(given.keys for given in givens))
        counted = list(itertools.chain.from_iterable(given.counted for given in givens))
        protected: list[bool] | None = None
        if self._terms.protected is not None:
            protected = list(itertools.chain.from_iterable(given.protected or () for given in givens))
        return Expected(keys, counted, protected, more, self._terms.streaming)

    def _given(self, batch: pa.RecordBatch) -> Given:
        terms = self._terms
        keys = _keys([batch.column(name) for name in terms.keys])
        arrivals = self._arrivals(batch)
        protected = None if terms.protected is None else batch.column(terms.protected).to_pylist()
        return Given(batch, keys, arrivals, self._counted(arrivals), protected)

    def _done(self, given: Given) -> pa.RecordBatch:
        """What becomes of one Arrow batch."""
        terms, batch, out = self._terms, given.batch, Out()
        self._caller.call(given, out)
        brought = None
        if terms.weights is not None:
            # A row without a weight met no gate, and stands for itself.
            brought = pc.fill_null(batch.column(terms.weights), 1.0).to_numpy(zero_copy_only=False)
        converted = self._converted(batch, out)
        if self._dropped is not None and out.set_aside:
            rows = batch.select(list(terms.inputs)).take(pa.array(out.set_aside))
            self._dropped.add(rows, out.reasons)
        return record_batch(terms.output, converted, out, brought)

    def _arrivals(self, batch: pa.RecordBatch) -> list[float]:
        """When each row began to wait, on the wall clock."""
        if self._terms.arrival is None:
            return [self._began] * batch.num_rows
        column = batch.column(self._terms.arrival).cast(pa.timestamp("us")).cast(pa.int64())
        micros = column.fill_null(int(1e6 * self._began)).to_numpy(zero_copy_only=False)
        found: list[float] = (micros / 1e6).tolist()
        return found

    def _counted(self, arrivals: list[float]) -> list[float]:
        """From when a row's wait counts.

        In a run's first batches workers are starting, and rows that piled up meanwhile say nothing about
        what the operator can do: a row counts as if it had come `cold_wait` of a target before the
        task's start, or later.
        """
        if not self._learned.cold:
            return arrivals
        earliest = self._began - self._terms.cold_wait * self._terms.policy.target.tau_s
        return [max(at, earliest) for at in arrivals]

    def _converted(self, batch: pa.RecordBatch, out: Out) -> list[pa.Array]:
        """The results as columns; a value that does not fit its column is the function's error."""
        try:
            return arrays_of(self._terms.results, out)
        except MISFIT:
            self._set_misfits_aside(batch, out)
            return arrays_of(self._terms.results, out)

    def _set_misfits_aside(self, batch: pa.RecordBatch, out: Out) -> None:
        found, out.done = out.done, []
        for done in found:
            misfit = None if done.result is None else misfit_in(self._terms.results, done.result)
            if misfit is None:
                out.done.append(done)
                continue
            row = batch.slice(done.row, 1)
            key = _keys([row.column(name) for name in self._terms.keys])[0]
            given = row.select(list(self._terms.inputs)).to_pylist()[0]
            measured = done.wait_s, done.cost_s, done.weight
            self._caller.failed(out, done.row, key, given, misfit, measured)

    def files(self) -> Iterator[pa.RecordBatch]:
        """The names of the files with this attempt's dropped rows, behind all of its results."""
        names = [] if self._dropped is None else self._dropped.close()
        if names:
            yield file_batch(self._terms.output, names)

    def finish(self) -> None:
        """Leave behind the rows that failed, and what was learned."""
        if self._terms.dead_letters is not None:
            task = self._id
            name = f"{self._terms.name}-{task.query}-{task.batch:012d}-{task.partition}.jsonl"
            path = place_from(self._terms.dead_letters) / name
            if self._caller.letters:
                try:
                    write_text(path, "\n".join(self._caller.letters) + "\n")
                except OSError as error:
                    raise ControlFolderError(
                        f"guard {self._terms.name!r}: {len(self._caller.letters):,} rows of batch "
                        f"{task.batch} failed and cannot be written to {self._terms.dead_letters!r} "
                        f"({error}): the batch fails, as they would be lost. Let workers write there "
                        "again and start the query, or give another on_error="
                    ) from error
            else:
                # An earlier attempt's. A store that is gone for a moment ends no query that has
                # nothing to write there.
                with contextlib.suppress(OSError):
                    unclaim(path)
        self._learned.leave()


def _keys(columns: list[pa.Array]) -> list[Hashable]:
    """The rows' keys, as Python values that a dictionary takes."""
    parts: list[list[Any]] = []
    for column in columns:
        values = column.to_pylist()
        if pa.types.is_nested(column.type):
            values = [stable_key(value) for value in values]
        parts.append(values)
    return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))
