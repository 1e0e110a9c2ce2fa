"""Sites of several kinds, on which a site's numbers are tried in virtual time.

Each kind has what one of the numbers is for: prices that vary or drift, sources that burst, pause or
hand out whole seconds, queries that were down, streams that are late all by themselves, batches that
cost more than their rows. Batches of all of them vary by a fifth at least.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from headgate_lab.sim.themis.virtual_site import Stream

__all__ = ["KINDS", "SiteKind", "bursty"]


@dataclass(frozen=True)
class SiteKind:
    """One kind of site: its streams, its cores, what a person decided, and how long it is watched."""

    streams: Callable[[], list[Stream]]
    cores: float = 2.0
    seconds: float = 180.0
    #: The beginning, which is not counted.
    warm_s: float = 40.0
    settings: Mapping[str, Any] = field(default_factory=dict)


def bursty(rate: float, seed: int, spread: float = 0.7) -> Callable[[float], float]:
    """Rows a second that change every six seconds by a log-normal factor of mean 1."""

    @lru_cache(maxsize=1000)
    def factor(turn: int) -> float:
        drawn = random.Random(seed * 1_000_003 + turn).gauss(0.0, spread)
        return math.exp(drawn - 0.5 * spread * spread)

    return lambda t: rate * factor(int(t / 6.0))


def _mixed() -> list[Stream]:
    return [
        Stream("a", lambda t: 20_000, per_row_s=1e-4, noise=0.2),
        Stream("b", lambda t: 5000, trigger_s=2.0, per_row_s=4e-4, hold_s=2.0, noise=0.2),
        Stream("c", lambda t: 10_000, trigger_s=0.5, per_row_s=2e-4, hold_s=0.8, noise=0.2),
    ]


def _small() -> list[Stream]:
    """Six small streams whose batches cost more than their rows, and never the same."""
    return [
        Stream(f"q{i}", lambda t: 2400, trigger_s=4.0, fixed_task_s=0.65, fixed_wall_s=0.3,
               per_row_s=3e-4, noise=0.6)
        for i in range(6)
    ]  # fmt: skip


def _burst() -> list[Stream]:
    """One of four sends ten times as much for a minute."""
    noisy = Stream("noisy", lambda t: 50_000 if 90 <= t < 150 else 5000, noise=0.2)
    return [noisy, *(Stream(f"q{i}", lambda t: 5000, noise=0.2) for i in range(3))]


def _pauses() -> list[Stream]:
    """A source that sends for ten seconds of every forty, beside two that always send."""
    return [
        Stream("pauses", lambda t: 20_000 if t % 40 < 10 else 0.0, noise=0.2),
        Stream("a", lambda t: 20_000, noise=0.2),
        Stream("b", lambda t: 5000, trigger_s=2.0, per_row_s=4e-4, hold_s=2.0, noise=0.2),
    ]


def _derived() -> list[Stream]:
    """Rows of other fragments beside sources: few to one query, many to another."""
    return [
        Stream("a", lambda t: 20_000, noise=0.2),
        Stream("b", lambda t: 3000, brings=1e-5, noise=0.2),
        Stream("c", lambda t: 10_000, noise=0.2),
        Stream("d", lambda t: 6000, brings=1e-6, trigger_s=2.0, hold_s=2.0, noise=0.2),
    ]


def _too_many_derived() -> list[Stream]:
    """More derived rows than the cores can do, beside a source that could give way."""
    return [
        Stream("a", lambda t: 5000, noise=0.2),
        Stream("b", lambda t: 60_000, brings=1e-6, noise=0.2),
    ]


def _alone() -> list[Stream]:
    """One that uses one core of four, and is late all by itself."""
    return [
        Stream("own", lambda t: 50_000, trigger_s=0.5, hold_s=0.5, parallel=1.0, noise=0.2),
        Stream("x", lambda t: 9000, trigger_s=1.1, noise=0.2),
        Stream("y", lambda t: 500, trigger_s=1.1, noise=0.2),
    ]


def _dear() -> list[Stream]:
    """Batches that cost more than there is, whatever their rows."""
    return [Stream(f"q{i}", lambda t: 3000, fixed_task_s=0.9, noise=0.2) for i in range(4)]


def _neighbours() -> list[Stream]:
    """Rows that fit easily; what a batch costs besides them is six times as much a third of the time."""

    def busy(turn: int) -> Callable[[float], float]:
        return lambda at: 6.0 if int(at / 20.0 + 0.37 * turn) % 3 == 0 else 1.0

    return [
        Stream(f"q{i}", lambda t: 1500, trigger_s=4.0, fixed_task_s=0.75, fixed_wall_s=0.4, noise=0.9,
               fixed=busy(i))
        for i in range(4)
    ]  # fmt: skip


def _long_triggers() -> list[Stream]:
    """Triggers of half a minute beside one of five seconds."""
    return [
        Stream("slow", lambda t: 15_000, trigger_s=30.0, hold_s=20.0, noise=0.2),
        Stream("slower", lambda t: 5000, trigger_s=40.0, hold_s=30.0, per_row_s=3e-4, noise=0.2),
        Stream("fast", lambda t: 15_000, trigger_s=5.0, hold_s=5.0, noise=0.2),
    ]


def _drift() -> list[Stream]:
    """Rows of all streams cost three times as much for a minute."""

    def price(at: float) -> float:
        return 3.0 if 80 <= at < 140 else 1.0

    return [Stream(f"q{i}", lambda t: 10_000, price=price, noise=0.2) for i in range(3)]


def _changes() -> list[Stream]:
    """One stream comes, and one goes for a minute and comes back."""
    return [
        Stream("stays", lambda t: 20_000, noise=0.2),
        Stream("comes", lambda t: 20_000 if t > 60 else 0.0, noise=0.2),
        Stream("goes", lambda t: 20_000 if t < 90 or t > 150 else 0.0, noise=0.2),
    ]


def _fits() -> list[Stream]:
    """Seven tenths of what the cores can do: nothing has to be shed."""
    return [
        Stream("a", lambda t: 5000, noise=0.3),
        Stream("b", lambda t: 1000, trigger_s=2.0, per_row_s=4e-4, hold_s=2.0, noise=0.3),
        Stream("c", lambda t: 800, trigger_s=0.5, per_row_s=2e-4, hold_s=0.8, noise=0.3),
    ]


def _measured() -> list[Stream]:
    """Queries whose results are measured: of one of them four tenths are lost on the way."""
    return [
        Stream("loses", lambda t: 20_000, reaches=0.6, noise=0.2),
        Stream("whole", lambda t: 20_000, reaches=1.0, noise=0.2),
        Stream("unknown", lambda t: 10_000, noise=0.2),
    ]


def _stalls() -> list[Stream]:
    """A batch of one stream takes forty seconds in between; task times of some reports are lost."""

    def price(at: float) -> float:
        return 8.0 if 80 <= at < 84 else 1.0

    return [
        Stream("stalls", lambda t: 20_000, price=price, noise=0.2, lost_reports=0.1),
        Stream("other", lambda t: 20_000, noise=0.2, lost_reports=0.1),
    ]


def _starts() -> list[Stream]:
    """Eight streams start together, with batches that first cost ten times as much; a minute of it."""
    return [
        Stream(f"q{i}", lambda t: 4000, trigger_s=2.0, hold_s=2.0, cold=10.0, noise=0.2)
        for i in range(8)
    ]


def _bursts() -> list[Stream]:
    """Three that burst by themselves, together twice what the cores can do in the mean."""
    return [
        Stream("a", bursty(15_000, 1), noise=0.2),
        Stream("b", bursty(3000, 2), trigger_s=2.0, per_row_s=4e-4, hold_s=2.0, noise=0.2),
        Stream("c", bursty(7500, 3), trigger_s=0.5, per_row_s=1e-4, hold_s=0.8, noise=0.2),
    ]


def _whole_seconds() -> list[Stream]:
    """Sources that hand out whole seconds, as Spark's rate source does, to triggers of other lengths."""
    return [
        Stream("a", lambda t: 15_000, trigger_s=1.5, hold_s=1.5, whole_seconds=True, noise=0.2),
        Stream("b", lambda t: 3000, trigger_s=2.5, per_row_s=4e-4, hold_s=2.5, whole_seconds=True,
               noise=0.2),
        Stream("c", lambda t: 7500, trigger_s=0.7, whole_seconds=True, noise=0.2),
    ]  # fmt: skip


