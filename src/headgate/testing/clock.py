"""Time that passes only when a test says so."""

from __future__ import annotations

from headgate.errors import BadArgument

__all__ = ["ManualClock"]


class ManualClock:
    """Stands in for ``time.time`` and ``time.sleep``.

    >>> clock = ManualClock(100.0)
    >>> clock.sleep(2.5)
    >>> clock()
    102.5
    """

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now

    def __call__(self) -> float:
        """The time in seconds, as ``time.time()`` gives it."""
        return self._now

    def now(self) -> float:
        """The time in seconds since 1970."""
        return self._now

    def jump(self, seconds: float) -> None:
        """Set it forth or, with a negative number, back: what becomes of a wall clock that was wrong."""
        self._now += seconds

    def sleep(self, seconds: float) -> None:
        """Let time pass; that never runs backwards."""
        if not seconds >= 0:
            raise BadArgument(f"a clock cannot go {seconds!r} seconds on: give 0 or more")
        self._now += seconds
