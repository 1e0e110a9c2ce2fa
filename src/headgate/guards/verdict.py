"""`Shedder`: the one contract of everything that stands before an expensive operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

__all__ = ["Shedder", "Verdict"]


class Verdict(NamedTuple):
    """What happens to one tuple.

    `probability` is the chance with which a tuple like this was kept at this moment; a kept tuple
    stands for ``weight`` tuples. `request` is C-hat, when the shedder wants to be synchronised: the
    caller passes it to the operator together with the tuple.
    """

    keep: bool
    probability: float = 1.0
    request: float | None = None

    @property
    def weight(self) -> float:
        """How many tuples a kept one stands for; 0 for a dropped one."""
        return 1.0 / self.probability if self.keep else 0.0


class Shedder(ABC):
    """Says of every tuple, as it arrives, whether the operator gets it."""

    @abstractmethod
    def offer(self, key: int, now_s: float, known_s: float | None = None) -> Verdict:
        """Decide about a tuple that arrives at `now_s`.

        `known_s` is its duration, where someone knows it beforehand: an oracle in a simulation, or a
        column that tells the cost. Shedders that estimate it themselves do not look at it, unless
        they say so.
        """
