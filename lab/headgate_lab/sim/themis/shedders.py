"""The shipped shedders of `headgate.fairness` on a simulated node, which speaks in arrays.

A `Shedding` says which, and with which readings; `build` makes one for a node. Random shedding and
BALANCE-SIC choose among batches, as the paper's do; mirror takes tuples by number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from headgate.fairness.balance_sic import BalanceSic, Reading
from headgate.fairness.mirror import MirrorSettings
from headgate.fairness.random_shedding import RandomShedding
from headgate_lab.sim.compiled import compiled
from headgate_lab.sim.themis.layout import Timing

__all__ = [
    "Balance",
    "Derived",
    "Kept",
    "Mirrored",
    "NodeShedder",
    "Offer",
    "Random",
    "Shedding",
    "Site",
]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
#: Tuples to keep of every source, and which derived batches.
Kept = tuple[Integers, Flags]


@dataclass(frozen=True, eq=False)
class Site:
    """What a node knows of itself when its shedder is made; it has one fragment of a query at most."""

    #: Of its fragments: share of the query's sources, intervals until what is accepted is reported.
    shares: Floats
    delay_ticks: Floats
    #: The fragment that each of its sources feeds.
    source_fragment: Integers
    timing: Timing


@dataclass(frozen=True, eq=False)
class Derived:
    """Derived batches that reached a node: fragment, tuples, SIC of the batch."""

    fragment: Integers
    tuples: Integers
    sic: Floats


@dataclass(frozen=True, eq=False)
class Offer:
    """What a node has to decide about in one interval."""

    capacity: int
    #: Batches of each source, and the SIC of one tuple.
    batches: Integers
    sic: Floats
    batch: int
    derived: Derived
    #: Result SIC of the fragments' queries, as last reported.
    reported: Floats

    @property
    def tuples(self) -> int:
        """All that is offered."""
        return int(self.batches.sum()) * self.batch + int(self.derived.tuples.sum())


class NodeShedder(Protocol):
    """A shedder at work on one node."""

    def keep(self, offer: Offer) -> Kept:
        """Decide; called once in every interval, overloaded or not."""


class Shedding(Protocol):
    """Which shedder the nodes run."""

    @property
    def name(self) -> str:
        """As figures call it."""

    def build(self, site: Site, random: np.random.Generator) -> NodeShedder:
        """One for a node."""


@dataclass(frozen=True)
class Random:
    """Discards batches until the rest fits; `fill` is the other reading."""

    fill: bool = False
    name: str = "random"

    def build(self, site: Site, random: np.random.Generator) -> NodeShedder:
        """One for a node."""
        shedder = RandomShedding(fill=self.fill)

        def choose(
            query: Integers, sizes: Integers, totals: Floats, capacity: int, reported: Floats
        ) -> Flags:
            return shedder.keep(sizes, capacity, random)

        return _OverBatches(site, choose)


@dataclass(frozen=True)
class Balance:
    """The published shedder. The compiled twin has the published reading; others run the class."""

    reading: Reading = field(default_factory=Reading)
    is_compiled: bool = True
    name: str = "BALANCE-SIC"

    def build(self, site: Site, random: np.random.Generator) -> NodeShedder:
        """One for a node."""
        shedder = BalanceSic(self.reading)
        usual = Reading(projection=self.reading.projection, ties=self.reading.ties) == self.reading
        kernel: Any = compiled("themis.kernels").keep if self.is_compiled and usual else None

        def choose(
            query: Integers, sizes: Integers, totals: Floats, capacity: int, reported: Floats
        ) -> Flags:
            if kernel is None:
                return shedder.keep(query, sizes, totals, capacity, reported, random)
            ties = np.arange(len(reported))
            if self.reading.ties == "random":
                random.shuffle(ties)
            start = shedder.project(query, totals, reported)
            found: Flags = kernel(query, sizes, totals, capacity, start, ties)
            return found

        return _OverBatches(site, choose)


@dataclass(frozen=True)
class Mirrored:
    """The improved shedder; `delay_factor` makes its idea of the pipelines' delay wrong."""

    delay_factor: float = 1.0
    derived_first: bool = True
    smooth_s: float = MirrorSettings.smooth_s
    name: str = "mirror"

    def build(self, site: Site, random: np.random.Generator) -> NodeShedder:
        """One for a node."""
        return _Level(site, self)


class _OverBatches:
    """A shedder that keeps or discards whole batches."""

    def __init__(self, site: Site, choose: Any) -> None:
        self._site, self._choose = site, choose

    def keep(self, offer: Offer) -> Kept:
        source = np.repeat(np.arange(len(offer.batches)), offer.batches)
        derived, count = offer.derived, len(source)
        query = np.concatenate((self._site.source_fragment[source], derived.fragment))
        sizes = np.concatenate((np.full(count, offer.batch), derived.tuples))
        totals = np.concatenate((offer.batch * offer.sic[source], derived.sic))
        kept = self._choose(query, sizes, totals, offer.capacity, offer.reported)
        tuples = offer.batch * np.bincount(source[kept[:count]], minlength=len(offer.batches))
        return tuples, kept[count:]


class _Level:
    """`Mirror`: its ledger moves on with every interval, so it is asked in each."""

    def __init__(self, site: Site, setting: Mirrored) -> None:
        timing = site.timing
        # The ledger ends with the last interval, one before that of the decision.
        delays = np.maximum(0.0, site.delay_ticks - 1.0) * timing.interval_s * setting.delay_factor
        settings = MirrorSettings(
            stw_s=timing.stw_s,
            interval_s=timing.interval_s,
            delay_s=0.0,
            longest_delay_s=float(delays.max(initial=0.0)) + timing.interval_s,
            smooth_s=setting.smooth_s,
            derived_first=setting.derived_first,
        )
        self._site, self._mirror = site, settings.build()
        for fragment, (share, delay) in enumerate(zip(site.shares, delays, strict=True)):
            self._mirror.join(fragment, float(share), delay_s=float(delay))

    def keep(self, offer: Offer) -> Kept:
        derived, count = offer.derived, len(offer.batches)
        kept = self._mirror.decide(
            np.concatenate((self._site.source_fragment, derived.fragment)),
            np.concatenate((offer.batch * offer.batches, derived.tuples)),
            np.concatenate((offer.sic, derived.sic / derived.tuples)),
            np.concatenate((np.zeros(count, np.bool_), np.ones(len(derived.sic), np.bool_))),
            offer.capacity,
            offer.reported,
        )
        # A derived batch is worth nothing in parts: Equation 3 spreads its SIC evenly.
        return kept[:count], kept[count:] == derived.tuples
