"""What the rows at hand will take, and the price at which they fit into the time there is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.guards.price import PriceRule

__all__ = ["Outlook"]

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

#: Halvings of the price's logarithm between its bounds, a factor of 1,000: the level is then exact to
#: a millionth.
_HALVINGS = 22


@dataclass(frozen=True)
class Outlook:
    """A price for rows that are known before the first of them runs, and when each one's turn is.

    The papers decide tuple by tuple, and so does a price that only follows its queue: it finds out that
    there is too much work when rows have waited too long. A task has its rows at hand, and learned what
    they cost, so the level that fits can be computed: with `PriceRule.chance` p(w), the highest one at
    which the sum of ``w p(w)`` is no more than the room. One level for all rows also keeps more of
    them than one that moves: it is the multiplier of the optimum that the rule is derived from.

    >>> Outlook.of(PriceRule("hard"), np.array([1.0, 2.0, 4.0]), room_s=8.0).level_s is None
    True
    >>> some = Outlook.of(PriceRule("hard"), np.array([1.0, 4.0, 2.0]), room_s=3.5)
    >>> round(some.level_s, 3), some.turns_s
    (4.0, [0.0, 0.5, 2.5])
    """

    #: The price at which the rows fit; None if all of them do.
    level_s: float | None
    #: The latest moment of each row's turn, in seconds from now, at which the rest still fits.
    turns_s: list[float]

    @classmethod
    def of(cls, rule: PriceRule, costs_s: Array, room_s: float, forced: Flags | None = None) -> Outlook:
        """For rows of these costs, in their order; those that are `forced` run at any price."""
        work = float(costs_s.sum())
        if work <= room_s:
            return cls(None, (room_s - work + np.cumsum(costs_s) - costs_s).tolist())
        # Rows of one key cost the same, so that there are far fewer costs than rows.
        free = costs_s if forced is None else costs_s[~forced]
        values, counts = np.unique(free, return_counts=True)
        works, tied = values * counts, work - float(free.sum())
        high = float(costs_s.max())
        low = rule.lowest * high
        for _ in range(_HALVINGS):
            level = (low * high) ** 0.5
            if tied + float((works * _chances(rule, values, level)).sum()) > room_s:
                high = level
            else:
                low = level
        # The higher one: many rows may have one cost, and a hard price takes all of them or none. Their
        # turns are those of the room, so whoever follows them drops the others.
        chances = _chances(rule, costs_s, high)
        if forced is not None:
            chances[forced] = 1.0
        taken = costs_s * chances
        taken *= room_s / float(taken.sum())
        return cls(high, (np.cumsum(taken) - taken).tolist())


def _chances(rule: PriceRule, costs_s: Array, level_s: float) -> Array:
    """`PriceRule.chance` of many costs."""
    found = np.ones(len(costs_s))
    dear = costs_s > level_s
    if rule.shape == "hard" or level_s <= 0.0:
        found[dear] = 0.0
    elif rule.shape == "soft":
        found[dear] = (level_s / costs_s[dear]) ** rule.gamma
    else:
        found[dear] = np.minimum(1.0, np.sqrt(rule.spread / (costs_s[dear] / level_s - 1.0)))
    return found
