"""Intervals of one draw's cells, with what the same groups' earlier windows said.

A window sees what the same draw kept in the windows before it and nothing else: in contrast to
``hg.pooled()``, which on a whole result sees later windows, too.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.spark.estimates.earlier import MOST_WINDOWS
from headgate.spark.estimates.intervals.borrowing import (
    FIRST,
    SECOND,
    borrowed,
    first_terms,
    second_terms,
)
from headgate.spark.estimates.intervals.careful import alone
from headgate.spark.estimates.remembering import (
    LASTING,
    lasting_of,
    moves_of,
    need_of,
    remembered,
    told_alone,
    windows_of,
)
from headgate_lab.bench.coverage.arrays import ArrayAlgebra
from headgate_lab.bench.coverage.draws import Kept
from headgate_lab.bench.coverage.intervals import Ends, finish, intervals, sample_of, summed

__all__ = ["METHODS", "before", "with_earlier"]

#: As the tables name them; the last two are told what earlier windows were like.
METHODS = ("alone", "pooled", "earlier", "pooled, earlier")

_OPS = ArrayAlgebra()

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


def before(kept: Kept, groups: Whole, most: int = MOST_WINDOWS) -> list[Whole]:
    """For 1, 2, ... `most` windows back: where the same draw's cell of the same group is, or -1."""
    group = groups[kept.cell]
    span = int(kept.window.max(initial=0)) + 1 + most
    code = (kept.draw * (int(group.max(initial=0)) + 1) + group) * span + kept.window + most
    order = np.argsort(code)
    places = []
    for back in range(1, most + 1):
        at = np.minimum(np.searchsorted(code[order], code - back), len(code) - 1)
        places.append(np.where(code[order][at] == code - back, order[at], -1))
    return places


def _over(places: list[Whole], parts: dict[str, Any], lends: npt.NDArray[np.bool_]) -> Any:
    """Sums over a group's earlier cells; what is not known, and what was kept whole, adds nothing."""
    made = {}
    for name, part in parts.items():
        given = np.broadcast_to(np.nan_to_num(np.asarray(part, float)), lends.shape) * lends
        made[name] = sum(np.where(at >= 0, given[at], 0.0) for at in places)
    return SimpleNamespace(**made)


def with_earlier(
    kept: Kept, groups: Whole, statistic: str, *, coins: bool
) -> tuple[dict[str, Ends], Floats]:
    """Low and high by method, and the degrees of freedom that earlier windows have."""
    s = sample_of(kept, statistic, coins)
    value = kept.mean * (kept.n * kept.weight if statistic == "sum" else 1.0)
    shed, places = kept.weight > 1.0, before(kept, groups)
    found = intervals(kept, statistic, coins=coins, share=False)
    with np.errstate(all="ignore"):
        mine = windows_of(_OPS, s)
        earlier = _over(places, mine, shed)
        every = SimpleNamespace(
            **{name: getattr(earlier, name) + np.nan_to_num(part) for name, part in mine.items()}
        )
        moves = _moves(s, every, places, shed)
        known = SimpleNamespace(**remembered(_OPS, s, earlier, every, moves))
        own: Any = alone(_OPS, value, s, finish)
        lonely = told_alone(_OPS, value, s, known, finish, own)
        pool = kept.draw * (int(kept.window.max(initial=0)) + 1) + kept.window
        first = summed(first_terms(_OPS, s), pool, shed, FIRST)
        second = summed(second_terms(_OPS, s, first), pool, shed, SECOND)
        lasting = summed(lasting_of(_OPS, s, known), pool, shed, LASTING)
        need = need_of(_OPS, known, lasting)
        best = borrowed(_OPS, value, s, first, second, finish, lonely, known, need)
    return {**found, "earlier": lonely, "pooled, earlier": best}, earlier.free


def _moves(s: Any, every: Any, places: list[Whole], shed: npt.NDArray[np.bool_]) -> Any:
    """How a group's window means move: each cell looks at its earlier ones about its own mean of all."""
    names = ("n", "centre", "square")
    mine = moves_of(_OPS, s, every)
    total = {name: np.nan_to_num(np.asarray(part, float)) for name, part in mine.items()}
    for at in places:
        there = (at >= 0) & shed[at]
        window = SimpleNamespace(**{name: getattr(s, name)[at] for name in names})
        for name, part in moves_of(_OPS, window, every).items():
            total[name] = total[name] + np.where(there, np.nan_to_num(part), 0.0)
    return SimpleNamespace(**total)
