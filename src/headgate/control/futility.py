"""The futility check: if shedding more does not help, the cause is elsewhere; stop, and say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["FutilityCheck", "FutilitySettings"]


@dataclass(frozen=True)
class FutilitySettings:
    """The numbers of the check."""

    #: Batches in vain before it gives up: fewer may be one stall.
    after: int = 4
    #: Batches until shedding is tried again; twice as many each time that it is in vain again, up to
    #: `longest_again`: what each trial costs is a batch at the least share.
    again: int = 30
    longest_again: int = 240
    #: While shedding is futile, batches may take so many times what the nearly empty ones took.
    relaxed: float = 2.0
    #: A batch that is so much shorter than the nearly empty ones were: the cause is gone. One that is so
    #: much shorter than the one before it was not in vain.
    over: float = 0.75


class FutilityCheck:
    """Compares what shedding achieved with what it cost.

    Of a run of batches over the target, the check notes the one with the most rows. A batch that
    keeps less than half of those rows and is still over the target is in vain, if the straight line
    through both says that a batch without any row would be over it too, and if it is not clearly
    shorter than the one before it. After four of them in a row, rows are not what the time goes into
    (a slow sink, a stalled disk, a target below the fixed price of a batch): the target cannot be
    held, and shedding for it stops.

    Until it is tried again, batches may take `relaxed_s`, twice what the nearly empty ones took:
    enough for a load that fits, and an end to the growth of one that does not.
    """

    def __init__(self, settings: FutilitySettings | None = None) -> None:
        self._settings = settings or FutilitySettings()
        self.before: tuple[int, float] | None = None
        self._in_vain = 0
        #: How long the last batch took that may have been in vain.
        self._last = 0.0
        self._again = self._settings.again
        self._given_up: tuple[int, float] | None = None  # batches since, duration then

    @property
    def futile(self) -> bool:
        """Whether the target is given up because shedding did not help."""
        return self._given_up is not None

    @property
    def relaxed_s(self) -> float:
        """What batches may take while shedding is futile; 0 while it is not."""
        return 0.0 if self._given_up is None else self._settings.relaxed * self._given_up[1]

    def try_again(self) -> None:
        """Something says that the target can be held after all."""
        self._given_up = None

    def add(self, kept: int, duration_s: float, target_s: float) -> bool:
        """Learn from a batch; True in the batch in which the target is given up."""
        last, self._last = self._last, 0.0
        if duration_s <= target_s:
            self.before = self._given_up = None
            self._in_vain, self._again = 0, self._settings.again
            return False
        if self._given_up is not None:
            batches, then = self._given_up
            self._given_up = (batches + 1, then)
            if batches + 1 >= self._again or duration_s < self._settings.over * then:
                self._given_up = None
                self.before = (kept, duration_s)
                self._again = min(self._settings.longest_again, 2 * self._again)
            return False
        if self.before is None or kept > self.before[0]:
            self.before = (kept, duration_s)
            self._in_vain = 0
            return False
        vain = 2 * kept < self.before[0] and self._without_rows(kept, duration_s) > target_s
        vain = vain and duration_s >= self._settings.over * last  # a backlog or a cold start is ending
        self._last = duration_s
        self._in_vain = self._in_vain + 1 if vain else 0
        if self._in_vain < self._settings.after:
            return False
        self._given_up = (0, duration_s)
        self._in_vain = 0
        return True

    def _without_rows(self, kept: int, duration_s: float) -> float:
        return duration_s - self.per_row_s(kept, duration_s) * kept

    def per_row_s(self, kept: int, duration_s: float) -> float:
        """What a row costs by the straight line through this batch and the one with the most rows."""
        if self.before is None or self.before[0] <= kept:
            return 0.0
        return max(0.0, (self.before[1] - duration_s) / (self.before[0] - kept))

    def snapshot(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {
            "before": None if self.before is None else list(self.before),
            "in_vain": self._in_vain,
            "again": self._again,
            "given_up": None if self._given_up is None else list(self._given_up),
            "last": self._last,
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        before, given_up = value["before"], value["given_up"]
        self.before = None if before is None else (int(before[0]), float(before[1]))
        self._in_vain, self._again = int(value["in_vain"]), int(value["again"])
        self._given_up = None if given_up is None else (int(given_up[0]), float(given_up[1]))
        self._last = float(value.get("last", 0.0))
