"""Which batch a plan meets: the next one, or, when that one read its plan first, the one after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.core.load import LoadSample

__all__ = ["PlanLag"]

#: Two rates are told apart where they differ by so much, and a share is a rate's within so much.
_APART = 0.15
_NEAR = 0.07
#: Kept rows that make a share trustworthy: 1,000 are within 3 % of their mean.
_ENOUGH = 1000


class PlanLag:
    """Compares the shares that batches kept with the rates that were asked for.

    A plan is published when a batch's progress arrives. Batches that follow each other without a
    pause may have pinned their plan by then. The share that a batch kept shows which plan it met,
    whenever the last two differ enough; but a batch that kept everything shows nothing, because in
    monitor mode all of them do.
    """

    def __init__(self) -> None:
        self._asked: list[float] = [1.0, 1.0]
        self.behind = False

    @property
    def last(self) -> float:
        """The rate that was asked for last."""
        return self._asked[1]

    def ask(self, rate: float) -> None:
        """A rate was decided."""
        self._asked = [self._asked[1], rate]

    def observe(self, sample: LoadSample) -> None:
        """See which of the last two rates a batch met."""
        before, last = self._asked
        if sample.kept < _ENOUGH or max(before, last) >= 1.0:
            return
        if abs(before - last) < _APART * max(before, last):
            return
        share = sample.kept / sample.arrived
        if abs(share - last) <= _NEAR * last:
            self.behind = False
        elif abs(share - before) <= _NEAR * before:
            self.behind = True

    def snapshot(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {"asked": list(self._asked), "behind": self.behind}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        self._asked = [float(v) for v in value["asked"]]
        self.behind = bool(value["behind"])
