"""The selection rules as values: what a join compares when it cannot compare everything.

Published (join-2007): `RandomDrop` and `AgeBased` are the baselines, `RateAdaptive` is Algorithm 1,
`TimeCorrelated` adds 2 and 3, `Directed` adds 4, `UtilityDriven` has 5 in its place. Ours: `Cells`,
for conditions that cannot be looked into, and `Content`, for sets. A rule only says what is wanted; the
selectors (`headgate_lab.papers.join.selectors`) keep what is learnt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headgate.errors import BadArgument

__all__ = [
    "AgeBased",
    "Cells",
    "Content",
    "Directed",
    "Published",
    "RandomDrop",
    "RateAdaptive",
    "Rule",
    "TimeCorrelated",
    "UtilityDriven",
]


@dataclass(frozen=True)
class Rule:
    """What all rules have: the name used in figures and reports."""

    name: ClassVar[str] = ""


@dataclass(frozen=True)
class RandomDrop(Rule):
    """Whole windows, for the tuples that the buffer could hold (the baseline of section 6.1).

    The buffer's victim is its oldest tuple; taking a random one was measured to make no difference.
    """

    name: ClassVar[str] = "random drop"


@dataclass(frozen=True)
class AgeBased(Rule):
    """Windows cut to the age at which a stored tuple's mean yield is highest (section 2).

    `density[i]` is the match density of W_i at equally spaced lags from 0 to w_i. The rule is given the
    truth: it is a baseline, and learns nothing.
    """

    name: ClassVar[str] = "age based"
    density: tuple[tuple[float, ...], tuple[float, ...]] = ((1.0,), (1.0,))

    def __post_init__(self) -> None:
        if len(self.density) != 2 or not all(len(side) for side in self.density):
            raise BadArgument(
                "AgeBased needs the match density of both windows, as two sequences over equally spaced "
                "lags: headgate_lab.sim.join.density.window_densities(workload, setup) gives them"
            )


@dataclass(frozen=True)
class Published(Rule):
    """The published parameters (section 6.1), and our two amendments, which are off.

    `decay` keeps that share of the counts at each time correlation adaptation; `capacity_control` sets r
    from the measured speed once a second in place of Algorithm 1 (not for `RateAdaptive` on an index: it
    samples nothing, and so cannot tell what a stored tuple costs).
    """

    period_r: float = 5.0
    period_c: float = 5.0
    boost: float = 1.2
    sampling: float = 0.1
    decay: float = 0.0
    capacity_control: bool = False

    def __post_init__(self) -> None:
        for name in ("period_r", "period_c"):
            if not getattr(self, name) > 0:
                raise BadArgument(f"{name}={getattr(self, name)!r}: give seconds above 0 (the paper: 5)")
        if not self.boost > 1:
            raise BadArgument(f"boost={self.boost!r}: give a factor above 1 (the paper's delta_r: 1.2)")
        if not 0 < self.sampling <= 1:
            raise BadArgument(f"sampling={self.sampling!r}: give gamma in (0, 1] (the paper: 0.1)")
        if not 0 <= self.decay < 1:
            raise BadArgument(f"decay={self.decay!r}: give the share of counts to keep, in [0, 1)")


@dataclass(frozen=True)
class RateAdaptive(Published):
    """Algorithm 1: the newest share r of each window."""

    name: ClassVar[str] = "rate"


@dataclass(frozen=True)
class TimeCorrelated(Published):
    """Algorithms 1-3: the best share r of each window."""

    name: ClassVar[str] = "rate+time"


@dataclass(frozen=True)
class Directed(Published):
    """Algorithms 1-4: the better window first, and of it the best share."""

    name: ClassVar[str] = "rate+time+direction"


@dataclass(frozen=True)
class UtilityDriven(Published):
    """Algorithms 1-3 and 5: the best share by window and type of tuple."""

    name: ClassVar[str] = "utility"


@dataclass(frozen=True)
class Cells(Rule):
    """Ours, for opaque conditions: learns what every cell yields from all that is processed.

    A cell is (direction, basic window, type). `draws` plans are drawn from the posterior, and a tuple's
    number picks one, so that exploring a cell costs ``1 / draws`` of it.
    """

    name: ClassVar[str] = "cells"
    draws: int = 32
    half_life_s: float = 10.0
    #: The share of the measured speed that is planned with (`headgate_lab.papers.join.capacity`).
    margin: float = 1.05

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise BadArgument(f"draws={self.draws!r}: give 1 plan or more (32 by default)")
        if not self.half_life_s > 0:
            raise BadArgument(f"half_life_s={self.half_life_s!r}: give seconds above 0 (10 by default)")


@dataclass(frozen=True)
class Content(Rule):
    """Ours, for overlap: the (tuple, block) pairs whose item counts promise most, batch by batch.

    `score_cost` is what estimating one pair costs, in comparisons.
    """

    name: ClassVar[str] = "content"
    score_cost: float = 2.0
    batch_s: float = 1.0
    margin: float = 1.0

    def __post_init__(self) -> None:
        if not self.score_cost >= 0:
            raise BadArgument(f"score_cost={self.score_cost!r}: give comparisons, 0 or more")
        if not self.batch_s > 0:
            raise BadArgument(f"batch_s={self.batch_s!r}: give seconds above 0 (1 by default)")
