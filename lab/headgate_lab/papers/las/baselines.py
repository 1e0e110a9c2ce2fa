"""What LAS is compared with (las-2020, Section 5.1)."""

from __future__ import annotations

from headgate.errors import BadArgument
from headgate.guards.backlog import Backlog
from headgate.guards.targets import LatencyCheck, LatencyTarget
from headgate.guards.verdict import Shedder, Verdict
from headgate.sketches.hashing import check_seed, uniform

__all__ = ["BaseLine", "FullKnowledge", "StrawMan"]


class BaseLine(Shedder):
    """Drops a fixed share at random: as much as the operator is under-provisioned, told beforehand."""

    def __init__(self, share: float, seed: int = 0) -> None:
        if not share <= 1:
            raise BadArgument(
                f"share={share!r}: the share to drop is at most 1; below 0 nothing is dropped"
            )
        self._keep = 1.0 - max(0.0, share)
        self._seed, self._seen = check_seed(seed), 0

    def offer(self, key: int, now_s: float, known_s: float | None = None) -> Verdict:
        """A coin for each tuple."""
        keep = uniform(self._seed, self._seen) < self._keep
        self._seen += 1
        return Verdict(keep, self._keep)


class StrawMan(Shedder):
    """LAS with one cost for every tuple: the mean duration, exact and told beforehand.

    It has no margin and no synchronisation: only then does it drop as much as `BaseLine`, as the
    paper reports. A margin of 5 % alone would bring it close to LAS (9.5 ms against 7).
    """

    def __init__(self, mean_s: float, target: LatencyTarget, factor: float = 1.0) -> None:
        if not mean_s > 0:
            raise BadArgument(f"mean_s={mean_s!r}: give the mean duration of a tuple, above 0 seconds")
        self._cost = mean_s * factor
        self._check, self._backlog = target.build(), Backlog()

    def offer(self, key: int, now_s: float, known_s: float | None = None) -> Verdict:
        """The queue check of LAS."""
        return _checked(self._backlog, self._check, now_s, self._cost)


class FullKnowledge(Shedder):
    """LAS with an oracle's durations: the best that a blind queue check can do.

    Theorem 4 calls it optimal among online algorithms. It is not: it never looks at what the tuple
    at hand costs, and a price on that drops 40 % fewer (see `PriceShedder`). For 100, 1, 1, ... (101
    tuples, one a millisecond, tau = 0) it drops 99 tuples where "drop what costs more than 10" drops
    one.
    """

    def __init__(self, target: LatencyTarget) -> None:
        self._check, self._backlog = target.build(), Backlog()

    def offer(self, key: int, now_s: float, known_s: float | None = None) -> Verdict:
        """The queue check of LAS, with the duration that is known."""
        if known_s is None:
            raise BadArgument("FullKnowledge needs known_s, the tuple's duration: it estimates nothing")
        return _checked(self._backlog, self._check, now_s, known_s)


def _checked(backlog: Backlog, check: LatencyCheck, now_s: float, cost_s: float) -> Verdict:
    wait = backlog.wait(now_s)
    if check.exceeds(wait):
        return Verdict(False, 0.0)
    check.admit(wait)
    backlog.add(cost_s)
    return Verdict(True)
