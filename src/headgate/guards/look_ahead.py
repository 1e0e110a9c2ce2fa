"""How long the rows of a task may take, so that their wait holds the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headgate.errors import BadArgument
from headgate.guards.inline import Expected
from headgate.guards.outlook import Outlook
from headgate.guards.price import Price, PriceRule
from headgate.guards.targets import AbsoluteLatency, AverageLatency, LatencyTarget

__all__ = ["AHEAD", "AheadRule", "LookAhead"]


@dataclass(frozen=True)
class AheadRule:
    """The numbers of a look ahead. `headgate bench guard-numbers` moves each."""

    #: Executions that must be known before costs are believed. A mean of fewer is off by up to the
    #: square root of 4 / executions, so rows that may fit are not dropped for it.
    known: int = 100
    #: The share of the target that a task takes for its rows even if they are too old to hold it: so
    #: that a backlog ends, and some of everything is seen.
    least_room: float = 0.25
    #: Rows over which work is compared with the time in which it came.
    load_rows: float = 1000.0
    #: The load above which a queue is not trusted to drain by itself. Costs are known to some percent.
    full_load: float = 0.97
    #: Below that load, and while waits are short, a task runs whole if it takes at most so many targets
    #: more than one. With a whole one, bursts begin with a batch of two targets, and lose 2 % more.
    overtime: float = 0.5

    def __post_init__(self) -> None:
        if self.known < 1:
            raise BadArgument(f"known={self.known!r}: give at least 1 execution")
        for name, value in (
            ("least_room", self.least_room), ("load_rows", self.load_rows),
            ("full_load", self.full_load),
        ):  # fmt: skip
            if not (value > 0 and math.isfinite(value)):
                raise BadArgument(f"{name}={value!r}: give a finite number above 0")
        if not 0 <= self.overtime < math.inf:
            raise BadArgument(f"overtime={self.overtime!r}: give 0 or more targets")


#: The default.
AHEAD = AheadRule()


class LookAhead:
    """Sets a price for the rows at hand, and says when each one's turn should come.

    In a stream that is overloaded a batch has the rows that came while the one before it ran, so a row
    that came early waits for its batch, and one that came late in it: with batches of length T each
    waits about T. So the room is what the newest row may still wait; and no more than lets the mean of
    all be the target, which is less where time passes between batches. One that allows the mean alone,
    2 (tau - age), answers a short batch with a long one for ever.

    "A guard that needs to drop nothing": where work comes more slowly than it is done, and waits were
    short, a batch that is longer than its target once is no reason to drop.
    """

    def __init__(self, rule: AheadRule, price: PriceRule, target: LatencyTarget) -> None:
        self._rule, self._price_rule, self._tau = rule, price, target.tau_s
        self._absolute = isinstance(target, AbsoluteLatency)
        self._one_mean = isinstance(target, AverageLatency)
        self._work = self._span = 0.0
        #: The same before the rows at hand were looked at.
        self._load_before = (0.0, 0.0)
        #: Rows of the task before, and of this one so far.
        self._before = self._rows = 0.0
        self._began: float | None = None
        self._turns: list[float] = []
        self._from = 0.0
        #: Rows that had their turn since the price was set.
        self.turn = 0

    def plan(
        self,
        price: Price,
        rows: Expected,
        costs_s: Sequence[float],
        now_s: float,
        doubt: float = 0.0,
        again: bool = False,
    ) -> None:
        """Set the price for these rows, which will cost this much each.

        Their work may be less by the share `doubt`. Where they would fit then, the price is left to
        follow the queue. `again` says that these are what is left of the rows before: they count once,
        and what was made of their load is replaced.
        """
        self._turns, self.turn, self._from = [], 0, now_s
        costs = np.asarray(costs_s, np.float64)
        work, dearest = float(costs.sum()), float(costs.max())
        count = len(costs)
        if not again:
            self._rows += count
            self._load_before = self._work, self._span
        if work <= 0.0 or math.isinf(doubt):
            return
        self._compare(work, rows.arrivals_s)
        room = self._room(rows, now_s)
        # Those that follow are like these, and have their share of the room.
        share = count / (count + self._following(rows))
        if self._drains:
            credit = min(self._rule.overtime, price.credit())
            whole = room + credit * self._tau
            if work <= whole * share:
                room = whole
        if room * share < work <= room * share * (1.0 + doubt):
            return
        forced = None if rows.protected is None else np.asarray(rows.protected, np.bool_)
        found = Outlook.of(self._price_rule, costs, room * share, forced)
        self._turns = found.turns_s
        price.reset(found.level_s, dearest)

    def aim(self, arrived_s: float) -> float:
        """How long the row whose turn it is should have waited by now, if all goes as planned."""
        turn = self.turn
        self.turn += 1
        if turn >= len(self._turns):
            return self._tau
        wait = self._from + self._turns[turn] - arrived_s
        return wait if wait > 0.0 else 0.0

    def pass_over(self) -> None:
        """A row had its turn without being asked for."""
        self.turn += 1

    def _following(self, rows: Expected) -> float:
        """Rows behind these: about as many as the task before had, and at least as many again."""
        return max(self._before - self._rows, float(len(rows.keys))) if rows.more else 0.0

    def _compare(self, work: float, arrivals_s: Sequence[float]) -> None:
        count = len(arrivals_s)
        keeps = math.exp(-count / self._rule.load_rows)
        span = max(arrivals_s) - min(arrivals_s)
        before, span_before = self._load_before
        self._work = before * keeps + work
        self._span = span_before * keeps + span * count / max(1, count - 1)

    @property
    def _drains(self) -> bool:
        return not self._absolute and self._work < self._rule.full_load * self._span

    def _room(self, rows: Expected, now_s: float) -> float:
        """Seconds for all rows that are still to come in this task."""
        if self._began is None:
            self._began = now_s
        arrivals, gone = rows.arrivals_s, now_s - self._began
        # Ages when the task began; what it has done since then took its part of the room.
        newest, mean = self._began - max(arrivals), self._began - sum(arrivals) / len(arrivals)
        if rows.more:  # they came later than these, until the task began
            newest, mean = 0.0, 0.5 * (self._began - min(arrivals))
        of_newest = self._tau - max(0.0, newest) - gone
        of_mean = 2.0 * (self._tau - max(0.0, mean)) - gone
        if self._absolute:
            room = of_newest
        elif self._one_mean and not rows.streaming:
            room = of_mean
        else:
            room = min(of_newest, of_mean)
        least = self._rule.least_room * self._tau - gone
        return max(room, least, 0.0)

    def state(self) -> list[float]:
        """What it knows of the load, and how many rows the task had."""
        return [self._work, self._span, self._rows]

    def restore(self, state: Sequence[float]) -> None:
        """Go on from `state`."""
        self._work, self._span, self._before = state
