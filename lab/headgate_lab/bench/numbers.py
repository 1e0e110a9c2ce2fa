"""A config's numbers, one at a time, at half to twice their defaults: is the result flat around them?

A number that is right by luck for one job shows as a slope in another. So every number is moved alone,
over several jobs in virtual time, and what came out is compared with what the defaults give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

import numpy as np

__all__ = ["FACTORS", "FLAT", "Number", "Swept", "sweep"]

FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0)
#: A mean over jobs within this share of the default's counts as flat.
FLAT = 0.03

C = TypeVar("C")
J = TypeVar("J")


@dataclass(frozen=True)
class Number:
    """One field of a config, and how it is moved."""

    name: str
    unit: str
    #: "times" multiplies it; "window" does so with 1 / (1 - x), the window of a weight of the past.
    scale: Literal["times", "window"] = "times"
    #: The largest legal value.
    most: float = float("inf")

    def of(self, config: Any) -> float:
        """Its default, or what the config has; a dot reaches into a config inside."""
        for name in self.name.split("."):
            config = getattr(config, name)
        return float(config)

    def at(self, config: C, factor: float) -> C:
        """The config with this number moved by a factor."""
        moved: C = self._moved(config, self.name.split("."), factor)
        return moved

    def _moved(self, config: Any, path: Sequence[str], factor: float) -> Any:
        value = getattr(config, path[0])
        if len(path) > 1:
            return replace(config, **{path[0]: self._moved(value, path[1:], factor)})
        moved = value * factor if self.scale == "times" else max(0.0, 1.0 - (1.0 - value) / factor)
        moved = min(self.most, moved)
        return replace(config, **{path[0]: max(1, round(moved)) if isinstance(value, int) else moved})


@dataclass(frozen=True)
class Swept(Generic[C]):
    """What came out: for each number and factor, every job's metrics."""

    config: C
    numbers: Sequence[Number]
    factors: Sequence[float]
    #: By number's name and factor: by job the metrics.
    found: Mapping[tuple[str, float], Mapping[str, Mapping[str, float]]]

    def ratio(self, number: Number, factor: float, metric: str) -> float:
        """A metric's mean over jobs of what it is to the default's."""
        return float(np.mean(list(self._ratios(number, factor, metric).values())))

    def _ratios(self, number: Number, factor: float, metric: str) -> dict[str, float]:
        base = self.found[number.name, 1.0]
        return {
            job: (values[metric] / base[job][metric] if base[job][metric] else 1.0)
            for job, values in self.found[number.name, factor].items()
            if metric in values
        }

    def worst(self, number: Number, metric: str) -> tuple[str, float]:
        """The job that loses most of a metric at any factor, and what it is left with."""
        found = [
            (ratio, job)
            for factor in self.factors
            for job, ratio in self._ratios(number, factor, metric).items()
        ]
        ratio, job = min(found)
        return job, ratio

    def rows(self, metric: str) -> list[dict[str, Any]]:
        """A line for each number: the metric at every factor, as ratios to the default's."""
        lines = []
        for number in self.numbers:
            line: dict[str, Any] = {
                "number": number.name, "unit": number.unit, "default": number.of(self.config),
            }  # fmt: skip
            for factor in self.factors:
                line[f"x{factor:g}"] = round(self.ratio(number, factor, metric), 4)
            job, ratio = self.worst(number, metric)
            lines.append(line | {"worst job": job, "there": round(ratio, 4)})
        return lines

    def steepest(self, metric: str) -> dict[str, float]:
        """For each number how far the metric's mean gets from the default's, at most."""
        return {
            number.name: max(abs(self.ratio(number, f, metric) - 1.0) for f in self.factors)
            for number in self.numbers
        }


def sweep(
    config: C,
    numbers: Sequence[Number],
    jobs: Mapping[str, J],
    run: Callable[[J, C], Mapping[str, float]],
    factors: Sequence[float] = FACTORS,
    tell: Callable[[str], None] = lambda what: None,
) -> Swept[C]:
    """Run every job with every number at every factor; `run` gives a job's metrics under a config."""
    base = {name: run(job, config) for name, job in jobs.items()}
    tell("defaults")
    found: dict[tuple[str, float], Mapping[str, Mapping[str, float]]] = {}
    for number in numbers:
        found[number.name, 1.0] = base
        for factor in factors:
            moved = number.at(config, factor)
            if factor != 1.0:
                same = moved == config  # a whole number that rounding brings back
                found[number.name, factor] = (
                    base if same else {name: run(job, moved) for name, job in jobs.items()}
                )
        tell(number.name)
    return Swept(config, numbers, factors, found)
