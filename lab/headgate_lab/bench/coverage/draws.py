"""Draws of a population: which rows a gate keeps, and what an estimator would sum up of each cell.

Two draws. *Coins*: every row with the same chance, as a plain gate does. *Fixed*: a number of rows of
each cell, by the concept-driven gate's own allocation (equal caps, at least two rows of a group).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from headgate.policies.by_group.allocation import allocate
from headgate_lab.bench.coverage.populations import Population

__all__ = ["DRAWS", "Kept", "drawn_by", "kept_cells", "sums_of", "together"]

#: The two ways to draw.
DRAWS = ("coins", "fixed")

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Kept:
    """What one draw of a share kept, cell by cell; every array has a value for each cell with rows.

    `m2` and `m3` are mean squares and cubes about the kept rows' mean.
    """

    cell: Whole
    window: Whole
    n: Floats
    size: Floats
    mean: Floats
    m2: Floats
    m3: Floats
    #: How many rows a kept row stands for.
    weight: Floats
    #: The number of the draw.
    draw: Whole


def kept_cells(
    people: Population, draw: str, shares: tuple[float, ...], times: int, seed: int
) -> Iterator[tuple[float, Kept]]:
    """`times` draws of every share; the draws of different shares use the same luck."""
    if draw == "fixed":
        quotas = {share: _quotas(people, share) for share in shares}
        for at, kept in enumerate(drawn_by(people, quotas, times, seed)):
            yield shares[at % len(shares)], kept
        return
    sizes, middle = people.sizes, people.mean()
    off = people.values - middle[people.cells]
    for number in range(times):
        luck = np.random.default_rng([seed, number]).random(len(off))
        for share in shares:
            rows = np.flatnonzero(luck < share)
            yield (
                share,
                sums_of(people, rows, off[rows], middle, np.full(len(sizes), 1.0 / share), number),
            )


def drawn_by(people: Population, quotas: Mapping[float, Whole], times: int, seed: int) -> Iterator[Kept]:
    """Fixed draws of so many rows of each cell; those of several quotas use the same luck."""
    sizes, middle = people.sizes, people.mean()
    off = people.values - middle[people.cells]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    by_cell = np.argsort(people.cells, kind="stable")
    base = people.cells[by_cell].astype(np.float64)
    for number in range(times):
        luck = np.random.default_rng([seed, number]).random(len(off))
        order = by_cell[np.argsort(base + luck)]
        rank = np.arange(len(off)) - starts[people.cells[order]]
        for quota in quotas.values():
            rows = order[rank < quota[people.cells[order]]]
            yield sums_of(people, rows, off[rows], middle, sizes / np.maximum(quota, 1), number)


def together(draws: list[Kept]) -> Kept:
    """Several draws as one table; their pools stay apart."""
    names = [field.name for field in fields(Kept)]
    return Kept(*[np.concatenate([getattr(kept, name) for kept in draws]) for name in names])


def _quotas(people: Population, share: float) -> Whole:
    """Window by window, as the gate would."""
    sizes, found = people.sizes, np.zeros(len(people.windows), np.int64)
    for window in np.unique(people.windows):
        here = np.flatnonzero(people.windows == window)
        asked = share * sizes[here].sum()
        found[here] = allocate(sizes[here], float(asked), least=2).quotas
    return found


def sums_of(
    people: Population, rows: Whole, off: Floats, middle: Floats, weights: Floats, draw: int
) -> Kept:
    """What is summed up of these rows, which are `off` the `middle` of their cells."""
    cells, number = people.cells[rows], len(people.windows)
    counts = np.bincount(cells, minlength=number)
    there = np.flatnonzero(counts)
    n = counts[there].astype(np.float64)
    d1, d2, d3 = (np.bincount(cells, off**k, number)[there] / n for k in (1, 2, 3))
    # about the kept rows' own mean; equal values must give exactly nothing
    m2 = np.maximum(d2 - d1 * d1, 0.0)
    m2 = np.where(m2 <= 1e-12 * d2, 0.0, m2)
    mean = middle[there] + d1
    mean = np.where(np.abs(mean) <= 1e-12 * np.abs(d1), 0.0, mean)  # nothing but zeros is exactly that
    m3 = np.where(m2 > 0.0, d3 - 3.0 * d1 * d2 + 2.0 * d1**3, 0.0)
    return Kept(
        there, people.windows[there], n, people.sizes[there].astype(np.float64), mean,
        m2, m3, weights[there], np.full(len(n), draw),
    )  # fmt: skip
