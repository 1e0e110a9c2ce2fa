"""The clairvoyant optimum: what the best choice of comparisons gives.

Whoever knows the match density at every lag spends the budget on the best (direction, lag, type), to the
single tuple: a fractional knapsack over the comparisons that the windows offer. No rule that knows only
densities can do better on average; a rule that looks into the tuples can
(`headgate_lab.papers.join.content`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headgate_lab.papers.join.cells import fill

__all__ = ["clairvoyant"]

Floats = npt.NDArray[np.float64]


def clairvoyant(value: Floats, cost: Floats, supply: Floats, budget: float) -> Floats:
    """How many comparisons of each kind the optimum makes in a second.

    `value` and `cost` are those of one comparison, `supply` is how many there are.

    >>> clairvoyant(np.array([.1, .3]), np.array([1., 1.]), np.array([100., 50.]), 80.).tolist()
    [30.0, 50.0]
    """
    shares = fill((value / cost)[None, :], supply * cost, budget)[0]
    return np.asarray(shares * supply, np.float64)
