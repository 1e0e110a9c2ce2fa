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
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Protocol

from headgate.guards.backlog import Backlog
from headgate.guards.price import Price
from headgate.guards.price_shedder import PriceShedding
from headgate.guards.published.messages import Delta, Pair
from headgate.guards.published.settings import LasSettings
from headgate.guards.targets import AbsoluteLatency, LatencyTarget
from headgate.sketches.hashing import uniform
from headgate.sketches.keys import stable_key

__all__ = [
    "InlineBaseLine",
    "InlineLas",
    "InlinePrice",
    "InlineQueueCheck",
    "InlineShedder",
    "InlineStrawMan",
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

#: By how much the past counts less with every row in the ratio of real to estimated durations:
#: `PriceShedder` counts it 0.9 with every 16 rows.
_CALIBRATION = 0.9 ** (1 / 16)
#: A mean follows its last so many rows, as in `CostTable`.
_MEMORY = 8.0
#: Of rows that meet a closed latency check, so many are executed all the same: a sample, so that their
#: like has a weight. And how much of the target a task spends on them before it takes fewer.
_LATE_SAMPLE, _LATE_ROOM = 0.01, 0.5
#: Distinct keys that one task remembers; beyond that it begins again from what was merged.
_MOST_KEYS = 100_000
#: Keys that one task tells of: as many as a `CostTable` has places.
_MOST_LESSONS = 8192


class Costs(Protocol):
    """A store of durations by key: `CostTable`, `AgedSketch`, or their exact twin."""

    def duration(self, key: int) -> float:
        """The estimated duration of one execution."""

    def frequency(self, key: int) -> float:
        """How often the key came, as far as is known."""


def _runs(lesson: Lesson) -> int:
    return lesson[1]


class InlineShedder(ABC):
    """Asked when a row's turn comes, and told what it took."""

    def __init__(self) -> None:
        #: Of each key: its runs, and their seconds.
        self._tallies: dict[Hashable, list[float]] = {}

    @abstractmethod
    def offer(self, key: Hashable, arrived_s: float, now_s: float) -> Answer:
        """Whether to execute the row, now that its turn has come."""

    def passed(self, arrived_s: float, now_s: float) -> None:
        """A row is executed that was not offered, because it must not be dropped."""
        return

    def done(self, key: Hashable, seconds: float, now_s: float) -> None:
        """The row was executed, and ended at `now_s`."""
        tally = self._tallies.get(key)
        if tally is None:
            if len(self._tallies) >= _MOST_KEYS:
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
        return iter(heapq.nlargest(_MOST_LESSONS, found, key=_runs))

    def state(self) -> dict[str, Any]:
        """What belongs to this queue alone, as JSON; costs travel as lessons."""
        return {}


class KeepAll(InlineShedder):
    """No shedding: for comparison, and for measuring costs without acting on them."""

    def offer(self, key: Hashable, arrived_s: float, now_s: float) -> Answer:
        """Always."""
        return KEEP


class InlineBaseLine(InlineShedder):
    """Drops a fixed share at random (las-2020, Section 5.1)."""

    def __init__(self, share: float, seed: int) -> None:
        super().__init__()
        self._keep, self._weight = 1.0 - share, 1.0 / (1.0 - share) if share < 1.0 else 0.0
        self._seed, self._seen = seed, 0

    def offer(self, key: Hashable, arrived_s: float, now_s: float) -> Answer:
        """A coin for each row."""
        self._seen += 1
        return (self._weight, "") if uniform(self._seed, self._seen) < self._keep else CHANCE


class InlineQueueCheck(InlineShedder):
    """CHECKLATENCY on the real wait: what Full Knowledge does, without an oracle."""

    def __init__(self, target: LatencyTarget, state: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._check = target.build()
        if state:
            self._check.restore(state["check"])

    def offer(self, key: Hashable, arrived_s: float, now_s: float) -> Answer:
        """The queue alone decides; what the row costs does not matter."""
        wait = max(0.0, now_s - arrived_s)
        if self._check.exceeds(wait):
            return LATE
        self._check.admit(wait)
        return KEEP

    def passed(self, arrived_s: float, now_s: float) -> None:
        """It counts in the average."""
        self._check.admit(max(0.0, now_s - arrived_s))

    def state(self) -> dict[str, Any]:
        """The average so far."""
        return {"check": self._check.state()}


class InlinePrice(InlineShedder):
    """The price of `PriceShedder`, moved by the real wait; CHECKLATENCY before it.

    Estimates start from `costs`, which many workers filled, and follow what this one sees. They are
    scaled by how real and estimated durations compared lately, so a cost that doubles for all keys is
    believed after a few rows and not after a few of every key.

    A weight is 1 / the chance that the row had, and nothing may drop the row once its coin has fallen:
    a check behind the coin would take rows that stand for hundreds each, and count them as one each. (It
    did: in bursts a price is at its lowest, and a quarter of all rows was in no weight.) So the check is
    asked first, and a row that it would drop has a chance too, of at most 1 in 100, outside the
    average. A chance depends on the past alone, so the sum of weights is unbiased for every set of
    rows that is named before the coins fall. `AbsoluteLatency` allows no exception, and a hard rule has
    no weights: there such rows are dropped, and the weights stand for the others.
    """

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
        strict = config.rule.shape == "hard" or isinstance(config.target, AbsoluteLatency)
        self._late_chance = 0.0 if strict else _LATE_SAMPLE
        self._late_room_s = max(1e-9, _LATE_ROOM * config.target.tau_s)
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

    def _meet(self, key: Hashable) -> list[float]:
        if len(self._met) >= _MOST_KEYS:
            self._fold()
        number = stable_key(key)
        entry = [self._costs.duration(number), self._costs.frequency(number), 0.0, 0.0]
        self._met[key] = entry
        return entry

    def offer(self, key: Hashable, arrived_s: float, now_s: float) -> Answer:
        """Check, price, coin."""
        wait = now_s - arrived_s
        if wait < 0.0:
            wait = 0.0
        entry = self._met.get(key) or self._meet(key)
        cost = entry[0] * self._scale
        chance = self._price.chance(cost, wait)
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
        self._check.admit(max(0.0, now_s - arrived_s))

    def cost(self, key: Hashable) -> float:
        """The estimate."""
        return (self._met.get(key) or self._meet(key))[0] * self._scale

    def done(self, key: Hashable, seconds: float, now_s: float) -> None:
        """Learn."""
        entry = self._met.get(key) or self._meet(key)
        self._real = self._real * _CALIBRATION + seconds
        self._estimated = self._estimated * _CALIBRATION + entry[0]
        if self._estimated > 0.0:
            self._scale = self._real / self._estimated
        entry[1] += 1.0
        entry[0] += (seconds - entry[0]) / (entry[1] if entry[1] < _MEMORY else _MEMORY)
        entry[2] += 1.0
        entry[3] += seconds

    def _fold(self) -> None:
        for key, (_, _, runs, seconds) in self._met.items():
            if runs:
                number = stable_key(key)
                before, mean = self._learned.get(number, (0, 0.0))
                total = before + int(runs)
                self._learned[number] = (total, (mean * before + seconds) / total)
        self._met.clear()
        if len(self._learned) > _MOST_LESSONS:
            most = heapq.nlargest(_MOST_LESSONS, self._learned.items(), key=lambda one: one[1][0])
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
        }


class InlineStrawMan(InlineShedder):
    """LAS's queue check with one cost for every row: the mean so far (las-2020, Section 5.1).

    The paper tells Straw-Man the exact mean beforehand. Here it is what was measured; nothing
    corrects C-hat, as in the paper.
    """

    def __init__(
        self, target: LatencyTarget, mean_s: float, state: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        self._check, self._backlog = target.build(), Backlog()
        self._executed, self._seconds = (1.0, mean_s) if mean_s > 0 else (0.0, 0.0)
        if state:
            self._check.restore(state["check"])
            self._backlog.restore(state["backlog"])
            self._executed, self._seconds = state["mean"]

    def offer(self, key: Hashable, arrived_s: float, now_s: float) -> Answer:
        """The check that the row would have met when it arrived."""
        wait = self._backlog.wait(arrived_s)
        if self._check.exceeds(wait):
            return LATE
        self._check.admit(wait)
        self._backlog.add(self._seconds / self._executed if self._executed else 0.0)
        return KEEP

    def done(self, key: Hashable, seconds: float, now_s: float) -> None:
        """The mean so far."""
        super().done(key, seconds, now_s)
        self._executed += 1.0
        self._seconds += seconds

    def state(self) -> dict[str, Any]:
        """The average, C-hat, the mean."""
        return {
            "check": self._check.state(),
            "backlog": self._backlog.state(),
            "mean": [self._executed, self._seconds],
        }


class InlineLas(InlineShedder):
    """The published pair, `LoadShedder` and `LasOperator`, in one process: messages take no time.

    The shedder decides by the row's arrival and its own C-hat, as published. Until it has its first
    matrices (NOP) it would keep everything; meanwhile the real wait is checked instead, so a cold
    start under overload does not run away.
    """

    def __init__(self, settings: LasSettings, state: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._shedder = settings.shedder(state["shedder"] if state else None)
        self._operator = settings.operator(state["operator"] if state else None)
        self._cold = InlineQueueCheck(settings.target, state["cold"] if state else None)
        self._began_s: float | None = state["began_s"] if state else None
        self._request: float | None = None
        self._numbers: dict[Hashable, int] = {}

    def _number(self, key: Hashable) -> int:
        number = self._numbers.get(key)
        if number is None:
            if len(self._numbers) >= _MOST_KEYS:
                self._numbers.clear()
            number = self._numbers[key] = stable_key(key)
        return number

    def offer(self, key: Hashable, arrived_s: float, now_s: float) -> Answer:
        """SHED (Listing 3.2), at the row's arrival."""
        if self._began_s is None:
            self._began_s = arrived_s
        verdict = self._shedder.offer(self._number(key), arrived_s)
        if self._shedder.state == "NOP":
            return self._cold.offer(key, arrived_s, now_s)
        if verdict.request is not None:
            self._request = verdict.request
        return KEEP if verdict.keep else LATE

    def done(self, key: Hashable, seconds: float, now_s: float) -> None:
        """UPDATE (Listing 3.1), and what it tells the shedder."""
        super().done(key, seconds, now_s)
        completed = now_s - (self._began_s if self._began_s is not None else now_s)
        request, self._request = self._request, None
        messages: list[Delta | Pair] = self._operator.update(
            self._number(key), seconds, completed, request
        )
        for message in messages:
            self._shedder.receive(message)

    def state(self) -> dict[str, Any]:
        """Both sides."""
        return {
            "shedder": self._shedder.snapshot(),
            "operator": self._operator.snapshot(),
            "cold": self._cold.state(),
            "began_s": self._began_s,
        }
