"""The shedders a site can run: the mirror (default), BALANCE-SIC as published, and random shedding.

All three answer one question for a shedding interval: given what each gate offers, the SIC and the cost
of its rows, and what coordinators say, how much of each gate is to be kept? Amounts are tuples in
thousandths, because a fragment may send one derived tuple in five seconds.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from headgate.errors import BadArgument
from headgate.fairness.balance_sic import BalanceSic
from headgate.fairness.mirror import Mirror, MirrorSettings
from headgate.fairness.random_shedding import RandomShedding

__all__ = ["SHEDDERS", "Entitled", "Offer", "Shedder", "shedder"]

#: Tuples are counted in thousandths.
_PARTS = 1000.0
#: The published shedders keep or shed whole batches: so many of each gate in an interval.
_BATCHES = 100

SHEDDERS = ("mirror", "balance-sic", "random")


@dataclass(frozen=True)
class Offer:
    """What one gate brings in an interval."""

    query: Hashable
    derived: bool
    #: Tuples in the interval, the SIC of each, and what each costs of the capacity.
    tuples: float
    sic: float
    cost: float


@dataclass(frozen=True)
class Entitled:
    """A query as a site's shedder sees it: the share of it that is here, weight, priority."""

    share: float
    weight: float = 1.0
    priority: int = 0


class Shedder(Protocol):
    """Decides, interval after interval, which share of each gate's rows to keep."""

    def queries(self, entitled: dict[Hashable, Entitled]) -> None:
        """Set the queries that there are from now on."""

    def keep(
        self, offers: Sequence[Offer], capacity: float, reported: dict[Hashable, float]
    ) -> list[float]:
        """The share to keep of each offer; `reported` has nan where nobody knows."""

    @property
    def level(self) -> float:
        """The SIC up to which queries are lifted, as of the last decision; nan if it has none."""


def shedder(name: str, settings: MirrorSettings, seed: int) -> Shedder:
    """The shedder of this name."""
    if name == "mirror":
        return _Mirrored(settings)
    if name == "balance-sic":
        return _Batches(BalanceSic(), seed)
    if name == "random":
        return _Batches(RandomShedding(), seed)
    raise BadArgument(f"shedding={name!r} is not one of {', '.join(map(repr, SHEDDERS))}")


class _Mirrored:
    def __init__(self, settings: MirrorSettings) -> None:
        self._mirror = Mirror(settings)
        self._known: dict[Hashable, Entitled] = {}

    @property
    def level(self) -> float:
        return self._mirror.level

    def queries(self, entitled: dict[Hashable, Entitled]) -> None:
        for query in [q for q in self._known if q not in entitled]:
            self._mirror.leave(query)
        for query, what in entitled.items():
            if query not in self._known:
                self._mirror.join(query, what.share, weight=what.weight, priority=what.priority)
            elif what != self._known[query]:
                self._mirror.change(query, share=what.share, weight=what.weight, priority=what.priority)
        self._known = dict(entitled)

    def keep(
        self, offers: Sequence[Offer], capacity: float, reported: dict[Hashable, float]
    ) -> list[float]:
        numbers = np.array([self._mirror.number(o.query) for o in offers], np.int64)
        tuples = np.array([round(o.tuples * _PARTS) for o in offers], np.int64)
        sic = np.array([o.sic / _PARTS for o in offers], np.float64)
        cost = np.array([o.cost / _PARTS for o in offers], np.float64)
        derived = np.array([o.derived for o in offers], np.bool_)
        heard = np.array([reported.get(q, math.nan) for q in self._mirror.queries], np.float64)
        kept = self._mirror.decide(numbers, tuples, sic, derived, capacity, heard, cost=cost)
        return [1.0 if n <= 0 else float(k) / float(n) for k, n in zip(kept, tuples, strict=True)]


class _Batches:
    """The published way: whole batches, and capacity in tuples of average cost (section 6)."""

    def __init__(self, rule: BalanceSic | RandomShedding, seed: int) -> None:
        self._rule = rule
        self._random = np.random.default_rng(seed)
        self._known: dict[Hashable, Entitled] = {}
        self.level = math.nan

    def queries(self, entitled: dict[Hashable, Entitled]) -> None:
        self._known = dict(entitled)

    def keep(
        self, offers: Sequence[Offer], capacity: float, reported: dict[Hashable, float]
    ) -> list[float]:
        amounts = np.array([o.tuples * _PARTS for o in offers], np.float64)
        costs = np.array([o.cost / _PARTS for o in offers], np.float64)
        total = float((amounts * costs).sum())
        if total <= capacity:
            return [1.0] * len(offers)
        sizes = np.maximum(1, np.repeat(np.round(amounts / _BATCHES), _BATCHES)).astype(np.int64)
        tuples = capacity / (total / max(1e-12, float(amounts.sum())))
        if isinstance(self._rule, RandomShedding):
            kept = self._rule.keep(sizes, tuples, self._random)
        else:
            numbers = {query: number for number, query in enumerate(self._known)}
            query = np.repeat([numbers[o.query] for o in offers], _BATCHES).astype(np.int64)
            sic = np.repeat([o.sic / _PARTS for o in offers], _BATCHES)
            heard = np.array([_or_zero(reported.get(q, 0.0)) for q in self._known], np.float64)
            kept = self._rule.keep(query, sizes, sizes * sic, tuples, heard, self._random)
        return [float(share) for share in kept.reshape(len(offers), _BATCHES).mean(axis=1)]


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value
