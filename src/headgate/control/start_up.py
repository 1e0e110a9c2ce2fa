"""Which seconds of a run's first batches are starting up, and say nothing about rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.core.cold_start import COLD_BATCHES

__all__ = ["StartUp", "StartUpSettings"]


@dataclass(frozen=True)
class StartUpSettings:
    """The numbers of a start."""

    #: How many batches start workers and compile.
    batches: int = COLD_BATCHES
    #: The longest that a first batch can be starting up, in seconds: what it takes beyond that, its rows
    #: took. A JVM that loads its classes, compiles a plan and starts Python workers takes one to eight.
    longest_s: float = 12.0
    #: But what not even rows of so many seconds each explain is starting up, however long it lasts: a
    #: few rows in half a minute on a busy machine.
    dearest_row_s: float = 0.01
    #: A second batch starts up for at most this share of what the first one did.
    falls_to: float = 0.5


class StartUp:
    """Tells starting up from work, as far as anybody can: by how long it can last at most.

    A first batch that took 4 s for a few rows has not shown that rows are dear. Taken for their price,
    those seconds would shed most of what came meanwhile, at every start of a query that has hardly
    anything to do.

    >>> start = StartUp()
    >>> start.work_s(4.25, 0.25), start.work_s(1.0, 0.5)  # a second start-up of 0.5 s may be one
    (0.25, 0.5)
    >>> start.cold, start.work_s(4.25, 0.25)
    (False, 4.25)
    """

    def __init__(self, settings: StartUpSettings | None = None) -> None:
        self._settings = settings or StartUpSettings()
        self.begin()

    def begin(self) -> None:
        """A run begins, in a process of which nothing is known."""
        self._batches = 0
        self._longest_s = self._settings.longest_s

    @property
    def cold(self) -> bool:
        """Whether the next batch is one of those that start up."""
        return self._batches < self._settings.batches

    @property
    def behind(self) -> bool:
        """Whether the next batch brings what came while one of those started up."""
        return self._batches <= self._settings.batches

    def work_s(self, seconds: float, expected_s: float, rows: float = math.inf) -> float:
        """The seconds of the batch that just ended which its work took at least.

        What it took beyond `expected_s` is starting up, as far as that can last, or as so few `rows`
        cannot have taken it.
        """
        if not self.cold:
            self._batches = self._settings.batches + 1
            return seconds
        late = max(0.0, seconds - expected_s)
        too_few = late > self._settings.dearest_row_s * rows
        starting = late if too_few else min(late, self._longest_s)
        self._longest_s = self._settings.falls_to * starting
        self._batches += 1
        return seconds - starting

    def snapshot(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {"batches": self._batches, "longest_s": self._longest_s}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`: a run whose settings change does not start up again."""
        self._batches, self._longest_s = int(value["batches"]), float(value["longest_s"])
