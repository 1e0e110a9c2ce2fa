"""What the best constant row budget would have kept of a run: a fit of its batches' costs, and a search.

As `virtual_jobs.best_constant_rows` does where the costs are known. On Spark they are not, so they are
fitted to the run's own batches, afterwards, which no controller can; what remains is each batch's luck.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.demo.batches import Batch

__all__ = ["INSIDE", "BatchPrices", "best_constant_rows", "fit_prices", "hopeless"]

#: The share of batches that a budget must keep inside.
INSIDE = 0.95
#: A batch could have been held if it takes less than this share of the target when no row is kept.
_POSSIBLE = 0.8
#: The first batches compile and start workers: no part of a fit.
_COLD = 2
#: Batches further from the fit than this many median deviations are stalls: a second fit has none.
_STALLED = 5.0
#: The least batches of which a fit is made: it has three numbers.
_ENOUGH = 6

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BatchPrices:
    """Seconds of a batch = fixed_s + per_kept_s * kept + per_arrived_s * arrived."""

    fixed_s: float
    per_kept_s: float
    per_arrived_s: float

    def seconds(self, kept: float, arrived: float) -> float:
        """How long a batch takes, luck aside."""
        return self.fixed_s + self.per_kept_s * kept + self.per_arrived_s * arrived


def fit_prices(batches: Sequence[Batch]) -> BatchPrices | None:
    """Prices, none below 0, of relative errors that are least squared; None where batches are too few.

    Batches of all the run's loads are used: those of one load are too alike to tell prices apart.
    """
    ended = [b for b in batches if not b.running][_COLD:]
    if len(ended) < _ENOUGH:
        return None
    facts = np.array([(1.0, b.kept, b.arrived) for b in ended])
    took = np.array([b.duration_s for b in ended])
    prices = _not_negative(facts, took)
    off = took / (facts @ prices) - 1.0
    spread = float(np.median(np.abs(off - np.median(off))))
    calm = np.abs(off - np.median(off)) <= max(_STALLED * spread, 0.05)
    if _ENOUGH <= calm.sum() < len(ended):
        prices = _not_negative(facts[calm], took[calm])
    return BatchPrices(*(float(p) for p in prices))


def _not_negative(facts: Array, took: Array) -> Array:
    """Least squares of relative errors over prices of 0 or more: the best of all seven sets of prices.

    Three prices are few enough to try every set that is left free, which is exact.
    """
    scaled = facts / took[:, None]
    best, least = np.array([float(took.mean()), 0.0, 0.0]), np.inf
    for count in (1, 2, 3):
        for chosen in itertools.combinations(range(3), count):
            free = scaled[:, chosen]
            units = np.where(free.max(axis=0) > 0, free.max(axis=0), 1.0)
            found = np.linalg.lstsq(free / units, np.ones(len(took)), rcond=None)[0] / units
            error = float(np.sum((free @ found - 1.0) ** 2))
            if (found >= 0).all() and error < least - 1e-12:
                best, least = np.zeros(3), error
                best[list(chosen)] = found
    return best


def hopeless(batch: Batch, prices: BatchPrices, target_s: float) -> bool:
    """Whether its rows took most of the target before any was kept, so that no budget could hold it."""
    return prices.seconds(0, batch.arrived) > _POSSIBLE * target_s


def best_constant_rows(
    batches: Sequence[Batch], prices: BatchPrices, target_s: float
) -> tuple[float, float] | None:
    """The best constant budget, and the rows that it would have kept of these batches in all.

    Each batch has its own luck: what it took by what its rows cost. None where no budget would have
    kept 95 % of them inside.
    """
    luck = [(b.arrived, b.duration_s / prices.seconds(b.kept, b.arrived)) for b in batches]
    if not luck:
        return None

    def inside(budget: float) -> bool:
        times = (prices.seconds(min(n, budget), n) * factor for n, factor in luck)
        return sum(t <= target_s for t in times) >= INSIDE * len(luck)

    low, high = 0.0, float(max(n for n, _ in luck))
    if not inside(low):
        return None
    if inside(high):
        low = high
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if inside(middle) else (low, middle)
    return low, sum(min(n, low) for n, _ in luck)
