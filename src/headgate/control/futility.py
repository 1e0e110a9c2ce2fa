"""The futility guard: if shedding more does not help, the cause is elsewhere; stop, and say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["FutilityGuard"]


class FutilityGuard:
    """Compares what shedding achieved with what it cost.

    When shedding begins, the guard notes how many rows were kept and how long the batch took. If
    ``after`` batches in a row keep less than half of those rows, are still over the target, and
    are no shorter than ``unhelped`` of that duration, rows are not what the time goes into (a slow
    sink, a stalled disk, a lock): shedding stops. It is tried again after ``again`` batches, or as
    soon as a batch is twice as long as when the guard gave up.
    """

    def __init__(self, after: int = 4, unhelped: float = 0.85, again: int = 30) -> None:
        self._after, self._unhelped, self._again = after, unhelped, again
        self._before: tuple[int, float] | None = None
        self._in_vain = 0
        self._given_up: tuple[int, float] | None = None  # batches since, duration then

    @property
    def futile(self) -> bool:
        """Whether shedding is off because it did not help."""
        return self._given_up is not None

    def add(self, kept: int, duration_s: float, over: bool, shedding: bool) -> bool:
        """Learn from a batch; True in the batch in which the guard gives up."""
        if self._given_up is not None:
            batches, then = self._given_up
            self._given_up = (batches + 1, then)
            if not over or batches + 1 >= self._again or duration_s > 2.0 * then:
                self._given_up = None
                self._before = None
            return False
        if not shedding:
            self._before = (kept, duration_s) if over else None
            self._in_vain = 0
            return False
        if not over or self._before is None:
            self._in_vain = 0
            if not over:
                self._before = None
            return False
        kept_before, duration_before = self._before
        vain = kept <= 0.5 * kept_before and duration_s >= self._unhelped * duration_before
        self._in_vain = self._in_vain + 1 if vain else 0
        if self._in_vain < self._after:
            return False
        self._given_up = (0, duration_s)
        self._before = None
        self._in_vain = 0
        return True

    def snapshot(self) -> dict[str, Any]:
        """The state, as JSON."""
        return {"before": self._before, "in_vain": self._in_vain, "given_up": self._given_up}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from `snapshot`."""
        before, given_up = value["before"], value["given_up"]
        self._before = None if before is None else (int(before[0]), float(before[1]))
        self._in_vain = int(value["in_vain"])
        self._given_up = None if given_up is None else (int(given_up[0]), float(given_up[1]))
