"""The operator's side of LAS: it learns what tuples cost, and tells when that has settled."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from headgate.guards.published.messages import Delta, Pair
from headgate.sketches.cost_sketch import CostSketch, SketchShape

__all__ = ["LasOperator"]


class LasOperator:
    """Las-2020, Section 3.3, Listing 3.1 and Figure 2: the states START and STABILIZING.

    Every `window` executed tuples it compares W/F with the snapshot taken before (Eq. 1); if the
    relative change eta is at most `stability`, the matrices go to the load shedder and learning
    begins anew.

    Departures, each measured: C, which the listing uses and never sets, is the instant at which the
    tuple completed, so it holds idle time as well and includes the tuple itself, as C-hat does.
    Ratios of empty cells count as 0 in Eq. 1; as 0/0 they would stop every send for skewed streams.
    The test runs before the tuple is added, as printed.
    """

    def __init__(
        self,
        shape: SketchShape,
        window: int = 1024,
        stability: float = 0.05,
        after_send: Literal["reset", "halve", "keep"] = "reset",
    ) -> None:
        self._window, self._stability, self._after_send = window, stability, after_send
        self.costs = CostSketch(shape)
        self._before = self.costs.ratios()
        self.state = "START"
        self.executed = 0

    def update(
        self, key: int, seconds: float, completed_s: float = 0.0, request: float | None = None
    ) -> list[Delta | Pair]:
        """A tuple was executed; gives the messages for the load shedder, in order.

        `completed_s` is counted from the first tuple's arrival, as C-hat is; `request` is what came
        with the tuple.
        """
        self.executed += 1
        messages: list[Delta | Pair] = []
        if request is not None:
            messages.append(Delta(completed_s - request))
        if self.executed % self._window == 0:
            if self.state == "STABILIZING" and self.instability() <= self._stability:
                messages.append(Pair(self.costs.copy()))
                self.state = "START"
                if self._after_send != "keep":
                    self.costs.scale(0.5 if self._after_send == "halve" else 0.0)
            else:
                self._before = self.costs.ratios()
                self.state = "STABILIZING"
        self.costs.add(key, seconds)
        return messages

    def instability(self) -> float:
        """Eta, Eq. 1: the relative change of W/F since the snapshot; infinite without one."""
        whole = float(self._before.sum())
        change = float(np.abs(self._before - self.costs.ratios()).sum())
        return change / whole if whole > 0 else float("inf")

    def snapshot(self) -> dict[str, Any]:
        """All that was learned, as JSON."""
        return {
            "v": 1,
            "side": "operator",
            "state": self.state,
            "executed": self.executed,
            "costs": base64.b64encode(self.costs.to_bytes()).decode(),
            "before": self._before.tolist(),
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        self.state, self.executed = str(value["state"]), int(value["executed"])
        costs = CostSketch.from_bytes(base64.b64decode(value["costs"]))
        self.costs.scale(0.0)
        self.costs.merge(costs)
        self._before = np.array(value["before"], float)
