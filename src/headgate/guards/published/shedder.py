"""The load shedder's side of LAS."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from headgate.errors import BadArgument
from headgate.guards.backlog import Backlog
from headgate.guards.published.messages import Delta, Pair
from headgate.guards.targets import LatencyTarget
from headgate.guards.utility import Utility, may_always_drop
from headgate.guards.verdict import Shedder, Verdict
from headgate.sketches.cost_sketch import CostSketch, SketchShape

__all__ = ["LoadShedder"]


class LoadShedder(Shedder):
    """Las-2020, Section 3.3, Listing 3.2 and Figure 3: the states NOP, SEND and RUN.

    A tuple is dropped when the latency it would see breaks the target; what the tuple itself costs
    does not matter, whatever Section 3.1 says of "contribution to overload" (the dearest and the
    cheapest tenth are dropped alike). A price does (`headgate.guards.price`).

    In NOP nothing is shed; C-hat starts when the first matrices come. Each new pair asks for a
    synchronisation (SEND), which travels with the next kept tuple; the reply Delta is added to
    C-hat. Two requests under way would add their common error twice, so with `guard_delta` a pair
    that comes meanwhile is used at once but asks for its synchronisation only after the reply.

    A tuple that `utility` protects is kept and enters C-hat, but not the target's average: the listing
    counts only tuples that passed CHECKLATENCY.
    """

    def __init__(
        self,
        shape: SketchShape,
        target: LatencyTarget,
        factor: float = 1.05,
        clamp_idle: bool = True,
        guard_delta: bool = True,
        utility: Utility = may_always_drop,
    ) -> None:
        self._shape, self._factor, self._guard = shape, factor, guard_delta
        self._check = target.build()
        self._utility = utility
        self._backlog = Backlog(clamp_idle)
        self._waiting = False
        self.costs = CostSketch(shape)
        self.state = "NOP"

    def receive(self, message: Delta | Pair) -> None:
        """Take a message of the operator's (Listing 3.2, lines 7-13)."""
        if isinstance(message, Pair):
            if message.costs.shape != self._shape:
                raise BadArgument(
                    f"matrices of {message.costs.shape} reached a shedder of {self._shape}: build both "
                    "sides from the same LasSettings"
                )
            self.costs = message.costs
            self.state = "SEND"
        else:
            self._backlog.add(message.seconds)
            self._waiting = False

    def offer(self, key: int, now_s: float, known_s: float | None = None) -> Verdict:
        """SHED, Listing 3.2, lines 14-26; `known_s` is not looked at."""
        wait = self._backlog.wait(now_s)
        if self.state == "NOP":
            return Verdict(True)
        if not self._check.exceeds(wait):
            self._check.admit(wait)
        elif self._utility(key):
            return Verdict(False, 0.0)
        total = self._backlog.add(self.costs.duration(key) * self._factor)
        if self.state == "SEND" and not (self._guard and self._waiting):
            self.state = "RUN"
            self._waiting = True
            return Verdict(True, 1.0, total)
        return Verdict(True)

    def expected_wait(self, now_s: float) -> float:
        """The queueing latency that a tuple arriving now is expected to see."""
        return self._backlog.wait(now_s)

    def snapshot(self) -> dict[str, Any]:
        """All that was learned, as JSON."""
        return {
            "v": 1,
            "side": "shedder",
            "state": self.state,
            "waiting": self._waiting,
            "backlog": self._backlog.state(),
            "check": self._check.state(),
            "costs": base64.b64encode(self.costs.to_bytes()).decode(),
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        self.receive(Pair(CostSketch.from_bytes(base64.b64decode(value["costs"]))))
        self.state, self._waiting = str(value["state"]), bool(value["waiting"])
        self._backlog.restore(value["backlog"])
        self._check.restore(value["check"])
