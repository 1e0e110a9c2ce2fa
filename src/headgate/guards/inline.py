"""Shedding inside the operator's own process, where the clock tells how long a row has waited.

In the papers the load shedder stands before a queue, must guess what is in it, and hears from the
operator by messages. A Spark worker takes its rows from an iterator, one after another; so when a row's
turn comes, its queueing latency is a fact, and what the last row took is known at once. The queue check
of Full Knowledge then needs no oracle, and a price needs no acknowledgements. What is left to
estimate is what the row at hand will cost.

Keys here are the caller's own values (anything hashable); they become stable 64-bit keys only where
they leave the process.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headgate.sketches.keys import stable_key

__all__ = [
    "CHANCE",
    "KEEP",
    "LATE",
    "MOST_KEYS",
    "MOST_LESSONS",
    "PRICED",
    "Answer",
    "Expected",
    "InlineShedder",
    "KeepAll",
    "Lesson",
]

#: An answer: how many rows a kept row stands for (0: it is dropped), and why it is dropped.
Answer = tuple[float, str]
KEEP: Answer = (1.0, "")
LATE: Answer = (0.0, "latency")
PRICED: Answer = (0.0, "price")
CHANCE: Answer = (0.0, "chance")
#: What was learned of a key: the key, how often it ran, its mean duration.
Lesson = tuple[int, int, float]

#: Distinct keys that one task remembers; beyond that it begins again from what was merged. It bounds the
#: memory of a task and is no tuning.
MOST_KEYS = 100_000
#: Keys that one task tells of: as many as a `CostTable` has entries.
MOST_LESSONS = 8192


@dataclass(frozen=True)
class Expected:
    """Rows that a task has at hand before their turn comes, in their order."""

    keys: Sequence[Hashable]
    #: From when each one's wait counts.
    arrivals_s: Sequence[float]
    #: Which of them are passed and not offered; None: none.
    protected: Sequence[bool] | None = None
    #: Whether the task gets rows behind these; nobody knows how many.
    more: bool = False
    #: Whether another task comes after this one, with rows that wait while it runs.
    streaming: bool = True

    def after(self, done: int) -> Expected:
        """Those that are left when so many of them had their turn."""
        protected = None if self.protected is None else self.protected[done:]
        return replace(
            self, keys=self.keys[done:], arrivals_s=self.arrivals_s[done:], protected=protected
        )


class InlineShedder(ABC):
    """Asked when a row's turn comes, and told what it took."""

    #: Whether it makes use of rows whose turn has not come yet.
    looks_ahead = False

    def __init__(self) -> None:
        #: Of each key: its runs, and their seconds.
        self._tallies: dict[Hashable, list[float]] = {}

    @abstractmethod
    def offer(self, key: Hashable, arrived_s: float, now_s: float) -> Answer:
        """Whether to execute the row, now that its turn has come."""

    def expect(self, rows: Expected, now_s: float) -> None:
        """Rows that will be offered or passed next, in this order; not everybody looks ahead."""
        return

    def passed(self, arrived_s: float, now_s: float) -> None:
        """A row is executed that was not offered, because it must not be dropped."""
        return

    def done(self, key: Hashable, seconds: float, now_s: float) -> None:
        """The row was executed, and ended at `now_s`."""
        tally = self._tallies.get(key)
        if tally is None:
            if len(self._tallies) >= MOST_KEYS:
                self._tallies.clear()
            tally = self._tallies[key] = [0.0, 0.0]
        tally[0] += 1.0
        tally[1] += seconds

    def cost(self, key: Hashable) -> float:
        """What the row is expected to take; 0 where nothing is known."""
        return 0.0

    def lessons(self) -> Iterator[Lesson]:
        """What was learned since the start, of the keys that came most often."""
        found = ((stable_key(k), int(n), seconds / n) for k, (n, seconds) in self._tallies.items() if n)
        return iter(heapq.nlargest(MOST_LESSONS, found, key=lambda lesson: lesson[1]))

    def state(self) -> dict[str, Any]:
        """What belongs to this queue alone, as JSON; costs travel as lessons."""
        return {}


class KeepAll(InlineShedder):
    """No shedding: for comparison, and for measuring costs without acting on them."""

    def offer(self, key: Hashable, arrived_s: float, now_s: float) -> Answer:
        """Every row is executed."""
        return KEEP
