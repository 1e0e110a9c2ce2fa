"""Who does a figure's work: a runner takes a function and items, and gives results in their order.

`in_process` is the one at hand. `headgate_lab.spark.item_job.run_items`, given a session, is another:
the same numbers from a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

__all__ = ["Progress", "Runner", "in_process"]

Item = TypeVar("Item")
Found = TypeVar("Found")

#: Called as work gets done with (items done, items in all).
Progress = Callable[[int, int], None]


class Runner(Protocol):
    """Whatever runs a function over items."""

    def __call__(
        self, work: Callable[[Item], Found], items: Sequence[Item], progress: Progress, /
    ) -> Iterable[Found]:
        """The result of every item, in the order of the items."""


def in_process(
    work: Callable[[Item], Found], items: Sequence[Item], progress: Progress
) -> Iterator[Found]:
    """One item after another, here."""
    for done, item in enumerate(items, 1):
        yield work(item)
        progress(done, len(items))
