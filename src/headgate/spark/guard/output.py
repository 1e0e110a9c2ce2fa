"""How rows leave a guard: results, measures, and counts of what was dropped, as Arrow columns.

A dropped row leaves no row of its own: each Arrow batch has one row for each reason, with how many there
were, so that Spark's own metrics count them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.spark.gate.shape import WEIGHT

__all__ = [
    "COST",
    "ERROR",
    "FILE",
    "MISFIT",
    "OUTCOME",
    "OUTCOMES",
    "QUEUE",
    "ROWS",
    "Done",
    "Out",
    "Shaper",
    "arrays_of",
    "called",
    "file_batch",
    "misfit_in",
    "record_batch",
    "results_in",
]

QUEUE, COST, ERROR = "_queue_ms", "_cost_ms", "_error"
#: Scratch columns: what became of the rows, by its index in `OUTCOMES`, and of how many.
OUTCOME, ROWS = "_headgate_outcome", "_headgate_rows"
#: And the name of a file of dropped rows, where they are set aside; such a row has nothing else.
FILE = "_headgate_file"
OUTCOMES = ("kept", "failed", "price", "latency", "chance", "dead_letter")
_KEPT, _FAILED = 0, 1
#: What Arrow raises for a value that is not of a column's type.
MISFIT = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError)


def results_in(output: pa.Schema) -> list[pa.Field]:
    """The function's own columns."""
    return [f for f in output if f.name not in (QUEUE, COST, WEIGHT, ERROR, OUTCOME, ROWS, FILE)]


class Done(NamedTuple):
    """A row that was executed: the index of its row in the batch, its result, what was measured."""

    row: int
    #: None if the function failed and the row is passed on.
    result: Sequence[Any] | None
    wait_s: float
    cost_s: float
    weight: float
    error: str | None = None


@dataclass
class Out:
    """What one Arrow batch becomes."""

    done: list[Done] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    #: The indices of the dropped rows in the batch, and why each was.
    set_aside: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def drop(self, reason: str, row: int) -> None:
        """One more row that was dropped."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
        self.set_aside.append(row)
        self.reasons.append(reason)


class Shaper:
    """Makes a tuple, in the schema's order, of what a row function returned."""

    def __init__(self, names: list[str]) -> None:
        self._names, self._count = names, len(names)

    def __call__(self, result: Any) -> Sequence[Any]:
        """The values; ValueError says what is wrong with it."""
        if hasattr(result, "__fields__"):  # a Row with names
            result = result.asDict()
        if isinstance(result, tuple) or (isinstance(result, list) and self._count > 1):
            if len(result) != self._count:
                raise ValueError(f"it returned {len(result)} values; schema= has {self._count} columns")
            return result
        if isinstance(result, dict):
            try:
                return [result[name] for name in self._names]
            except KeyError as error:
                raise ValueError(
                    f"it returned no {error.args[0]!r}, which is in schema=; it has {sorted(result)}"
                ) from None
        if self._count == 1:
            return (result,)
        raise ValueError(
            f"it returned a {type(result).__name__}; return a dict, Row or tuple with the columns of "
            f"schema= ({', '.join(self._names)})"
        )


def called(
    function: Callable[[Any], Any], form: str, rows: pa.RecordBatch, results: list[pa.Field]
) -> list[Sequence[Any]]:
    """What a pandas or Arrow function returns for some rows, row by row."""
    schema = pa.schema(results)
    answer = function(rows.to_pandas() if form == "pandas" else rows)
    returned = len(answer) if form == "pandas" else answer.num_rows
    if returned != rows.num_rows:
        raise ValueError(
            f"it was given {rows.num_rows} rows and returned {returned}: a guarded batch function "
            "returns one row for each that it is given, in their order"
        )
    if form == "pandas":
        columns = pa.RecordBatch.from_pandas(answer, schema=schema, preserve_index=False).columns
    else:
        columns = [answer.column(f.name).cast(f.type) for f in schema]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def arrays_of(results: list[pa.Field], out: Out) -> list[pa.Array]:
    """The results as Arrow columns, nulls for the counts; raises one of `MISFIT`."""
    blank = (None,) * len(results)
    rows = [blank if d.result is None else d.result for d in out.done] + [blank] * len(out.dropped)
    return [pa.array([row[index] for row in rows], column.type) for index, column in enumerate(results)]


def misfit_in(results: list[pa.Field], result: Sequence[Any]) -> Exception | None:
    """What is wrong with one row's result, if its types are."""
    for column, value in zip(results, result, strict=True):
        try:
            pa.array([value], column.type)
        except MISFIT as error:
            return TypeError(
                f"it returned {value!r} for {column.name!r}, which is {column.type} in schema= ({error})"
            )
    return None


def record_batch(
    output: pa.Schema, arrays: list[pa.Array], out: Out, brought: npt.NDArray[np.float64] | None
) -> pa.RecordBatch:
    """Results and measures, and the counts; `brought` are the weights that rows came with."""
    done, blank = out.done, [None] * len(out.dropped)
    waits = np.fromiter((d.wait_s for d in done), np.float64, len(done))
    costs = np.fromiter((d.cost_s for d in done), np.float64, len(done))
    weights = np.fromiter((d.weight for d in done), np.float64, len(done))
    if brought is not None and done:
        weights = weights * brought[[d.row for d in done]]
    arrays = list(arrays)
    for values in (1e3 * np.maximum(waits, 0.0), 1e3 * costs, weights):
        arrays.append(pa.concat_arrays([pa.array(values), pa.array(blank, pa.float64())]))
    if ERROR in output.names:
        arrays.append(pa.array([*(d.error for d in done), *blank], pa.string()))
    outcomes = [_KEPT if d.error is None else _FAILED for d in done]
    outcomes += [OUTCOMES.index(reason) for reason in out.dropped]
    arrays.append(pa.array(outcomes, pa.int8()))
    arrays.append(pa.array([*[1] * len(done), *out.dropped.values()], pa.int64()))
    if FILE in output.names:
        arrays.append(pa.nulls(len(done) + len(blank), pa.string()))
    return pa.RecordBatch.from_arrays(arrays, schema=output)


def file_batch(output: pa.Schema, names: Sequence[str]) -> pa.RecordBatch:
    """The names of files of dropped rows; no other column says anything."""
    arrays = [pa.nulls(len(names), column.type) for column in output]
    arrays[output.names.index(FILE)] = pa.array(names, pa.string())
    return pa.RecordBatch.from_arrays(arrays, schema=output)
