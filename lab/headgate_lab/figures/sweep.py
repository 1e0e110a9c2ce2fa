"""A figure before it is drawn: its work as plain values and one function, for any runner to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from headgate_lab.figures.figure import Axis, Claim, Drawn, Samples

__all__ = ["Caption", "PointRun", "Sample", "Sweep", "how_many", "sweeps_of"]

Item = TypeVar("Item")
Point = TypeVar("Point")

#: What one run says of one policy at one point: (x, policy, metrics).
Sample = tuple[float | str, str, Mapping[str, float]]


@dataclass(frozen=True)
class Caption:
    """What is written on a figure, and what its panels show."""

    figure: str
    title: str
    x_label: str
    axes: tuple[Axis, ...]
    target_s: float | None = None
    x_log: bool = False


@dataclass(frozen=True)
class Sweep(Generic[Item]):
    """Everything but the numbers.

    An item must survive pickling, and `run` must be a function of a module: both travel to other
    machines. `claims` stays here.
    """

    caption: Caption
    runs: int
    items: Sequence[Item]
    run: Callable[[Item], list[Sample]]
    claims: Callable[[Samples], tuple[Claim, ...]]

    def draw(self, results: Iterable[list[Sample]]) -> Drawn:
        """The figure, from the results of all items in their order."""
        samples, caption = Samples(), self.caption
        for found in results:
            for sample in found:
                samples.add(*sample)
        return Drawn(
            caption.figure,
            caption.title,
            caption.x_label,
            self.runs,
            samples.rows(),
            self.claims(samples),
            caption.axes,
            caption.target_s,
            caption.x_log,
        )


def how_many(runs: int | None, quick: bool, few: int = 10, many: int = 100) -> int:
    """The runs asked for, or else few or many."""
    return runs or (few if quick else many)


@dataclass(frozen=True)
class PointRun(Generic[Point]):
    """One run at one point of the x axis: an item of the work."""

    point: Point
    seed: int


#: From caption, points, what `how_many` takes, and claims to the whole sweep.
OverPoints = Callable[
    [
        Caption,
        Iterable[Point],
        tuple[int | None, bool, int, int],
        Callable[[Samples], tuple[Claim, ...]],
    ],
    Sweep[PointRun[Point]],
]


def sweeps_of(run: Callable[[PointRun[Point]], list[Sample]]) -> OverPoints[Point]:
    """What makes sweeps out of points, each with all its runs, where `run` does one of them."""

    def over_points(
        caption: Caption,
        points: Iterable[Point],
        count: tuple[int | None, bool, int, int],
        claims: Callable[[Samples], tuple[Claim, ...]],
    ) -> Sweep[PointRun[Point]]:
        runs = how_many(*count)
        items = [PointRun(point, seed) for point in points for seed in range(runs)]
        return Sweep(caption, runs, items, run, claims)

    return over_points
