"""Rules at work: what a join observed goes in, what it is to compare next comes out.

A selector is asked at its own instants (`next_instant`). It knows no clock and no tuples: only counts
by window, basic window and type. `build` makes the selector of a rule.

At an instant that is both, time correlation adaptation (Algorithm 2) comes before rate adaptation (1),
and direction (4) or utility (5) follows, "upon completion of RateAdapt()".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate_lab.papers.join.age_based import reduced_windows
from headgate_lab.papers.join.capacity import ArrivalRate, CapacityControl, fraction_for
from headgate_lab.papers.join.cells import CellCounts
from headgate_lab.papers.join.correlation import TimeCorrelation
from headgate_lab.papers.join.direction import direct
from headgate_lab.papers.join.rate import RateAdaptation
from headgate_lab.papers.join.rules import (
    AgeBased,
    Cells,
    Directed,
    Published,
    RandomDrop,
    RateAdaptive,
    Rule,
    TimeCorrelated,
    UtilityDriven,
)
from headgate_lab.papers.join.utility import utility_fractions

__all__ = ["Layout", "Observation", "Selection", "Selector", "build"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """The shape of a join: windows, basic windows, and the utility of a match by its two types."""

    windows_s: tuple[float, float]
    basic_s: float
    utility: Floats

    @property
    def blocks(self) -> tuple[int, int]:
        """n_i = 1 + ceil(w_i / b); 1 where there are no basic windows."""
        return self._blocks(0), self._blocks(1)

    def _blocks(self, side: int) -> int:
        if math.isinf(self.basic_s):
            return 1
        return 1 + math.ceil(self.windows_s[side] / self.basic_s - 1e-9)

    @property
    def types(self) -> int:
        """How many types of tuples there are."""
        return len(self.utility)


@dataclass(frozen=True)
class Observation:
    """What happened since the last instant (arrays begin with the side, or with the window)."""

    seconds: float
    offered: Floats
    #: By stream and type.
    fetched: Floats
    backlog: Floats
    cost: float
    busy_s: float
    #: Live tuples now, by window and basic window, newest first.
    sizes: Floats
    #: By window, basic window, type of the probe: tuples compared, their cost, matches, utility. Of full
    #: processing only, unless everything was asked for.
    tuples: Floats
    costs: Floats
    matches: Floats
    utility: Floats


@dataclass(frozen=True)
class Selection:
    """What to compare until the next instant: Algorithm 3's s_i, r_{i,z} and r * gamma.

    `shares` (by draw, window, type, basic window), if given, says it by basic window instead.
    """

    order: Integers
    fractions: Floats
    sampling: float = 0.0
    shares: Floats | None = None
    windows_s: tuple[float, float] | None = None


class Selector(Protocol):
    """A rule with its memory."""

    def next_instant(self, now: float) -> float:
        """When it wants to be asked next."""
        ...

    def first(self) -> Selection:
        """What to compare before anything was observed: everything."""
        ...

    def select(self, now: float, seen: Observation) -> Selection:
        """What to compare from now on."""
        ...


def _rates(meters: tuple[ArrivalRate, ArrivalRate], seen: Observation) -> Floats:
    return np.array([
        meter.observe(float(count), seen.seconds)
        for meter, count in zip(meters, seen.offered, strict=True)
    ])  # fmt: skip


def _multiple(now: float, period: float) -> float:
    return (math.floor(now / period + 1e-9) + 1) * period


def _everything(layout: Layout) -> Selection:
    most = max(layout.blocks)
    return Selection(np.tile(np.arange(most), (2, 1)), np.ones((2, layout.types)))


class _Whole:
    """Random drop: always the whole windows."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def next_instant(self, now: float) -> float:
        return math.inf

    def first(self) -> Selection:
        return _everything(self._layout)

    def select(self, now: float, seen: Observation) -> Selection:
        return _everything(self._layout)


