"""CHECKLATENCY: which queueing latencies are allowed (las-2020, Section 5.1 and Listing 3.2)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from headgate.durations import Duration, seconds
from headgate.errors import BadArgument

__all__ = [
    "PAPER_TARGET",
    "AbsoluteLatency",
    "AverageLatency",
    "LatencyCheck",
    "LatencyTarget",
    "SlidingAverageLatency",
    "absolute",
    "average",
    "sliding",
]


class LatencyCheck(Protocol):
    """A target at work: it remembers what was admitted."""

    def exceeds(self, latency_s: float) -> bool:
        """Whether admitting a tuple with this latency would break the target."""

    def admit(self, latency_s: float) -> None:
        """Count a tuple that was admitted."""

    def state(self) -> list[float]:
        """What it remembers, for a snapshot."""

    def restore(self, state: Sequence[float]) -> None:
        """Go on from `state`."""


class LatencyTarget(Protocol):
    """A target as people state it; `build` gives the logic."""

    @property
    def tau_s(self) -> float:
        """The latency that is held, in seconds."""

    def build(self) -> LatencyCheck:
        """A check that has admitted nothing yet."""


def _check_tau(tau_s: float) -> None:
    if not tau_s >= 0:
        raise BadArgument(f"tau_s={tau_s!r}: give a latency of 0 or more seconds")


@dataclass(frozen=True)
class AverageLatency:
    """AVG(tau): the mean latency of everything admitted so far stays within tau.

    `form` is the test: "long" is las-2020's ``(Q + q)/l > tau``; "short" is las-2016's ``Q/l >
    tau``, which never lowers Q or l again once it holds, and then drops every tuple for good
    (measured: 99.9 %). `counted_before` is l at the start, which neither paper states: with 0 the
    mean is below tau by a tuple's share, with 1 it may equal it. With `memory` the mean is over about
    the last so many tuples (one to two times that), so that a quiet night banks no credit for an hour
    of late results; None is the paper's, over all time.
    """

    tau_s: float
    form: Literal["long", "short"] = "long"
    counted_before: int = 0
    memory: int | None = None

    def __post_init__(self) -> None:
        _check_tau(self.tau_s)
        if self.form not in ("long", "short"):
            raise BadArgument(f"form={self.form!r}: 'long' (las-2020) or 'short' (las-2016)")
        if self.counted_before < 0:
            raise BadArgument(f"counted_before={self.counted_before!r}: give 0 or more")
        if self.memory is not None and self.memory < 1:
            raise BadArgument(f"memory={self.memory!r}: give at least 1 tuple, or None for all of them")

    def build(self) -> LatencyCheck:
        """A check that has admitted nothing yet."""
        return _Average(self)


#: AVG(6.4 ms): what the paper's experiments hold.
PAPER_TARGET = AverageLatency(0.0064)


class _Average:
    """Listing 3.2, lines 27-33, written without the division that fails on the first tuple."""

    def __init__(self, target: AverageLatency) -> None:
        self._tau = target.tau_s
        self._long = target.form == "long"
        self._sum = 0.0
        self._count = float(target.counted_before)
        self._most = math.inf if target.memory is None else 2.0 * target.memory

    def exceeds(self, latency_s: float) -> bool:
        total = self._sum + latency_s if self._long else self._sum
        return total > self._tau * self._count

    def admit(self, latency_s: float) -> None:
        self._sum += latency_s
        self._count += 1.0
        if self._count > self._most:
            self._sum *= 0.5
            self._count *= 0.5

    def state(self) -> list[float]:
        return [self._sum, self._count]

    def restore(self, state: Sequence[float]) -> None:
        self._sum, self._count = state


@dataclass(frozen=True)
class AbsoluteLatency:
    """ABS(tau): no admitted tuple waits longer than tau."""

    tau_s: float

    def __post_init__(self) -> None:
        _check_tau(self.tau_s)

    def build(self) -> LatencyCheck:
        """A check that has admitted nothing yet."""
        return _Absolute(self)


class _Absolute:
    def __init__(self, target: AbsoluteLatency) -> None:
        self._tau = target.tau_s

    def exceeds(self, latency_s: float) -> bool:
        return latency_s > self._tau

    def admit(self, latency_s: float) -> None:
        return

    def state(self) -> list[float]:
        return []

    def restore(self, state: Sequence[float]) -> None:
        return


@dataclass(frozen=True)
class SlidingAverageLatency:
    """The mean latency of the last `window` admitted tuples stays within tau.

    Las-2020 names it in Section 3.3. Unlike AVG it banks no credit from quiet times. `counted_before`
    as for AVG, until the window is full: with 0 nothing that waits at all can be the first.
    """

    tau_s: float
    window: int = 1000
    counted_before: int = 0

    def __post_init__(self) -> None:
        _check_tau(self.tau_s)
        if self.window < 1:
            raise BadArgument(f"window={self.window!r}: give at least 1 tuple")

    def build(self) -> LatencyCheck:
        """A check that has admitted nothing yet."""
        return _Sliding(self)


class _Sliding:
    """As `_Average` until the window is full; then the newcomer takes the oldest one's place.

    If even that is too much while the newcomer itself would not wait at all, it is admitted: nothing
    but newcomers can lower the mean again.
    """

    def __init__(self, target: SlidingAverageLatency) -> None:
        self._tau, self._window, self._more = target.tau_s, target.window, target.counted_before
        self._last: deque[float] = deque(maxlen=target.window)
        self._sum = 0.0

    def exceeds(self, latency_s: float) -> bool:
        full = len(self._last) == self._window
        before = self._sum - self._last[0] if full else self._sum
        count = self._window if full else len(self._last) + self._more
        return latency_s > 0.0 and before + latency_s > self._tau * count

    def admit(self, latency_s: float) -> None:
        if len(self._last) == self._window:
            self._sum -= self._last[0]
        self._last.append(latency_s)
        self._sum += latency_s

    def state(self) -> list[float]:
        return [self._sum, *self._last]

    def restore(self, state: Sequence[float]) -> None:
        self._sum = state[0]
        self._last = deque(state[1:], maxlen=self._window)


def average(latency: Duration, memory: int | None = 10_000) -> AverageLatency:
    """Keep the average queueing latency within `latency`, over about the last `memory` rows.

    >>> average("1 second").tau_s
    1.0
    """
    return AverageLatency(seconds(latency, "average"), counted_before=1, memory=memory)


def absolute(latency: Duration) -> AbsoluteLatency:
    """Process no row that has waited longer than `latency`.

    >>> absolute("500 ms").build().exceeds(0.6)
    True
    """
    return AbsoluteLatency(seconds(latency, "absolute"))


def sliding(latency: Duration, window: int = 1000) -> SlidingAverageLatency:
    """Keep the average queueing latency of the last `window` rows within `latency`.

    >>> sliding("1 second", window=100).tau_s
    1.0
    """
    return SlidingAverageLatency(seconds(latency, "sliding"), window, counted_before=1)
