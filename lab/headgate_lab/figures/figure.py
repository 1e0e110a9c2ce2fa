"""A figure as numbers: rows with mean, least and greatest of every metric, and claims with verdicts."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Axis", "Claim", "Drawn", "Row", "Samples", "Spread"]


@dataclass(frozen=True)
class Spread:
    """A metric over the runs of one point."""

    mean: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """The spread of some values."""
        found = [float(value) for value in values]
        return cls(sum(found) / len(found), min(found), max(found))

    def to_json(self) -> dict[str, float]:
        """As the command prints it."""
        return {"mean": self.mean, "min": self.min, "max": self.max}


@dataclass(frozen=True)
class Row:
    """One policy at one place on the x axis."""

    x: float | str
    policy: str
    metrics: Mapping[str, Spread]


@dataclass(frozen=True)
class Claim:
    """What the paper's text says, in our words; whether we see it; the number that decides."""

    claim: str
    holds: bool
    number: float


@dataclass(frozen=True)
class Axis:
    """One panel: which metric, its label, its factor, and whether the axis is a logarithm."""

    metric: str
    label: str
    scale: float = 1.0
    log: bool = False


@dataclass(frozen=True)
class Drawn:
    """A whole figure: its rows, what the paper claims, and how it is plotted."""

    figure: str
    title: str
    x_label: str
    runs: int
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    axes: tuple[Axis, ...]
    #: Horizontal lines at the target, if there is one for all points.
    target_s: float | None = None
    x_log: bool = False

    @property
    def how_often(self) -> str:
        """The runs behind each point, in words."""
        return f"{self.runs} run{'s' if self.runs > 1 else ''} a point"

    def at(self, x: float | str, policy: str, metric: str) -> Spread:
        """One metric of one row."""
        for row in self.rows:
            if row.x == x and row.policy == policy:
                return row.metrics[metric]
        raise KeyError(f"{self.figure} has no row {policy!r} at {x!r}")

    def to_json(self) -> dict[str, Any]:
        """The object that ``headgate figures NAME --json`` prints."""
        rows = [
            {"x": row.x, "policy": row.policy, **{k: v.to_json() for k, v in row.metrics.items()}}
            for row in self.rows
        ]
        claims = [{"claim": c.claim, "holds": c.holds, "number": c.number} for c in self.claims]
        return {"figure": self.figure, "runs": self.runs, "rows": rows, "claims": claims}

    def write_csv(self, path: Path) -> Path:
        """One line for each x, policy and metric; the folder is made if need be."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["figure", "runs", "x", "policy", "metric", "mean", "min", "max"])
            for row in self.rows:
                for name, found in row.metrics.items():
                    values = (found.mean, found.min, found.max)
                    writer.writerow([self.figure, self.runs, row.x, row.policy, name, *values])
        return path


@dataclass
class Samples:
    """Collects the metrics of single runs, and gives rows in the order in which they first came."""

    _values: dict[tuple[float | str, str], dict[str, list[float]]] = field(default_factory=dict)

    def add(self, x: float | str, policy: str, metrics: Mapping[str, float]) -> None:
        """Add the metrics of one run."""
        row = self._values.setdefault((x, policy), {})
        for name, value in metrics.items():
            row.setdefault(name, []).append(value)

    def has(self, x: float | str, policy: str, metric: str) -> bool:
        """Whether any run had this metric."""
        return metric in self._values.get((x, policy), {})

    def all(self, x: float | str, policy: str, metric: str) -> list[float]:
        """The values of every run."""
        return self._values[x, policy][metric]

    def mean(self, x: float | str, policy: str, metric: str) -> float:
        """The mean over the runs."""
        return Spread.of(self.all(x, policy, metric)).mean

    def rows(self) -> tuple[Row, ...]:
        """A row for each x and policy, with the spread of each metric over the runs."""
        return tuple(
            Row(x, policy, {name: Spread.of(values) for name, values in metrics.items()})
            for (x, policy), metrics in self._values.items()
        )
