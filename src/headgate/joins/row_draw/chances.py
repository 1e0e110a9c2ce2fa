"""The chances with which a join takes rows in, so that a share of them fits.

Rows of the highest classes (`headgate.joins.row_draw.scores`) are taken for certain, as far as they fit;
rows of the class in which the budget ends with what is left for them; and a part of the budget
(`explore`) is drawn from the rest, half of it evenly and half in proportion to the matches expected, as
`headgate.joins.choice` does with comparisons. So no row is without a chance, and what the rows left out
would have matched can be estimated without bias: a pair that is found stands for 1 / (chance of its left
row x chance of its right row) pairs (Horvitz and Thompson 1952).

The coin is a hash of the row, and another one for each side: the two rows of a pair are drawn
independently, even if they are the same in both streams.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate.joins.arrays import Floats, Integers
from headgate.joins.row_draw.scores import CLASSES, class_scores
from headgate.sketches.hashing import mix64, mix64_array

__all__ = ["ROW_DRAW", "RowDrawConfig", "chances", "drawn"]

#: How often what chances cut at 1 leave is handed to the others.
_ROUNDS = 6


@dataclass(frozen=True)
class RowDrawConfig:
    """The numbers by which rows are left out; `headgate bench join-numbers` sweeps them."""

    #: Share of the kept rows that is drawn among those not expected to match much. It is what the
    #: estimate of completeness costs, since pairs of such rows stand for many: half of it finds 2 % more
    #: pairs, and makes the standard error 1.6 times as large.
    explore: float = 0.1
    #: No chance is smaller: two rows that stand for more than a thousand each would be the whole
    #: estimate.
    least_chance: float = 1e-3
    #: Weight of the past in how rows lie in classes, a batch: half of what is believed is the latest
    #: one's.
    memory: float = 0.5
    #: How many times as many matches a row may be expected to have in the future as it finds at once,
    #: and the other way round: beyond, one of the two would never be looked at again.
    most_ahead: float = 20.0

    def __post_init__(self) -> None:
        for name, least, most in (
            ("explore", 0.0, 1.0),
            ("least_chance", 0.0, 1.0),
            ("memory", 0.0, 1.0),
            ("most_ahead", 1.0, np.inf),
        ):
            if not least <= getattr(self, name) <= most:
                raise BadArgument(f"{name}={getattr(self, name)!r}: give {least:g} to {most:g}")


#: The defaults.
ROW_DRAW = RowDrawConfig()


def chances(rows: npt.ArrayLike, share: float, config: RowDrawConfig = ROW_DRAW) -> tuple[float, ...]:
    """The chance of each class, so that about a share of rows that lie like these is kept.

    `rows` counts the rows of each class. Empty where nothing is known of them: all have that share.

    >>> rows = np.zeros(CLASSES); rows[10], rows[40] = 90, 10
    >>> found = chances(rows, 0.1, RowDrawConfig(explore=0.2))
    >>> round(found[10], 3), round(found[40], 2), found[63]
    (0.011, 0.9, 1.0)
    """
    if not 0.0 < share <= 1.0:
        raise BadArgument(f"share={share!r}: give the share of rows that fits, above 0 and at most 1")
    counts = np.asarray(rows, np.float64)
    if len(counts) != CLASSES:
        raise BadArgument(f"{len(counts)} classes of rows: give how many rows each of {CLASSES} has")
    total = float(counts.sum())
    if total <= 0.0 or share >= 1.0:
        return ()
    certain = (1.0 - config.explore) * share * total
    above = np.concatenate((np.cumsum(counts[::-1])[::-1][1:], [0.0]))
    sure = np.clip((certain - above) / np.maximum(counts, 1e-9), 0.0, 1.0)
    sure[above + counts <= certain] = 1.0
    edge = int(np.flatnonzero(sure < 1.0).max(initial=0))
    sure[:edge] = 0.0
    left, budget = counts * (1.0 - sure), share * total - float((sure * counts).sum())
    lots = _lots(left, budget)
    found = np.clip(sure + (1.0 - sure) * lots, config.least_chance, 1.0)
    return tuple(round(float(chance), 6) for chance in found)


def _lots(left: Floats, budget: float) -> Floats:
    """Chances for what is left: half evenly, half by what is expected, and at most 1."""
    scores = class_scores()
    rows, weighted = float(left.sum()), float((left * scores).sum())
    if rows <= budget:
        return np.ones(CLASSES)
    even, by_score = budget / rows, 0.0
    if weighted > 0.0:
        even, by_score = 0.5 * even, 0.5 * budget / weighted
    for _ in range(_ROUNDS):
        found = np.minimum(1.0, even + by_score * scores)
        spent = float((left * found).sum())
        sure = float(left[found >= 1.0].sum())
        if spent >= 0.999 * budget or spent - sure <= 0.0:
            break
        factor = (budget - sure) / (spent - sure)
        even, by_score = even * factor, by_score * factor
    return np.minimum(1.0, even + by_score * scores)


def drawn(hashes: Integers, odds: Floats, seed: int, side: int) -> npt.NDArray[np.bool_]:
    """Which rows are kept: those whose own uniform number is below their chance."""
    salt = np.uint64(mix64(mix64(seed) + side + 1))
    uniform = (mix64_array(hashes.astype(np.int64).view(np.uint64) ^ salt) >> np.uint64(11)) * 2.0**-53
    return np.asarray(uniform < odds)
