"""95 % intervals of one draw's cells, by method: what ships, and plain stratified t beside it.

- *plain*: mean ∓ t √((1 - n/N) s²/n), the stratified t interval that StreamApprox (Quoc and others,
  Middleware 2017, section 3.3) puts on every stratum; ``hg.mean(..., interval="plain")``.
- *alone*: what ``hg.mean`` and ``hg.sum`` say by default, from the group's own rows.
- *pooled*: behind ``hg.pooled("window")``, with the spread of the window's other groups; groups that are
  alone in their windows have each other's.
- *pooled over windows*: behind ``hg.pooled()``, with that of all groups and windows of the result.

Shares (true and false) have Wilson's interval in all but the plain one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.spark.estimates.intervals.borrowing import (
    FIRST,
    SECOND,
    borrowed,
    first_terms,
    second_terms,
)
from headgate.spark.estimates.intervals.careful import alone, share_ends
from headgate.spark.estimates.intervals.student import normal_quantile
from headgate_lab.bench.coverage.arrays import ArrayAlgebra
from headgate_lab.bench.coverage.draws import Kept

__all__ = ["METHODS", "Ends", "finish", "intervals", "sample_of", "summed"]

#: As the tables name them.
METHODS = ("plain", "alone", "pooled", "pooled over windows")

Floats = npt.NDArray[np.float64]
Ends = Mapping[str, Floats]

_OPS = ArrayAlgebra()


def sample_of(kept: Kept, statistic: str, coins: bool) -> Any:
    """The terms of `headgate.spark.estimates.sql.SAMPLE`, as Spark's aggregates would have them."""
    n, w = kept.n, kept.weight
    with np.errstate(divide="ignore", invalid="ignore"):
        square = np.where(n > 1, kept.m2 * n / (n - 1.0), np.nan)
    v = n * w * (w - 1.0)
    luck = statistic == "sum" and coins
    reach = v if statistic == "sum" else v / np.square(n * w)
    variance = v * (kept.m2 + np.square(kept.mean)) if luck else reach * square
    return SimpleNamespace(
        n=n,
        freedom=n - 1.0,
        centre=kept.mean,
        square=square,
        third=kept.m3,
        coins=reach if luck else np.zeros(len(n)),
        fixed=np.zeros(len(n)) if luck else reach,
        variance=variance,
    )


def intervals(kept: Kept, statistic: str, *, coins: bool, share: bool) -> dict[str, Ends]:
    """Low and high of every cell, by method; NaN where a method knows none."""
    s = sample_of(kept, statistic, coins)
    value = kept.mean * (kept.n * kept.weight if statistic == "sum" else 1.0)
    with np.errstate(all="ignore"):
        found = {"plain": _plain(value, s)}
        if share and statistic == "mean":
            z = np.full(len(kept.n), normal_quantile(0.95))
            low, high = share_ends(_OPS, value, s.fixed, z)
            return found | {method: {"low": low, "high": high} for method in METHODS[1:]}
        own: Any = alone(_OPS, value, s, finish)
        found["alone"] = own
        for name, pool in zip(METHODS[2:], (_peers(kept), kept.draw), strict=True):
            shed = kept.weight > 1.0  # on Spark a group that was kept whole has no sample to lend
            first = summed(first_terms(_OPS, s), pool, shed, FIRST)
            second = summed(second_terms(_OPS, s, first), pool, shed, SECOND)
            found[name] = borrowed(_OPS, value, s, first, second, finish, own)
    return found


def _peers(kept: Kept) -> npt.NDArray[np.int64]:
    """A number for the groups that are alike: of a window, or alone in theirs, by draw."""
    span = int(kept.window.max(initial=0)) + 2
    of_window = kept.draw * span + kept.window
    return np.where(np.bincount(of_window)[of_window] > 1, of_window, kept.draw * span + span - 1)


def finish(error: Floats, low: Floats, high: Floats) -> Any:
    """An answer of the formulas, by name."""
    return _OPS.answer({"stderr": error, "low": low, "high": high})


def summed(
    parts: Mapping[str, Any],
    pool: npt.NDArray[np.int64],
    lends: npt.NDArray[np.bool_],
    names: tuple[str, ...],
) -> Any:
    """Sums over the cells of a pool, as every cell of it sees them; what is not known adds nothing."""
    made = {}
    for name in names:
        part = np.broadcast_to(np.nan_to_num(np.asarray(parts[name], float)), pool.shape)
        made[name] = np.bincount(pool, part * lends)[pool]
    return SimpleNamespace(**made)


def _plain(value: Floats, s: Any) -> Ends:
    half = _OPS.t(s.freedom) * np.sqrt(s.variance)
    return {"low": value - half, "high": value + half}
