"""Populations and draws for the estimators' tests: what a gate would keep, and with which weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.policies.by_group.counted import counted

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

#: Rows of a group, and the share of them that is kept.
SIZES = {50: 0.5, 100: 0.3, 200: 0.15, 500: 0.08, 1000: 0.05, 2000: 0.03, 5000: 0.02}


@dataclass(frozen=True)
class Population:
    """The rows of one group as they arrived, in an hour; a gate keeps a `stratum` at one rate."""

    y: Floats
    x: Floats
    minute: Floats
    stratum: Whole
    rates: Floats

    @classmethod
    def of(
        cls, rng: np.random.Generator, values: str, size: int, rate: float, strata: str
    ) -> Population:
        y = {
            "normal": lambda: rng.normal(20.0, 5.0, size),
            "mild": lambda: rng.lognormal(2.0, 0.5, size),
            "heavy": lambda: rng.lognormal(0.0, 1.5, size),
        }[values]()
        x = 1.0 + 0.1 * y * rng.uniform(0.5, 1.5, size) + rng.exponential(1.0, size)
        minute = rng.uniform(0.0, 60.0, size)
        stratum, rates = np.zeros(size, np.int64), np.array([rate])
        if strata.startswith("every"):  # as many minutes as it says
            stratum = (minute / float(strata.split()[1])).astype(np.int64)
            rates = rate * rng.uniform(0.7, 1.3, int(stratum.max()) + 1)
        elif strata != "one":
            stratum = (rng.random(size) < 0.3).astype(np.int64)
            rates = np.array([rate, 1.0 if strata.startswith("kept") else min(1.0, 3.0 * rate)])
        if strata == "kept, unlike":
            y = y + 0.6 * y.mean() * stratum
        return cls(y, x, minute, stratum, rates)


def keep(rng: np.random.Generator, people: Population, kind: str) -> tuple[npt.NDArray[np.intp], Floats]:
    """One draw: the kept rows and their weights."""
    if kind == "coin":
        rates = people.rates[people.stratum]
        kept = np.flatnonzero(rng.random(len(rates)) < rates)
        return kept, 1.0 / rates[kept]
    rows, weights = [], []
    for stratum, rate in enumerate(people.rates):
        there = np.flatnonzero(people.stratum == stratum)
        n = min(len(there), max(2, round(rate * len(there))))
        rows.append(rng.choice(there, n, replace=False))
        weights.append(np.full(n, len(there) / max(n, 1)))
    return np.concatenate(rows), counted(np.concatenate(weights))


def draws(
    rng: np.random.Generator, design: str, groups: list[Population], kind: str, times: int
) -> pa.Table:
    """`times` draws of every group, as a table: design, draw, g, y, x, minute, _weight."""
    parts: dict[str, list[npt.NDArray[np.generic]]] = {}
    for g, people in enumerate(groups):
        for draw in range(times):
            kept, weights = keep(rng, people, kind)
            columns = {
                "draw": np.full(len(kept), draw),
                "g": np.full(len(kept), g),
                "y": people.y[kept],
                "x": people.x[kept],
                "minute": people.minute[kept],
                "_weight": weights,
            }
            for name, values in columns.items():
                parts.setdefault(name, []).append(values)
    table = pa.table({name: np.concatenate(values) for name, values in parts.items()})
    return table.append_column("design", pa.array([design] * table.num_rows))
