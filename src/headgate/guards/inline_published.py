"""The published shedders in the worker: Base Line, Straw-Man, Full Knowledge and LAS itself."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from headgate.guards.backlog import Backlog
from headgate.guards.inline import CHANCE, KEEP, LATE, MOST_KEYS, Answer, InlineShedder
from headgate.guards.published.messages import Delta, Pair
from headgate.guards.published.settings import LasSettings
from headgate.guards.targets import LatencyTarget
from headgate.sketches.hashing import uniform
from headgate.sketches.keys import stable_key

__all__ = ["InlineBaseLine", "InlineLas", "InlineQueueCheck", "InlineStrawMan"]


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
        """The average of what was admitted, for the next task."""
        return {"check": self._check.state()}


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
        """Take the row into the mean."""
        super().done(key, seconds, now_s)
        self._executed += 1.0
        self._seconds += seconds

    def state(self) -> dict[str, Any]:
        """The average of what was admitted, C-hat, and the mean cost, for the next task."""
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
            if len(self._numbers) >= MOST_KEYS:
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
        """What the shedder, the operator and the check of the cold start know."""
        return {
            "shedder": self._shedder.snapshot(),
            "operator": self._operator.snapshot(),
            "cold": self._cold.state(),
            "began_s": self._began_s,
        }
