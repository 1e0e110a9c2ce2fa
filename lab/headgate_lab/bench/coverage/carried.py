"""Cells whose sum one row carries: what intervals do there, and what it would take to hold the truth.

A sample that missed the row is distributed as that of a cell that never had it. An interval that holds
the truth in both must reach from one mean to the other, and in the cell without the row that is so
many times the width that would do there: what it takes, whatever the formula.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate_lab.bench.coverage.draws import Kept
from headgate_lab.bench.coverage.populations import Population
from headgate_lab.bench.coverage.tally import Tally

__all__ = ["Carried"]

#: One row has more than this part of its cell's variance.
_PART = 0.5
#: Cells with fewer rows have one row that matters by nature.
_LEAST_SIZE, _LEAST_KEPT = 50, 10
#: Queries with a smaller share of such cells are not told.
_LEAST_SHARE = 0.05

Floats = npt.NDArray[np.float64]


@dataclass
class Carried:
    """Of one query: which cells one row carries, and tallies of those and of the others."""

    cells: npt.NDArray[np.bool_]
    #: From the mean to that without the row, in widths of an interval for one kept row without it.
    reach: Floats
    large: int
    tallies: dict[tuple[str, str, bool], Tally] = field(default_factory=dict)
    kept: list[Floats] = field(default_factory=list)

    @classmethod
    def of(cls, people: Population) -> Carried:
        """By the largest square about the mean in each cell."""
        sizes = people.sizes
        off = np.square(people.values - people.mean()[people.cells])
        most = np.zeros(len(sizes))
        np.maximum.at(most, people.cells, off)
        squares = np.bincount(people.cells, off, len(sizes))
        large = sizes >= _LEAST_SIZE
        part = np.divide(most, squares, out=np.zeros(len(sizes)), where=squares > 0.0)
        moved = np.sqrt(most) / np.maximum(sizes - 1, 1)
        rest = np.maximum(squares - most * sizes / np.maximum(sizes - 1, 1), 0.0)
        spread = np.sqrt(rest / np.maximum(sizes - 2, 1))
        reach = np.divide(moved, 3.92 * spread, out=np.full(len(sizes), np.inf), where=spread > 0.0)
        return cls(large & (part > _PART), reach, int(large.sum()))

    def add(self, kept: Kept, draw: str, ends: Any, truth: Floats, width: Floats) -> None:
        """The cells of some draws."""
        for here in (True, False):
            at = np.flatnonzero(
                (self.cells[kept.cell] == here)
                & (kept.size >= _LEAST_SIZE)
                & (kept.n >= _LEAST_KEPT)
                & (kept.n < kept.size)
            )
            for method, of_method in ends.items():
                tally = self.tallies.setdefault((draw, method, here), Tally())
                tally.add({e: of_method[e][at] for e in ("low", "high")}, truth[at], width[at])
            if here and len(at):
                reach = self.reach[kept.cell[at]] * np.sqrt(kept.n[at])
                self.kept.append(np.stack([1.0 - kept.n[at] / kept.size[at], reach]))

    def rows(self, where: dict[str, Any], methods: tuple[str, ...]) -> list[dict[str, Any]]:
        """By draw, if enough cells are such."""
        if not self.kept or self.cells.sum() < _LEAST_SHARE * self.large:
            return []
        missing, reach = np.concatenate(self.kept, axis=1)
        found = []
        for draw in dict.fromkeys(draw for draw, _, _ in self.tallies):
            row = {**where, "draw": draw, "cells": int(self.cells.sum()), "of": self.large}
            for method in methods:
                for here, name in ((True, "there"), (False, "elsewhere")):
                    covered = self.tallies[draw, method, here].covered
                    row[f"{method}, {name}"] = None if covered is None else round(100.0 * covered, 1)
            row["row missing"] = round(100.0 * float(np.mean(missing)), 1)
            row["width it takes"] = round(float(np.median(np.minimum(reach, 1e6))), 1)
            found.append(row)
        return found