class _Published:
    """Algorithms 1 to 5, as far as the rule has them."""

    def __init__(self, rule: Published, layout: Layout) -> None:
        self._rule, self._layout = rule, layout
        self._rate = RateAdaptation(rule.boost)
        self._control = CapacityControl() if rule.capacity_control else None
        self._rates = (ArrivalRate(), ArrivalRate())
        self._price = 1.0
        self._windows = [TimeCorrelation(count, rule.decay) for count in layout.blocks]
        self._timed = not isinstance(rule, RateAdaptive)
        shape = (2, layout.types)
        self._utility_seen, self._tuples_seen = np.zeros(shape), np.zeros(shape)
        self._utility = np.zeros(shape)
        self._frequency = np.full(shape, 1 / layout.types)
        self._by_type = np.zeros(shape)
        self._fetched, self._offered = 0.0, 0.0

    def next_instant(self, now: float) -> float:
        ends = [_multiple(now, self._rule.period_r)]
        if self._timed:
            ends.append(_multiple(now, self._rule.period_c))
        if self._control:
            ends.append(_multiple(now, 1.0))
        return min(ends)

    def first(self) -> Selection:
        sampling = self._rule.sampling if self._timed else 0.0
        everything = _everything(self._layout)
        return Selection(everything.order, everything.fractions, sampling)

    def select(self, now: float, seen: Observation) -> Selection:
        self._fetched += float(seen.fetched.sum())
        self._offered += float(seen.offered.sum())
        self._by_type += seen.fetched
        self._tuples_seen += seen.tuples.sum(axis=1)
        self._utility_seen += seen.utility.sum(axis=1)
        for side, window in enumerate(self._windows):
            count = self._layout.blocks[side]
            window.add(seen.matches[side, :count].sum(axis=1), seen.tuples[side, :count].sum(axis=1))
        if self._timed and _ends(now, self._rule.period_c):
            self._learn()
        if self._control:
            self._control.observe(seen.cost, seen.busy_s)
            self._rate.fraction = self._affordable(self._control, seen)
        elif _ends(now, self._rule.period_r):
            self._rate.adapt(self._fetched, self._offered)
            self._fetched, self._offered = 0.0, 0.0
        return self._select()

    def _learn(self) -> None:
        for window in self._windows:
            window.adapt()
        if self._tuples_seen.any():
            self._utility = self._utility_seen / np.maximum(1.0, self._tuples_seen)
        totals = self._by_type.sum(axis=1, keepdims=True)
        if totals.all():
            self._frequency = self._by_type / totals
        for counts in (self._utility_seen, self._tuples_seen, self._by_type):
            counts *= self._rule.decay

    def _affordable(self, control: CapacityControl, seen: Observation) -> float:
        rates = _rates(self._rates, seen)
        if control.speed <= 0:
            return 1.0
        coming = rates + seen.backlog / 2
        against = seen.sizes.sum(axis=1)[::-1]  # a probe is compared with the other stream's window
        if not np.array_equal(seen.costs, seen.tuples):  # postings or results: a tuple does not cost 1
            share = self._rate.fraction * (1 + self._rule.sampling * (1 - self._rate.fraction))
            compared = share * float(seen.fetched.sum(axis=1) @ against)
            if compared > 0:
                self._price += 0.5 * (seen.cost / compared - self._price)
        whole = float(coming @ against) * self._price
        if whole <= 0:
            return 1.0
        share = control.margin * control.speed / whole
        return fraction_for(share, self._rule.sampling if self._timed else 0.0)

    def _select(self) -> Selection:
        rule, layout, fraction = self._rule, self._layout, self._rate.fraction
        order = np.tile(np.arange(max(layout.blocks)), (2, 1))
        for side, window in enumerate(self._windows):
            order[side, : len(window.order)] = window.order
        fractions = np.full((2, layout.types), fraction)
        if isinstance(rule, Directed):
            first, second = self._windows
            fractions = np.repeat(
                np.array(direct(fraction, (first.mean, second.mean), layout.windows_s))[:, None],
                layout.types, axis=1,
            )  # fmt: skip
        elif isinstance(rule, UtilityDriven) and self._utility.any():
            fractions = utility_fractions(
                fraction, self._windows, self._utility, self._frequency, layout.windows_s
            )
        return Selection(order, fractions, fraction * rule.sampling if self._timed else 0.0)


def _ends(now: float, period: float) -> bool:
    return abs(now / period - round(now / period)) < 1e-6


