"""A figure before it is drawn: its work as plain values and one function, for any runner to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from headgate_lab.figures.figure import Axis, Claim, Drawn, Samples

__all__ = ["Caption", "Sample", "Sweep", "how_many"]

Item = TypeVar("Item")

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
