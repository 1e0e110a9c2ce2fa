"""Which comparisons to make with a budget, and what the others would have found.

A unit is one comparison. To compare a probe row with a block of n rows, of which a share d is expected
to match, costs n + result_cost * d * n: results must be delivered as well, and on fast kernels that is
most of the work. So pairs (probe row, block) are ranked by d * utility / (1 + result_cost * d), and the
best ones fill the budget. join-2007, section 5.3, fills a fractional knapsack in the same way, but over
(basic window, type), and without the cost of results.

Departure: a share of the budget (`explore`) is not spent on the best pairs but on a random sample of the
rest. Each of those is drawn on its own with a known probability q, so what was missed can be estimated
without bias (Horvitz-Thompson): an m found there stands for m (1 - q) / q not found. Half of that share
is spread evenly over the comparisons left, half in proportion to the matches expected: the first half
keeps the estimate honest where the densities are wrong, the second keeps it sharp where they are right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate.joins.arrays import Floats, Indices, Integers
from headgate.joins.rows import compiled
from headgate.sketches.hashing import check_seed

__all__ = ["Chosen", "choose", "completeness", "missed"]

#: How often what chances cut at 1 leave is handed to the others; no tuning: each round leaves a fraction
#: of the rest, and the loop ends when a thousandth of the budget is left.
_ROUNDS = 4


@dataclass(frozen=True, eq=False)
class Chosen:
    """What to compare; every list has one entry a candidate, of rows of its probe block by index."""

    #: Compared for certain.
    picked: list[Indices]
    #: Compared because a lot fell on them, and the probability that it would.
    sampled: list[Indices]
    probabilities: list[Floats]
    #: The cost of picked and sampled, in comparisons, by the densities given.
    cost: float
    #: Nothing was left out.
    everything: bool


def choose(
    densities: Sequence[npt.ArrayLike],
    rows: npt.ArrayLike,
    budget: float,
    result_cost: float = 0.0,
    utility: Sequence[npt.ArrayLike] | None = None,
    explore: float = 0.05,
    seed: int = 0,
) -> Chosen:
    """The comparisons for a budget.

    `densities` has an array a candidate, the expected share of matches for each row of its probe block;
    `rows` the rows of each candidate's target; `utility` (as densities) what a match is expected to be
    worth, if not 1. Equal arguments choose equally.

    >>> chosen = choose([[0.5, 0.0], [0.1, 0.2]], [10, 10], budget=20, explore=0.0)
    >>> [list(map(int, indices)) for indices in chosen.picked], chosen.everything
    ([[0], [1]], False)
    """
    _check(budget, result_cost, explore)
    check_seed(seed)
    blocks = [np.asarray(density, np.float64) for density in densities]
    targets = np.ascontiguousarray(rows, np.float64)
    if len(targets) != len(blocks):
        raise BadArgument(f"{len(blocks)} densities for {len(targets)} targets: give one a candidate")
    density = np.concatenate(blocks) if blocks else np.empty(0)
    value = np.concatenate([np.asarray(u, np.float64) for u in utility]) if utility else np.empty(0)
    if utility and len(value) != len(density):
        raise BadArgument(f"{len(value)} utilities for {len(density)} densities: give one each")
    starts = np.zeros(len(blocks) + 1, np.int64)
    np.cumsum([len(block) for block in blocks], out=starts[1:])
    kernels, pairs = compiled("choice_kernels"), (density, value, starts, targets, float(result_cost))
    whole, bins, legal = kernels.tally(*pairs)
    if not legal:
        raise BadArgument("a density or a utility is negative or no number: give 0 or more")
    if whole <= budget:
        every = [np.arange(len(block), dtype=np.int32) for block in blocks]
        none = [np.empty(0, np.int32) for _ in blocks]
        return Chosen(every, none, [np.empty(0) for _ in blocks], whole, True)
    edge, among, spent = _edge(kernels, pairs, bins, (1.0 - explore) * budget, seed)
    picked, sums = kernels.take(*pairs, edge, among)
    # What the best ones leave, because they come in lumps, goes to the sample too.
    rest = max(explore * budget, budget - spent) if explore else 0.0
    chances = _chances(kernels, density, starts, targets, result_cost, picked, sums, rest)
    indices, odds = kernels.draw(density, starts, targets, picked, *chances, np.uint64(seed))
    block = np.searchsorted(starts, indices, "right") - 1
    spent += float((targets[block] * (1.0 + result_cost * density[indices])).sum())
    cuts = np.searchsorted(indices, starts)
    return Chosen(
        _split(np.flatnonzero(picked), starts),
        _split(indices, starts),
        np.split(odds, cuts[1:-1]),
        spent,
        False,
    )


def missed(matches: npt.ArrayLike, probabilities: npt.ArrayLike) -> tuple[float, float]:
    """The estimated matches not found and the variance of that, from what the sampled pairs found.

    `matches` has the matches (or their utility) of each sampled (probe row, block), zeros included.
    """
    found, chance = np.asarray(matches, np.float64), np.asarray(probabilities, np.float64)
    odds = (1.0 - chance) / chance
    return float((found * odds).sum()), float((found * found * odds / chance).sum())


def completeness(found: float, missed: float, variance: float) -> tuple[float, float]:
    """The share of all matches that was found, and its standard error (delta method).

    Nothing found and nothing missed is complete; with a variance it is not known at all.

    >>> completeness(75.0, 25.0, 16.0)
    (0.75, 0.03)
    """
    whole = found + missed
    if whole <= 0:
        return (1.0, 0.0) if variance <= 0 else (0.0, 1.0)
    share = found / whole
    return share, share * math.sqrt(max(0.0, variance)) / whole  # so: zero times infinity is no number


def _check(budget: float, result_cost: float, explore: float) -> None:
    if not budget >= 0:
        raise BadArgument(f"budget={budget!r} is no number of comparisons: give 0 or more")
    if not 0 <= result_cost < math.inf:
        raise BadArgument(f"result_cost={result_cost!r}: give the comparisons a result costs, 0 or more")
    if not 0 <= explore < 1:
        raise BadArgument(f"explore={explore!r}: give the share of the budget to sample with, in [0, 1)")


def _edge(
    kernels: Any, pairs: tuple[Any, ...], bins: Floats, budget: float, seed: int
) -> tuple[int, Integers, float]:
    """The bin in which the budget ends, those of its pairs that still fit, and the cost of all picked.

    Only the pairs of that bin are sorted; lots decide among equal scores.
    """
    above = bins[::-1].cumsum()[::-1] - bins  # the cost of all higher bins
    edge = int(np.argmax(above <= budget))
    indices, scores, costs = kernels.spread(*pairs, edge)
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(indices))
    order = order[np.argsort(-scores[order], kind="stable")]
    spent = above[edge] + np.cumsum(costs[order])
    fits = int(np.searchsorted(spent, budget, "right"))
    return edge, indices[order[:fits]], float(spent[fits - 1] if fits else above[edge])


def _chances(
    kernels: Any, density: Floats, starts: Integers, targets: Floats, result_cost: float,
    picked: npt.NDArray[np.bool_], sums: Floats, budget: float,
) -> tuple[float, float]:  # fmt: skip
    """(a, b) so that chances of a + b * expected matches, cut at 1, cost the budget: half each."""
    cost, weighted = float(sums[0]), float(sums[1])
    if cost <= budget:
        return 1.0, 0.0
    even, by_matches = budget / cost, 0.0
    if weighted > 0:
        even, by_matches = 0.5 * even, 0.5 * budget / weighted
    for _ in range(_ROUNDS):  # what chances cut at 1 leave goes to the others
        sure, drawn = kernels.excess(
            density, starts, targets, float(result_cost), picked, even, by_matches
        )
        if abs(sure + drawn - budget) <= 0.001 * budget or drawn <= 0:
            break
        factor = (budget - sure) / drawn if sure < budget else budget / (sure + drawn)
        even, by_matches = even * factor, by_matches * factor
    return even, by_matches


def _split(indices: Integers, starts: Integers) -> list[Indices]:
    """Indices among all pairs as indices in each candidate's probe block."""
    cuts = np.searchsorted(indices, starts)
    return [
        (indices[cuts[block] : cuts[block + 1]] - starts[block]).astype(np.int32)
        for block in range(len(starts) - 1)
    ]
