"""How much work a join may do in its next batch: what the target leaves, at the speed that was measured.

join-2007 finds the fraction of the windows to process by trial (Algorithm 1): down by what was not
fetched, up by a fifth every five seconds, which loses to random drop for a minute after a burst. A
micro-batch says more: how long it took, how much of that its busiest shard spent comparing and writing
results, and how many comparisons and results that was. So the speed, the price of a result and the
time that goes elsewhere are each measured directly, and nothing is searched for.

A unit is one comparison. A result costs `result_units` of them, and they count in the choice of what
to compare: on compiled kernels a result costs some hundred times as much as a comparison.

Why not the fit of seconds that a gate's controller makes: comparisons and results rise and fall
together, so that the durations of batches alone cannot tell their prices apart, and the first batch
whose rows match more often is missed by far
(`test_a_fit_of_durations_alone_cannot_tell_comparisons_from_results`). The operator has timed both. What
is left to fit is one slope, what the rest of the query takes for a result, held to a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.core.cold_start import COLD_BATCHES
from headgate.errors import BadArgument

__all__ = ["ALLOWANCE", "Allowance", "AllowanceConfig", "Spent"]


@dataclass(frozen=True)
class AllowanceConfig:
    """The numbers of an `Allowance`. `headgate bench join-numbers` sweeps every field."""

    #: The share of the target that is aimed at. What is left covers the quarter of batches whose fixed
    #: time is above the one planned with.
    aim: float = 0.9
    #: The least share of the target that comparing gets, where the fixed time leaves none: a join that
    #: compares nothing yields nothing, and what holds then is a gate in front.
    least: float = 0.1
    #: Weight of the past in the measured speeds, a batch: a window of about five.
    memory: float = 0.8
    #: Batches by which the time that goes elsewhere is judged, and which of them, in order of length,
    #: is planned with. Not a mean and its spread: after a start or a stall those take the long batches
    #: along for many more, and leave half of the target unused.
    recent: int = 8
    quantile: float = 0.75
    #: A batch that took so many times what was expected stalled: it says nothing of what results cost.
    stall: float = 2.0
    #: Seconds of comparing, and results written, below which a batch says more of a call than of the
    #: speed.
    telling_s: float = 0.01
    telling_emitted: float = 20_000.0
    #: Results by which batches must differ before they say what a result costs behind the operator.
    telling_results: float = 100_000.0
    #: The share of the target that the first batch is taken to need for everything but comparing.
    first_fixed: float = 0.25

    def __post_init__(self) -> None:
        for name in ("aim", "least", "quantile", "first_fixed"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise BadArgument(f"{name}={value!r}: give a share above 0 and at most 1")
        if not 0 <= self.memory < 1:
            raise BadArgument(f"memory={self.memory!r}: give a weight from 0 to less than 1")
        if not self.stall >= 1:
            raise BadArgument(f"stall={self.stall!r}: give a factor of 1 or more")
        if self.recent < 1:
            raise BadArgument(f"recent={self.recent!r}: give 1 batch or more")
        for name in ("telling_s", "telling_emitted", "telling_results"):
            value = getattr(self, name)
            if not value > 0:
                raise BadArgument(f"{name}={value!r}: give a number above 0")


#: The defaults.
ALLOWANCE = AllowanceConfig()


@dataclass(frozen=True)
class Spent:
    """One finished batch. Seconds and comparisons are the busiest shard's; results are everybody's."""

    duration_s: float
    compare_s: float
    comparisons: float
    emit_s: float
    #: Results that the busiest shard wrote, and all that the batch wrote.
    shard_results: float
    results: float


@dataclass
class Allowance:
    """Learns from batches; says how many units each shard may spend in the next one."""

    target_s: float
    shards: int
    #: What a comparison is taken to cost before one was timed.
    comparison_s: float = 2e-9
    #: The same for writing a result, inside the operator and behind it.
    result_s: float = 2e-7
    config: AllowanceConfig = ALLOWANCE
    _compared: tuple[float, float] = (0.0, 0.0)
    _emitted: tuple[float, float] = (0.0, 0.0)
    #: Decayed sums over batches: weight, results, seconds elsewhere, results squared, their product.
    _elsewhere: tuple[float, ...] = (0.0,) * 5
    #: Results and seconds elsewhere of the latest batches.
    _recent: tuple[tuple[float, float], ...] = ()
    _batches: int = 0

    def learn(self, spent: Spent) -> None:
        """Take a finished batch into every estimate."""
        if spent.compare_s >= self.config.telling_s and spent.comparisons > 0:
            self._compared = self._faded(self._compared, spent.compare_s, spent.comparisons)
        emit_s = spent.emit_s if spent.shard_results >= self.config.telling_emitted else 0.0
        if emit_s > 0.0:
            self._emitted = self._faded(self._emitted, emit_s, spent.shard_results)
        elsewhere = max(0.0, spent.duration_s - spent.compare_s - emit_s)
        cold, x, y = self._batches < COLD_BATCHES, spent.results, elsewhere
        self._batches += 1
        if cold and self._recent:
            return
        if not cold and y <= self.config.stall * (self.fixed_s + self._behind_s * x):
            terms, memory = (1.0, x, y, x * x, x * y), self.config.memory
            self._elsewhere = tuple(
                memory * before + term for before, term in zip(self._elsewhere, terms, strict=True)
            )
        self._recent = (*self._recent, (x, y))[-self.config.recent :]

    @property
    def seconds_per_comparison(self) -> float:
        """As measured, or the guess that it began with."""
        seconds, count = self._compared
        return seconds / count if count else self.comparison_s

    @property
    def seconds_per_result(self) -> float:
        """For a shard: writing it, and its share of what the rest of the query does with results."""
        seconds, count = self._emitted
        own = seconds / count if count else self.result_s / 2
        return own + self._behind_s * self.shards

    @property
    def _behind_s(self) -> float:
        """Seconds that the rest of the query takes for a result: a slope, held to the guess.

        Batches that hardly differ in their results say nothing of it; the guess weighs as much as a
        batch that differs from the others by `telling_results`.
        """
        guess = self.result_s / 2
        n, x, y, xx, xy = self._elsewhere
        if n <= 0.0:
            return guess
        spread = max(0.0, xx / n - (x / n) ** 2)
        together = xy / n - (x / n) * (y / n)
        slope = guess + (together - guess * spread) / (spread + self.config.telling_results**2)
        return min(max(slope, guess / 4), guess * 10)

    @property
    def result_units(self) -> float:
        """The price of a result in comparisons."""
        return self.seconds_per_result / self.seconds_per_comparison

    @property
    def fixed_s(self) -> float:
        """What a batch takes whatever is compared: the upper quartile of the latest ones."""
        if not self._recent:
            return self.config.first_fixed * self.target_s
        slope = self._behind_s
        found = sorted(max(0.0, seconds - slope * results) for results, seconds in self._recent)
        return found[min(len(found) - 1, int(self.config.quantile * len(found)))]

    @property
    def work(self) -> float:
        """The units that each shard may spend in the next batch."""
        config = self.config
        left = max(config.least * self.target_s, config.aim * self.target_s - self.fixed_s)
        return left / self.seconds_per_comparison

    def _faded(self, before: tuple[float, float], seconds: float, count: float) -> tuple[float, float]:
        """Sums in which the past counts less with every batch."""
        return self.config.memory * before[0] + seconds, self.config.memory * before[1] + count

    def snapshot(self) -> dict[str, Any]:
        """All that was learned, as JSON."""
        return {
            "compared": list(self._compared),
            "emitted": list(self._emitted),
            "elsewhere": list(self._elsewhere),
            "recent": [list(one) for one in self._recent],
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from a snapshot; the first batches of the new run are cold again."""
        self._compared = (float(value["compared"][0]), float(value["compared"][1]))
        self._emitted = (float(value["emitted"][0]), float(value["emitted"][1]))
        self._elsewhere = tuple(float(term) for term in value["elsewhere"])
        self._recent = tuple((float(x), float(y)) for x, y in value["recent"])
