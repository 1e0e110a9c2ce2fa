"""C-hat: when the operator will have done all that was sent to it, as far as one can tell."""

from __future__ import annotations

__all__ = ["Backlog"]


class Backlog:
    """The estimated completion instant of everything admitted, on the clock of the first tuple.

    Las-2020, Listing 3.2, lines 17 and 21. With `clamp_idle`, C-hat is at least the time elapsed
    (Lindley's recursion): an idle operator cannot work ahead. The listings have no such rule; without it
    an estimate of the wait goes negative for ever after the first idle time.

    >>> backlog = Backlog()
    >>> backlog.wait(100.0), backlog.add(0.5), backlog.wait(100.25), backlog.wait(101.0)
    (0.0, 0.5, 0.25, 0.0)
    """

    def __init__(self, clamp_idle: bool = True) -> None:
        self._clamp = clamp_idle
        self._began_s: float | None = None
        self.total_s = 0.0

    def elapsed(self, now_s: float) -> float:
        """Time since the first tuple; the first call sets the clock."""
        if self._began_s is None:
            self._began_s = now_s
        return now_s - self._began_s

    def wait(self, now_s: float) -> float:
        """The estimated queueing latency of a tuple that arrives now."""
        elapsed = self.elapsed(now_s)
        if self._clamp and self.total_s < elapsed:
            self.total_s = elapsed
        return self.total_s - elapsed

    def add(self, seconds: float) -> float:
        """Send work to the operator; gives C-hat."""
        self.total_s += seconds
        return self.total_s

    def state(self) -> list[float | None]:
        """What it knows, for a snapshot."""
        return [self._began_s, self.total_s]

    def restore(self, state: list[float | None]) -> None:
        """Go on from `state`."""
        self._began_s, total = state
        self.total_s = total or 0.0
