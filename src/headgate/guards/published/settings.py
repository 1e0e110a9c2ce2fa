"""The parameters of the published algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headgate.errors import BadArgument, SnapshotError
from headgate.guards.published.operator import LasOperator
from headgate.guards.published.shedder import LoadShedder
from headgate.guards.targets import PAPER_TARGET, LatencyTarget
from headgate.guards.utility import Utility, may_always_drop
from headgate.sketches.cost_sketch import SketchShape

__all__ = ["LasSettings"]


@dataclass(frozen=True)
class LasSettings:
    """Las-2020, Section 5.1: N = 1024, mu = 0.05, delta = 0.1, epsilon = 0.05, AVG(6.4 ms).

    Where the two papers or their listings leave room, the default is the reading that reproduces the
    text of the experiments:

    - `clamp_idle`: C-hat never falls behind the clock. The listing lets credit pile up while the
      operator idles, and then Full Knowledge itself breaks its constraint.
    - `guard_delta`: no second synchronisation request while one is under way. As published, both
      replies are added, and the shedder drops everything for as long as the backlog was.
    - `margin`: the factor on estimates; None is the paper's ``1 + epsilon``. Most of the published
      latency is this factor's doing, so it can be set apart from the sketch's size.
    - `after_send`: "reset" as published, "halve", or "keep".
    """

    target: LatencyTarget = PAPER_TARGET
    window: int = 1024
    stability: float = 0.05
    epsilon: float = 0.05
    delta: float = 0.1
    seed: int = 0
    margin: float | None = None
    clamp_idle: bool = True
    guard_delta: bool = True
    after_send: Literal["reset", "halve", "keep"] = "reset"

    def __post_init__(self) -> None:
        if self.window < 1:
            raise BadArgument(
                f"window={self.window!r}: give at least 1 executed tuple (the paper: 1024)"
            )
        if not self.stability > 0:
            raise BadArgument(f"stability={self.stability!r}: give mu > 0 (the paper: 0.05)")
        if self.margin is not None and not self.margin > 0:
            raise BadArgument(f"margin={self.margin!r}: give a factor > 0, or None for 1 + epsilon")
        if self.after_send not in ("reset", "halve", "keep"):
            raise BadArgument(f"after_send={self.after_send!r}: one of 'reset', 'halve', 'keep'")
        SketchShape.of(self.epsilon, self.delta, self.seed)

    @property
    def shape(self) -> SketchShape:
        """The shape of both sides' matrices."""
        return SketchShape.of(self.epsilon, self.delta, self.seed)

    @property
    def factor(self) -> float:
        """What estimates are multiplied by (Listing 3.2, line 21)."""
        return 1.0 + self.epsilon if self.margin is None else self.margin

    def operator(self, snapshot: Mapping[str, Any] | None = None) -> LasOperator:
        """The operator's side, fresh or from a snapshot."""
        built = LasOperator(self.shape, self.window, self.stability, self.after_send)
        if snapshot is not None:
            built.restore(self._checked(snapshot, "operator"))
        return built

    def shedder(
        self, snapshot: Mapping[str, Any] | None = None, utility: Utility = may_always_drop
    ) -> LoadShedder:
        """The load shedder's side, fresh or from a snapshot."""
        built = LoadShedder(
            self.shape, self.target, self.factor, self.clamp_idle, self.guard_delta, utility
        )
        if snapshot is not None:
            built.restore(self._checked(snapshot, "shedder"))
        return built

    @staticmethod
    def _checked(snapshot: Mapping[str, Any], side: str) -> Mapping[str, Any]:
        if snapshot.get("v") != 1 or snapshot.get("side") != side:
            raise SnapshotError(
                f"a snapshot of version {snapshot.get('v')!r} and side {snapshot.get('side')!r} was "
                f"given; version 1 of the {side} is read here: start without one, and learn again"
            )
        return snapshot
