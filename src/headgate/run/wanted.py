"""`Wanted`: the share of a gate's rows that its policy keeps while there is no overload."""

from __future__ import annotations

from typing import Any

from headgate.core.groups import GroupStats
from headgate.core.load import Budget
from headgate.core.plan import Plan
from headgate.policies import Policy

__all__ = ["Wanted", "expected_shed"]

#: Of all batches before, so much counts beside the latest; one with fewer than so many rows tells as
#: much less. (As in `headgate.core.batch_size`, and for the same reason.)
_MEMORY = 0.7
_TELLING = 100


class Wanted:
    """How many of the rows that come a whole budget would keep, learned batch by batch.

    A policy with maxima of its own sheds at any budget. What it would never keep is no load: a budget is
    for the rows that are wanted, and so must be the batch that the controller is shown. For a batch to
    come their share is known from those before it. It rises at once and falls slowly, and a few rows
    tell little: too large a share sheds a little much for a moment, too small a one lets the next batch
    overrun its target, or runs it whole however large it is.

    >>> from headgate.policies import GroupRates
    >>> wanted, groups = Wanted(GroupRates("level", {}, default=0.1)), GroupStats(total=20_000)
    >>> wanted.rows(20_000, 20_000, Plan(1.0), groups), wanted.share  # nothing was shed
    (2000, 0.1)
    """

    def __init__(self, policy: Policy, remembered: Any = None) -> None:
        self._policy = policy
        known = isinstance(remembered, int | float) and 0.0 < remembered <= 1.0
        self._share = float(remembered) if known else None

    @property
    def share(self) -> float:
        """The share of the next batch's rows; 1 while nothing is known."""
        return 1.0 if self._share is None else self._share

    def rows(self, arrived: int, kept: int, met: Plan, groups: GroupStats) -> int:
        """The rows wanted of a batch that met a plan and kept so many; learned for those to come.

        `groups` is what was counted of the same batch.
        """
        whole = self._policy.plan(Budget(1.0, "idle"), groups)
        if whole.keeps_everything:
            self._share = 1.0
            return arrived
        rows = self._of_batch(whole, arrived, kept, met, groups)
        self._learn(rows / arrived, arrived)
        return rows

    def _of_batch(self, whole: Plan, arrived: int, kept: int, met: Plan, groups: GroupStats) -> int:
        """By what was counted of groups; else by the rows kept, if all rates were lowered alike."""
        counted = self._policy.would_keep(whole, groups)
        if counted is None and whole.level is None and whole.exceptions.keys() <= groups.counts.keys():
            counted = 1.0 - expected_shed(whole, groups) / max(1, groups.total)
        # Where a plan keeps all, more is kept than is wanted.
        least = 0 if met.keeps_everything else kept
        if counted is not None:
            return min(arrived, max(least, round(counted * arrived)))
        lowered = min(1.0, met.default / whole.default) if whole.default > 0.0 else 0.0
        return min(arrived, max(least, round(kept / lowered))) if lowered > 0.0 else arrived

    def _learn(self, share: float, arrived: int) -> None:
        told = min(1.0, arrived / _TELLING)
        latest = told * share + (1.0 - told) * self.share
        past = 0.0 if self._share is None else _MEMORY**told
        self._share = max(latest, past * self.share + (1.0 - past) * latest)


def expected_shed(plan: Plan, groups: GroupStats) -> float:
    """The rows of the last batch that a plan would have shed, by its rates."""
    listed = sum(groups.counts.values())
    shed = (groups.total - listed) * (1.0 - plan.default)
    return shed + sum(n * (1.0 - plan.rate_of(k)) for k, n in groups.counts.items())