def _outages() -> list[Stream]:
    """One query is down for a minute, and one for half; what came meanwhile waits for them."""
    return [
        Stream("down", lambda t: 15_000, down=(80.0, 140.0), noise=0.2),
        Stream("shorter", lambda t: 3000, trigger_s=2.0, per_row_s=4e-4, hold_s=2.0, noise=0.2,
               down=(100.0, 130.0)),
        Stream("stays", lambda t: 7500, noise=0.2),
    ]  # fmt: skip


KINDS = {
    "mixed": SiteKind(_mixed),
    "small streams": SiteKind(
        _small, seconds=320.0, warm_s=100.0, settings={"hold_s": 4.0, "stw_s": 40.0, "delay_s": 7.0}
    ),
    "burst": SiteKind(_burst),
    "pauses": SiteKind(_pauses, seconds=240.0),
    "derived rows": SiteKind(_derived),
    "too many derived": SiteKind(_too_many_derived),
    "late by itself": SiteKind(_alone, cores=4.0),
    "dear batches": SiteKind(_dear),
    "neighbours": SiteKind(
        _neighbours, seconds=200.0, warm_s=80.0, settings={"hold_s": 4.0, "stw_s": 40.0, "delay_s": 7.0}
    ),
    "long triggers": SiteKind(
        _long_triggers, seconds=500.0, warm_s=200.0, settings={"stw_s": 200.0, "delay_s": 30.0}
    ),
    "price drifts": SiteKind(_drift),
    "comes and goes": SiteKind(_changes, seconds=210.0),
    "all fits": SiteKind(_fits),
    "results measured": SiteKind(_measured),
    "stalls": SiteKind(_stalls, seconds=240.0),
    "bursts": SiteKind(_bursts, seconds=240.0),
    "whole seconds": SiteKind(_whole_seconds),
    "outages": SiteKind(_outages, seconds=210.0),
    "cold start": SiteKind(_starts, seconds=60.0, warm_s=2.0),
}
