"""Compile a condition's kernels before the first batch needs them.

numba compiles on first use and keeps the result on disk; a first batch that waits for it takes some ten
seconds longer. Small blocks of every shape, with few and with many probes, reach every kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.joins.blocks_match import Reach, match
from headgate.joins.choice import choose
from headgate.joins.conditions import Condition, Equal, InnerProduct, Predicate
from headgate.joins.item_counts import ItemCounts, densities
from headgate.joins.rows import KeyRows, PlainRows, Rows, SetRows, VectorRows, WeightedRows

__all__ = ["warm_up"]

_ROWS = 400


def warm_up(condition: Condition) -> None:
    """Call every kernel that rows under this condition may meet."""
    for make in _makers(condition):
        probe, rows = make(), make()
        for reach in (Reach(10**9, 10**9), Reach(5, 5)):
            for few in (np.arange(3, dtype=np.int32), None):
                for left in (True, False):
                    match(
                        condition, probe, rows, few, reach, probe_is_left=left,
                        test=lambda i, j: np.zeros(len(i), bool),
                    )  # fmt: skip
        if not isinstance(rows, SetRows | KeyRows | WeightedRows):
            continue
        counts = ItemCounts.from_bytes(ItemCounts.of(rows).to_bytes())
        for left in (True, False):
            found = densities(condition, probe, counts, probe_is_left=left)
            if found is not None:
                choose([found], [rows.n], 1000.0, result_cost=1.0)


def _makers(condition: Condition) -> list[Callable[[], Rows]]:
    random = np.random.default_rng(1)
    time = np.arange(_ROWS, dtype=np.int64)
    offsets = np.arange(0, 4 * _ROWS + 1, 4, dtype=np.int32)

    def items(most: int) -> npt.NDArray[Any]:
        return random.integers(0, most, 4 * _ROWS)

    def sets(most: int) -> Rows:
        return SetRows.of(time, offsets, items(most))

    if isinstance(condition, Predicate):
        return [lambda: PlainRows.of(time)]
    if isinstance(condition, Equal):
        return [lambda: KeyRows.of(time, random.integers(0, 50, _ROWS))]
    if isinstance(condition, InnerProduct):
        weights = random.random(4 * _ROWS)
        return [
            lambda: WeightedRows.of(time, offsets, items(200), weights),
            lambda: VectorRows.of(time, random.normal(size=(_ROWS, 4))),
        ]
    return [lambda: sets(100), lambda: sets(10**6)]
