"""The exact twin of the count-min pair: one entry a key, without bound."""

from __future__ import annotations

__all__ = ["ExactCosts"]


class ExactCosts:
    """What `CostSketch` estimates, in a dictionary: for tests, bounds and small key sets.

    >>> costs = ExactCosts()
    >>> costs.add(17, 0.5)
    >>> costs.add(18, 1.5)
    >>> costs.frequency(17), costs.duration(17), costs.duration(99)
    (1.0, 0.5, 1.0)
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[float, float]] = {}
        self.count = 0.0
        self.work = 0.0

    def add(self, key: int, seconds: float, times: int = 1) -> None:
        """So many executions of a key, with this mean duration."""
        count, work = self._entries.get(key, (0.0, 0.0))
        self._entries[key] = (count + times, work + seconds * times)
        self.count += times
        self.work += seconds * times

    def learn(self, key: int, seconds: float, times: int = 1) -> None:
        """So many executions of a key, as every store of costs learns them."""
        self.add(key, seconds, times)

    @property
    def mean(self) -> float:
        """The mean duration of everything added; 0 before that."""
        return self.work / self.count if self.count > 0 else 0.0

    def frequency(self, key: int) -> float:
        """How often the key came."""
        return self._entries.get(key, (0.0, 0.0))[0]

    def duration(self, key: int) -> float:
        """The key's mean duration; the mean over all keys if it never came."""
        count, work = self._entries.get(key, (0.0, 0.0))
        return work / count if count > 0 else self.mean

    def merge(self, other: ExactCosts) -> None:
        """Add what another one has counted."""
        for key, (count, work) in other._entries.items():
            mine = self._entries.get(key, (0.0, 0.0))
            self._entries[key] = (mine[0] + count, mine[1] + work)
        self.count += other.count
        self.work += other.work
