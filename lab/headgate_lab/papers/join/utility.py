"""Which types pay: utility-based shedding (join-2007, section 5.3, Algorithm 5).

Processing tuples of type z against a basic window is an item of a fractional knapsack, worth its
matches times their utility. A heap holds the best item left of each (window, type); items are taken
until the budget ``r * (w_1 + w_2)`` is spent.

Errata mended: the volume of an item uses the type's frequency in the *opposite* stream, the one whose
tuples probe this window (lines 12 and 16 print the window's own); an item's length is ``w_i / n_i``, not
b, for the n_i basic windows cover ``w_i + b`` seconds and would use up the budget of w_i with r = 1
before all is taken; ``return`` belongs to the else branch; and where no match was seen (lines 6 and 20
divide by 0) all basic windows of that window count alike.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headgate_lab.papers.join.correlation import TimeCorrelation

__all__ = ["utility_fractions"]

Floats = npt.NDArray[np.float64]


def utility_fractions(
    fraction: float,
    correlations: Sequence[TimeCorrelation],
    utilities: Floats,
    frequencies: Floats,
    windows_s: tuple[float, float],
    *,
    basic_s: float | None = None,
    own_frequency: bool = False,
) -> Floats:
    """Algorithm 5: r_{i,z}, by window and type of the probing tuple.

    `utilities[i, z]` is u, what a comparison of a type z tuple with W_i yields; `frequencies[i, z]` is
    omega, the share of type z in stream i. `basic_s` (the length b instead of w_i / n_i) and
    `own_frequency` give the algorithm as printed.
    """
    fractions = np.zeros_like(utilities)
    left = fraction * sum(windows_s)
    relative = []
    heap: list[tuple[float, int, int, int]] = []
    for side in range(2):
        density = correlations[side].density[correlations[side].order]
        total = float(density.sum())
        blocks = len(density)
        relative.append(density * (blocks / total) if total > 0 else np.ones(blocks))
        if windows_s[side] > 0:
            for kind in range(utilities.shape[1]):
                heap.append((-utilities[side, kind] * relative[side][0], 0, side, kind))
    heapq.heapify(heap)
    while heap:
        _, rank, side, kind = heapq.heappop(heap)
        blocks = len(relative[side])
        length = windows_s[side] / blocks if basic_s is None else basic_s
        volume = float(frequencies[side if own_frequency else 1 - side, kind]) * length
        left -= volume
        if left > 0 or volume == 0:
            fractions[side, kind] += 1 / blocks
        else:
            fractions[side, kind] += (1 + left / volume) / blocks
            break
        if rank + 1 < blocks:
            worth = utilities[side, kind] * relative[side][rank + 1]
            heapq.heappush(heap, (-worth, rank + 1, side, kind))
    return np.minimum(1.0, fractions)