class _Aged:
    """Windows reduced to their best age, or to what can be afforded if that is longer."""

    def __init__(self, rule: AgeBased, layout: Layout) -> None:
        self._rule, self._layout = rule, layout
        self._control = CapacityControl()
        self._rates = (ArrivalRate(), ArrivalRate())

    def next_instant(self, now: float) -> float:
        return _multiple(now, 1.0)

    def first(self) -> Selection:
        return _everything(self._layout)

    def select(self, now: float, seen: Observation) -> Selection:
        self._control.observe(seen.cost, seen.busy_s)
        everything = _everything(self._layout)
        windows = reduced_windows(
            self._rule.density, self._layout.windows_s, self._control.speed, _rates(self._rates, seen)
        )
        return Selection(everything.order, everything.fractions, windows_s=windows)


class _Cells:
    """Thompson sampling over (direction, basic window, type), with capacity control."""

    def __init__(self, rule: Cells, layout: Layout, seed: int) -> None:
        self._rule, self._layout = rule, layout
        self._control = CapacityControl(rule.margin)
        self._rates = (ArrivalRate(), ArrivalRate())
        self._random = np.random.default_rng([seed, 4])
        self._counts = CellCounts(layout.blocks, layout.utility, rule.half_life_s)

    def next_instant(self, now: float) -> float:
        return _multiple(now, 1.0)

    def first(self) -> Selection:
        everything = _everything(self._layout)
        shape = (1, 2, self._layout.types, max(self._layout.blocks))
        return Selection(everything.order, everything.fractions, shares=np.ones(shape))

    def select(self, now: float, seen: Observation) -> Selection:
        self._control.observe(seen.cost, seen.busy_s)
        self._counts.add(seen.tuples, seen.costs, seen.matches, seen.fetched, seen.seconds)
        rates = _rates(self._rates, seen)
        coming = rates + seen.backlog / 2
        budget = self._control.per_tuple(float(rates.sum()), float(seen.backlog.sum()))
        sizes = coming_sizes(seen.sizes, rates, self._layout, seen.seconds)
        total = float(coming.sum())
        probes = coming[::-1] / total if total else np.full(2, 0.5)
        shares = self._counts.plan(sizes, probes, budget, self._rule.draws, self._random)
        mean = (shares.mean(axis=0).transpose(0, 2, 1) * sizes[:, :, None]).sum(axis=1)
        fractions = mean / np.maximum(1e-9, sizes.sum(axis=1))[:, None]
        return Selection(_everything(self._layout).order, fractions, shares=shares)


def coming_sizes(sizes: Floats, rates: Floats, layout: Layout, seconds: float) -> Floats:
    """Mean sizes of the basic windows over the next period, in the midst of which they shift."""
    if math.isinf(layout.basic_s):
        return sizes
    moved = min(1.0, seconds / layout.basic_s) / 2
    out = np.zeros_like(sizes)
    for side, count in enumerate(layout.blocks):
        if layout.windows_s[side] <= 0:
            continue
        full = rates[side] * layout.basic_s
        newer = np.concatenate([[0.0, full], sizes[side, 1:-1]])[:count]
        out[side, :count] = (1 - moved) * sizes[side, :count] + moved * newer
        if seconds >= layout.basic_s:  # every phase of the shift is passed: ends are half full
            out[side, 0] = full / 2
            if count > 1:
                out[side, count - 1] = newer[count - 1] / 2
    return out


def build(rule: Rule, layout: Layout, seed: int = 0) -> Selector:
    """The selector of a rule."""
    if isinstance(rule, RandomDrop):
        return _Whole(layout)
    if isinstance(rule, AgeBased):
        return _Aged(rule, layout)
    if isinstance(rule, Cells):
        return _Cells(rule, layout, seed)
    if isinstance(rule, RateAdaptive | TimeCorrelated | Directed | UtilityDriven):
        return _Published(rule, layout)
    raise BadArgument(
        f"{rule!r} has no selector: give RandomDrop, AgeBased, RateAdaptive, TimeCorrelated, Directed, "
        "UtilityDriven or Cells; Content chooses pairs itself (headgate_lab.papers.join.content)"
    )
