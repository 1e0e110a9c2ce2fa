"""Figures 16 and 17 of join-2007: types of different worth, and how often each comes.

500 tuples a second, windows of 20 s on both streams, kappa 0.8, tau = 5/8 of the cycle; Algorithm 5
against Algorithm 4. With the paper's own statistics, which start from nothing every 5 s, the differences
drown in noise; so both are also drawn with counts that keep 80 % at each adaptation. The paper does not
say how skewed its items are here. The flatter f is, the more there is to gain by type.
"""

from __future__ import annotations

import numpy as np

from headgate_lab.figures.join.points import Point, lines
from headgate_lab.figures.join.policies import OUTPUT, VALUE, sharing
from headgate_lab.papers.join.rules import Cells, Directed, UtilityDriven
from headgate_lab.sim.join.cpu import JoinSetup
from headgate_lab.sim.join.stream import Workload

__all__ = ["DECAYED", "points", "shares"]

#: What is added to the names of rules that keep their counts.
_DECAY = 0.8
DECAYED = f", decay {_DECAY:g}"


def shares(utilities: tuple[float, ...], power: float) -> tuple[float, ...]:
    """Frequencies proportional to a power of the utility: 1 directly, -1 inversely, 0 uniform."""
    weights = np.asarray(utilities) ** power
    return tuple((weights / weights.sum()).tolist())


def points(
    x: float,
    utilities: tuple[float, ...],
    power: float,
    suffix: str,
    until_s: float,
    published: bool,
    skew: float = 0.8,
) -> list[Point]:
    """One point for each way of counting, so that each is compared with its own Algorithm 4."""
    workload = Workload(rates=((until_s, 500.0),), skew=skew, types=shares(utilities, power))
    setup = JoinSetup(sharing(3), utilities=utilities)
    kept = (Directed(decay=_DECAY), UtilityDriven(decay=_DECAY))
    found = [
        Point(
            x,
            workload,
            setup,
            (
                *lines(*kept, suffix=DECAYED + suffix),
                *lines(Cells(), suffix=suffix, bounded=True),
            ),
            metrics=(VALUE, OUTPUT),
        )
    ]
    if published:
        plain = lines(Directed(), UtilityDriven(), suffix=suffix)
        found.append(Point(x, workload, setup, plain, metrics=(VALUE, OUTPUT)))
    return found
