"""One number for a whole allocation: the level.

`allocate` divides a known budget among known groups. A gate on a stream knows the groups only while the
batch runs, in many tasks that do not know each other; but each group's quota can be written as

    quota = clip(level * share, least, rows of the group),

where the share depends on the group's own rows alone (1 for *senate*, its rows for *proportional*, their
square root, ...). So one level, chosen by the driver, makes every task's quotas those of one allocation;
a batch run again, split in another way, keeps the same rows; and each task reports how many rows every
level on a grid would have kept, so that the next level is read off a curve and not searched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.errors import BadArgument
from headgate.policies.by_group.allocation import Counts, Floats, known_spreads

__all__ = ["LEVEL_RULES", "Rule", "grid", "level_for"]

#: The exponents of two between which each rule's level lies.
_EXPONENTS = {
    "senate": (-20, 24),
    "proportional": (-24, 0),
    "congress": (-24, 0),
    "sqrt": (-12, 12),
    "neyman": (-24, 6),
    "need": (-12, 12),
}
_STEPS = 2
#: The rules that have a level form, by name.
LEVEL_RULES = tuple(_EXPONENTS)


def grid(name: str) -> Floats:
    """The levels at which a rule reports what it would have kept; two to an octave.

    >>> grid("senate")[[0, 40, -1]].tolist()
    [9.5367431640625e-07, 1.0, 16777216.0]
    """
    if name not in _EXPONENTS:
        raise BadArgument(f"allocation {name!r} is not one of {', '.join(map(repr, _EXPONENTS))}")
    low, high = _EXPONENTS[name]
    return np.asarray(2.0 ** (np.arange(low * _STEPS, high * _STEPS + 1) / _STEPS))


@dataclass(frozen=True)
class Rule:
    """An allocation in its level form.

    `reference` makes levels comparable between batches: for *congress* the mean rows of a group, for
    *neyman* the mean standard deviation of a row's group.
    """

    name: str = "senate"
    least: int = 1
    overflow: str = "exceed"
    reference: float = 1.0

    def shares(
        self, sizes: Counts, deviations: Floats | None = None, needs: Floats | None = None
    ) -> Floats:
        """What each group's quota is proportional to."""
        rows = sizes.astype(np.float64)
        if self.name == "senate":
            return np.ones_like(rows)
        if self.name == "proportional":
            return rows
        if self.name == "sqrt":
            return np.sqrt(rows)
        if self.name == "congress":
            return np.maximum(rows, self.reference)
        extra = deviations if self.name == "neyman" else needs
        assert extra is not None, f"{self.name} needs more than sizes"
        return rows * known_spreads(extra) / self.reference if self.name == "neyman" else extra

    def quotas(self, level: float, sizes: Counts, shares: Floats, dice: Floats) -> Counts:
        """Whole rows of each group at this level; `dice` in [0, 1) round a group up or down for good."""
        wanted = level * shares
        whole = np.floor(wanted + dice)
        if self.overflow == "exceed":
            whole = np.maximum(whole, self.least)
        elif self.overflow == "smallest":
            few = wanted < 1.0
            whole = np.where(few, sizes * wanted >= 1.0, whole)
        return np.asarray(np.minimum(whole, sizes), np.int64)

    def curve(self, sizes: Counts, shares: Floats) -> Floats:
        """The rows that each level of the grid would keep, on average over the dice."""
        levels = grid(self.name)
        kept = np.empty(len(levels))
        for i, level in enumerate(levels):
            wanted = level * shares
            if self.overflow == "exceed":
                wanted = np.maximum(wanted, self.least)
            elif self.overflow == "smallest":
                wanted = np.where(wanted < 1.0, sizes * wanted >= 1.0, wanted)
            kept[i] = np.minimum(wanted, sizes).sum()
        return kept


def level_for(budget: float, levels: Floats, kept: Floats) -> float:
    """The level at which a curve keeps this many rows; the ends of the curve beyond them.

    >>> level_for(15.0, np.array([1.0, 2.0, 4.0]), np.array([10.0, 20.0, 30.0]))
    1.5
    """
    return float(np.interp(budget, np.maximum.accumulate(kept), levels))
