"""Comparisons that were decided on: their pairs, their time, and what they paid."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.errors import GuardedFunctionError
from headgate.joins.arrays import Floats, Indices
from headgate.joins.blocks_match import match
from headgate.joins.conditions import Predicate
from headgate.spark.join.block import Block
from headgate.spark.join.state import BlockStore, Target
from headgate.spark.join.tally import Done, Pairs
from headgate.spark.join.terms import JoinTerms

__all__ = ["Comparer"]


@dataclass(frozen=True)
class Comparer:
    """Compares rows with blocks, and counts into what the batch came to."""

    terms: JoinTerms
    store: BlockStore
    done: Done

    def compare(
        self,
        probe: Block,
        targets: Sequence[Target],
        picked: Indices | None = None,
        chances: Floats | None = None,
    ) -> None:
        """Compare rows of a probe (None: all) with blocks; `chances` if lots picked the rows."""
        terms, done = self.terms, self.done
        probes = probe.n if picked is None else len(picked)
        kinds = probe.rows.kind if picked is None else probe.rows.kind[picked]
        of_probe: list[Indices] = []
        utilities: list[Floats | None] = []
        weights: list[Floats | None] = []
        for target in targets:
            other = target.block(self.store)
            comparisons = terms.cost(probes, other.n)
            began = time.perf_counter()
            i, j = match(
                terms.condition,
                probe.rows,
                other.rows,
                picked,
                terms.reach(probe.side),
                probe_is_left=probe.side == 0,
                test=self._test(probe, other),
            )
            telling = comparisons >= terms.config.telling_comparisons
            if telling or isinstance(terms.condition, Predicate):
                done.compare_s += time.perf_counter() - began
                done.timed += comparisons
            matches = np.bincount(i, minlength=probe.n)
            if picked is not None:
                matches = matches[picked]
            lag = terms.lag(probe.bucket, target.bucket)
            done.stats.add(probe.side, lag, kinds, np.full(len(kinds), other.n), matches)
            of_probe.append(i)
            utilities.append(_utilities(probe, i, other, j))
            weights.append(self._weights(probe, i, other, j, utilities[-1], picked, chances))
            done.probed[probe.side] += len(i)
            if len(i):
                done.pairs.append(
                    Pairs(probe, i, other, j) if probe.side == 0 else Pairs(other, j, probe, i)
                )
        known = [u for u in utilities if u is not None]
        done.count(
            probe.buckets(terms.basic_us),
            picked,
            chances,
            np.concatenate(of_probe),
            np.concatenate(known) if len(known) == len(of_probe) else None,
            sum(terms.cost(1, t.n) for t in targets),
            _joined(weights, [len(i) for i in of_probe]),
        )

    def _weights(
        self,
        probe: Block,
        i: Indices,
        other: Block,
        j: Indices,
        utilities: Floats | None,
        picked: Indices | None,
        odds: Floats | None,
    ) -> Floats | None:
        """How many pairs each pair stands for because rows were left out; None: itself."""
        if probe.chances is None and other.chances is None:
            return None
        ours, theirs = (np.ones(b.n) if b.chances is None else b.chances for b in (probe, other))
        counts: Floats = np.ones(probe.n)
        if picked is not None and odds is not None:
            counts[picked] = 1.0 / odds
        windows = probe.buckets(self.terms.basic_us)[i]
        for window in np.unique(windows):
            own = windows == window
            sides = (id(probe), probe.side, ours), i[own], (id(other), other.side, theirs), j[own]
            self.done.totals.add(int(window), *sides, counts[i[own]])
            if utilities is not None:
                values = utilities[own] * counts[i[own]]
                self.done.utility_totals.add(int(window), *sides, values)
        return np.asarray(1.0 / (ours[i] * theirs[j]))

    def _test(self, probe: Block, other: Block) -> Any:
        """A person's own predicate over candidate pairs, as the kernel calls it."""
        condition = self.terms.condition
        if not isinstance(condition, Predicate):
            return None
        left, right = (probe, other) if probe.side == 0 else (other, probe)

        def test(i: Indices, j: Indices) -> Any:
            ours, theirs = (i, j) if probe.side == 0 else (j, i)
            frames = (
                _frame(left, condition.left_columns, ours),
                _frame(right, condition.right_columns, theirs),
            )
            try:
                return _truth(condition.function(*frames))
            except Exception as error:
                raise GuardedFunctionError(
                    f"the predicate of the join raised {type(error).__name__}: {error}; it gets two "
                    f"pandas frames with the columns {list(condition.left_columns)} and "
                    f"{list(condition.right_columns)}, one candidate pair a row"
                ) from error

        return test


def _joined(weights: list[Floats | None], lengths: list[int]) -> Floats | None:
    """The weights of all pairs; None where every pair stands for itself."""
    if all(w is None for w in weights):
        return None
    return np.concatenate(
        [np.ones(n) if w is None else w for w, n in zip(weights, lengths, strict=True)]
    )


def _utilities(probe: Block, i: Indices, other: Block, j: Indices) -> Floats | None:
    """The utility of each pair: the larger of its rows'."""
    if probe.rows.value is None or other.rows.value is None:
        return None
    return np.maximum(probe.rows.value[i], other.rows.value[j])


def _frame(block: Block, columns: Sequence[str], indices: Indices) -> Any:
    """Candidate rows as pandas, for a predicate; whole numbers with nulls among them stay whole."""
    import pandas as pd

    rows = block.batch.select(list(columns)).take(pa.array(indices))
    frame = rows.to_pandas()
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if column.null_count and pa.types.is_integer(column.type):
            frame[name] = pd.array(column.to_pylist(), dtype="Int64")
    return frame


def _truth(answers: Any) -> npt.NDArray[np.bool_]:
    """A predicate's answers; null is no match, as in SQL."""
    import pandas as pd

    found = pd.Series(answers)
    return np.asarray(found.where(found.notna(), False).astype(bool))
