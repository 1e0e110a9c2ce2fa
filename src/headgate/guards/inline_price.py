"""A price in the worker: the queue that a row sees is real, only its cost is an estimate."""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Protocol

from headgate.guards.inline import (
    KEEP,
    LATE,
    MOST_KEYS,
    MOST_LESSONS,
    PRICED,
    Answer,
    Expected,
    InlineShedder,
    Lesson,
)
from headgate.guards.look_ahead import LookAhead
from headgate.guards.price import Price
from headgate.guards.price_shedding import PriceShedding
from headgate.guards.targets import AbsoluteLatency
from headgate.sketches.hashing import uniform
from headgate.sketches.keys import stable_key

__all__ = ["Costs", "InlinePrice"]

#: Executions below which a mean cost says nothing: it may be off by its own size.
_FEWEST = 8.0


class Costs(Protocol):
    """A store of durations by key: `CostTable`, `AgedSketch`, or their exact twin."""

    #: Executions that it knows of, up to some bound.
    count: float

    def duration(self, key: int) -> float:
        """The estimated duration of one execution."""

    def frequency(self, key: int) -> float:
        """How often the key came, as far as is known."""


class InlinePrice(InlineShedder):
    """A `Price`, set for the rows at hand and moved by the real wait; CHECKLATENCY before it.

    Estimates start from `costs`, which many workers filled, and follow what this one sees. They are
    scaled by how real and estimated durations compared lately, so a cost that doubles for all keys is
    believed after a few rows and not after a few of every key.

    A weight is 1 / the chance that the row had, and nothing may drop the row once its coin has fallen:
    a check behind the coin would take rows that stand for hundreds each, and count them as one each. (It
    did: in bursts a price is at its lowest, and a quarter of all rows was in no weight.) So the check is
    asked first, and a row that it would drop has a chance too, of at most 1 in 100, outside the
    average. A chance depends on the past and on which rows are at hand, and on no coin of theirs, so the
    sum of weights is unbiased for every set of rows that is named before the coins fall.
    `AbsoluteLatency` allows no exception, and a hard rule has no weights: there such rows are dropped,
    and the weights stand for the others.
    """

    looks_ahead = True

    def __init__(
        self,
        config: PriceShedding,
        costs: Costs,
        seed: int,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._costs, self._seed, self._seen = costs, seed, 0
        self._check = config.target.build()
        self._price = Price(config.rule, config.target.tau_s)
        self._ahead = LookAhead(config.ahead, config.rule, config.target)
        #: Executions that costs are known from; and, while these are few, the rows at hand, and how many
        #: executions make it worthwhile to set their price again.
        self._executed, self._known = costs.count, config.ahead.known
        self._at_hand: Expected | None = None
        self._again_at = math.inf
        strict = config.rule.shape == "hard" or isinstance(config.target, AbsoluteLatency)
        self._late_chance = 0.0 if strict else config.late_sample
        self._late_room_s = max(1e-9, config.late_room * config.target.tau_s)
        self._memory = float(config.memory)
        self._keeps = math.exp(-1.0 / config.calibration_rows)
        self._real = self._estimated = 0.0
        self._scale = 1.0
        #: Of each key met: its estimate, how many executions are behind that, and its own runs and
        #: seconds in this task.
        self._met: dict[Hashable, list[float]] = {}
        self._learned: dict[int, tuple[int, float]] = {}
        if state:
            self._check.restore(state["check"])
            self._price.restore(state["price"])
            self._real, self._estimated, self._scale = state["calibration"]
            if "ahead" in state:  # 0.1.0 had none
                self._ahead.restore(state["ahead"])

    def _meet(self, key: Hashable) -> list[float]:
        if len(self._met) >= MOST_KEYS:
            self._fold()
        number = stable_key(key)
        entry = [self._costs.duration(number), self._costs.frequency(number), 0.0, 0.0]
        self._met[key] = entry
        return entry

    def expect(self, rows: Expected, now_s: float) -> None:
        """Set the price for them; while little is known of costs, again and again."""
        self._look(rows, now_s)

    def _look(self, rows: Expected, now_s: float, again: bool = False) -> None:
        self._at_hand, self._again_at = None, math.inf
        if self._executed < self._known:
            self._at_hand, self._again_at = rows, max(_FEWEST, 2.0 * self._executed)
        met, scale = self._met, self._scale
        costs = [(met.get(key) or self._meet(key))[0] * scale for key in rows.keys]
        doubt = 0.0
        if self._executed < self._known:
            doubt = 2.0 / math.sqrt(self._executed) if self._executed >= _FEWEST else math.inf
        self._ahead.plan(self._price, rows, costs, now_s, doubt, again)

    def offer(self, key: Hashable, arrived_s: float, now_s: float) -> Answer:
        """Ask the latency check, then the price, then throw the coin."""
        wait = now_s - arrived_s
        if wait < 0.0:
            wait = 0.0
        entry = self._met.get(key) or self._meet(key)
        cost = entry[0] * self._scale
        chance = self._price.chance(cost, wait, self._ahead.aim(arrived_s))
        late = self._check.exceeds(wait)
        if late and chance > self._late_chance:
            chance = self._late_chance
        if chance < 1.0:
            self._seen += 1
            if uniform(self._seed, self._seen) >= chance:
                return LATE if late else PRICED
        if late:
            # Each one leaves less for the next: what they take grows with the logarithm of the rows.
            self._late_chance *= math.exp(-cost / self._late_room_s)
        else:
            self._check.admit(wait)
        return KEEP if chance >= 1.0 else (1.0 / chance, "")

    def passed(self, arrived_s: float, now_s: float) -> None:
        """It counts in the average."""
        self._ahead.pass_over()
        self._check.admit(max(0.0, now_s - arrived_s))

    def cost(self, key: Hashable) -> float:
        """What was learned of the key, scaled by how far estimates were off lately."""
        return (self._met.get(key) or self._meet(key))[0] * self._scale

    def done(self, key: Hashable, seconds: float, now_s: float) -> None:
        """Move the key's mean, and the ratio of real to estimated durations."""
        entry = self._met.get(key) or self._meet(key)
        if entry[0] > 0.0:  # where nothing was estimated, nothing was wrong
            self._real = self._real * self._keeps + seconds
            self._estimated = self._estimated * self._keeps + entry[0]
            self._scale = self._real / self._estimated
        entry[1] += 1.0
        entry[0] += (seconds - entry[0]) / (entry[1] if entry[1] < self._memory else self._memory)
        entry[2] += 1.0
        entry[3] += seconds
        self._executed += 1.0
        if self._executed >= self._again_at and self._at_hand is not None:
            rows = self._at_hand.after(self._ahead.turn)
            self._again_at = math.inf
            if rows.keys:
                self._look(rows, now_s, again=True)

    def _fold(self) -> None:
        for key, (_, _, runs, seconds) in self._met.items():
            if runs:
                number = stable_key(key)
                before, mean = self._learned.get(number, (0, 0.0))
                total = before + int(runs)
                self._learned[number] = (total, (mean * before + seconds) / total)
        self._met.clear()
        if len(self._learned) > MOST_LESSONS:
            most = heapq.nlargest(MOST_LESSONS, self._learned.items(), key=lambda one: one[1][0])
            self._learned = dict(most)

    def lessons(self) -> Iterator[Lesson]:
        """Runs and mean duration of the keys that came most often."""
        self._fold()
        for number, (runs, mean) in self._learned.items():
            yield number, runs, mean

    def state(self) -> dict[str, Any]:
        """The average so far, the price, and how far estimates were off."""
        return {
            "check": self._check.state(),
            "price": self._price.state(),
            "calibration": [self._real, self._estimated, self._scale],
            "ahead": self._ahead.state(),
        }
