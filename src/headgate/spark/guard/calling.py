"""The guarded function at work: row by row or in chunks, each row asked for when its turn comes."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headgate.errors import GuardedFunctionError
from headgate.guards.inline import InlineShedder
from headgate.spark.guard.output import ERROR, Done, Out, Shaper, called
from headgate.spark.guard.terms import GuardTerms, TaskId

__all__ = ["Caller", "Given"]


@dataclass(frozen=True)
class Given:
    """The rows of one Arrow batch, and what the shedder needs to know of each."""

    batch: pa.RecordBatch
    keys: list[Hashable]
    #: When each row began to wait, and when the target takes it to have begun, on the wall clock.
    arrivals: list[float]
    counted: list[float]
    #: Which rows must not be dropped; None: none.
    protected: list[bool] | None


class Caller:
    """Calls the function with the rows that the shedder keeps, and measures what they take."""

    def __init__(self, terms: GuardTerms, task: TaskId, shedder: InlineShedder, offset_s: float) -> None:
        #: `offset_s` makes the stopwatch tell the time of day.
        self._terms, self._id, self._shedder, self._offset = terms, task, shedder, offset_s
        #: Rows that the function failed on, as lines of JSON.
        self.letters: list[str] = []

    def now(self) -> float:
        """The time of day, by the stopwatch."""
        return self._terms.stopwatch() + self._offset

    def call(self, given: Given, out: Out) -> None:
        """Call the function for one Arrow batch."""
        if self._terms.form == "row":
            self._rows(given, out)
        else:
            self._chunks(given, out)

    def _rows(self, given: Given, out: Out) -> None:
        from pyspark.sql import Row

        terms = self._terms
        make = Row(*terms.inputs)
        function, offer, done = terms.function, self._shedder.offer, self._shedder.done
        watch, offset = terms.stopwatch, self._offset
        shape, keep = Shaper([f.name for f in terms.results]), out.done.append
        columns = [given.batch.column(name).to_pylist() for name in terms.inputs]
        keys, arrivals, counted = given.keys, given.arrivals, given.counted
        protected, passed = given.protected, self._shedder.passed
        now = watch() + offset
        for index, values in enumerate(zip(*columns, strict=True)):
            key, arrived = keys[index], arrivals[index]
            weight, reason = 1.0, ""
            if protected is None or not protected[index]:
                weight, reason = offer(key, counted[index], now)
            else:
                passed(counted[index], now)
            if weight == 0.0:
                out.drop(reason, index)
                now = watch() + offset
                continue
            start = watch()
            try:
                result = shape(function(make(*values)))
            except Exception as error:
                took = watch() - start
                now = start + took + offset
                done(key, took, now)
                self.failed(out, index, key, dict(zip(terms.inputs, values, strict=True)), error,
                            (start + offset - arrived, took, weight))  # fmt: skip
                continue
            took = watch() - start
            now = start + took + offset
            done(key, took, now)
            keep(Done(index, result, start + offset - arrived, took, weight))

    def failed(
        self, out: Out, index: int, key: Hashable, row: dict[str, Any], error: Exception,
        measured: tuple[float, float, float],
    ) -> None:  # fmt: skip
        """Deal with a row on which the function raised: as the user chose, and never in silence."""
        text = f"{type(error).__name__}: {error}"
        if self._terms.on_error == "fail":
            where = f"on a row with key {key!r}"
            if self._terms.form != "row":
                where = f"on a call whose first row has key {key!r}"
            raise GuardedFunctionError(
                f"guard {self._terms.name!r}: the function failed {where}: {text}. If it is the rows' "
                'fault, on_error="dead-letter" sets them aside, and on_error="keep" passes them on with '
                f"their error in {ERROR}"
            ) from error
        if self._terms.on_error == "keep":
            out.done.append(Done(index, None, *measured, text))
            return
        task = self._id
        letter = {"error": text, "query": task.query, "batch": task.batch, "row": row}
        self.letters.append(json.dumps(letter, default=str))
        out.drop("dead_letter", index)

    def _chunks(self, given: Given, out: Out) -> None:
        keys, counted, protected = given.keys, given.counted, given.protected
        chosen: list[tuple[int, float]] = []
        ahead = 0.0
        now = self.now()
        for index in range(given.batch.num_rows):
            weight, reason = 1.0, ""
            if protected is None or not protected[index]:
                # What was chosen before it runs first.
                weight, reason = self._shedder.offer(keys[index], counted[index], now + ahead)
            else:
                self._shedder.passed(counted[index], now + ahead)
            if weight == 0.0:
                out.drop(reason, index)
            else:
                chosen.append((index, weight))
                ahead += self._shedder.cost(keys[index])
            if len(chosen) >= self._terms.chunk:
                self._run_chunk(given, chosen, out)
                chosen, ahead, now = [], 0.0, self.now()
        if chosen:
            self._run_chunk(given, chosen, out)

    def _run_chunk(self, given: Given, chosen: list[tuple[int, float]], out: Out) -> None:
        """Call the function with some rows; a failing chunk is called again row by row."""
        keys, arrivals, indices = given.keys, given.arrivals, [index for index, _ in chosen]
        rows = given.batch.select(list(self._terms.inputs)).take(pa.array(indices))
        start = self._terms.stopwatch()
        try:
            results = called(self._terms.function, self._terms.form, rows, self._terms.results)
        except Exception as error:
            if len(chosen) > 1 and self._terms.on_error != "fail":
                for one in chosen:
                    self._run_chunk(given, [one], out)
                return
            took = self._terms.stopwatch() - start
            index, weight = chosen[0]
            self._shedder.done(keys[index], took, self.now())
            waited = start + self._offset - arrivals[index]
            self.failed(out, index, keys[index], rows.to_pylist()[0], error, (waited, took, weight))
            return
        took = self._terms.stopwatch() - start
        now = self.now()
        for (index, weight), cost, result in zip(
            chosen, self._attributed([keys[i] for i in indices], took), results, strict=True
        ):
            self._shedder.done(keys[index], cost, now)
            waited = start + self._offset - arrivals[index]
            out.done.append(Done(index, result, waited, cost, weight))

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
