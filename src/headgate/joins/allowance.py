"""How much work a join may do in its next batch: what the target leaves, at the speed that was measured.

join-2007 finds the fraction of the windows to process by trial (Algorithm 1): down by what was not
fetched, up by a fifth every five seconds, which loses to random drop for a minute after a burst. A
micro-batch says more: how long it took, how much of that its busiest place spent comparing and writing
results, and how many comparisons and results that was. So the speed, the price of a result and the
time that goes elsewhere are each measured directly, and nothing is searched for.

A unit is one comparison. A result costs `result_units` of them, and they count in the choice of what
to compare: on compiled kernels a result costs some hundred times as much as a comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Allowance", "Spent"]

#: Compare times below this, and fewer results than this, say more of a call than of the speed.
_TELLING_S, _TELLING_EMITTED = 0.01, 20_000
#: Weight of the past in the measured speeds: a window of about five batches.
_MEMORY = 0.8
#: The share of the target that is aimed at, and the least share that comparing gets.
_AIM, _LEAST = 0.9, 0.1
#: A run's first batches pay for compiling and for starting workers.
_COLD = 2
#: Batches by which the time that goes elsewhere is judged.
_LATEST = 8
#: Results by which batches must differ before they say what a result costs behind the operator.
_TELLING_RESULTS = 100_000.0


@dataclass(frozen=True)
class Spent:
    """One finished batch. Seconds and comparisons are the busiest place's; results are everybody's."""

    duration_s: float
    compare_s: float
    comparisons: float
    emit_s: float
    #: Results that the busiest place wrote, and all that the batch wrote.
    place_results: float
    results: float


@dataclass
class Allowance:
    """Learns from batches; says how many units each place may spend in the next one."""

    target_s: float
    places: int
    #: What a comparison is taken to cost before one was timed.
    comparison_s: float = 2e-9
    #: The same for writing a result, inside the operator and behind it.
    result_s: float = 2e-7
    _compared: tuple[float, float] = (0.0, 0.0)
    _emitted: tuple[float, float] = (0.0, 0.0)
    #: Decayed sums over batches: weight, results, seconds elsewhere, results squared, their product.
    _elsewhere: tuple[float, ...] = (0.0,) * 5
    #: Results and seconds elsewhere of the latest batches.
    _recent: tuple[tuple[float, float], ...] = ()
    _batches: int = 0

    def learn(self, spent: Spent) -> None:
        """Take a finished batch into every estimate."""
        if spent.compare_s >= _TELLING_S and spent.comparisons > 0:
            self._compared = _faded(self._compared, spent.compare_s, spent.comparisons)
        emit_s = spent.emit_s if spent.place_results >= _TELLING_EMITTED else 0.0
        if emit_s > 0.0:
            self._emitted = _faded(self._emitted, emit_s, spent.place_results)
        elsewhere = max(0.0, spent.duration_s - spent.compare_s - emit_s)
        weight = 0.1 if self._batches < _COLD else 1.0
        x, y = spent.results, elsewhere
        terms = (1.0, x, y, x * x, x * y)
        self._elsewhere = tuple(
            _MEMORY * before + weight * term for before, term in zip(self._elsewhere, terms, strict=True)
        )
        if self._batches >= _COLD or not self._recent:
            self._recent = (*self._recent, (x, y))[-_LATEST:]
        self._batches += 1

    @property
    def seconds_per_comparison(self) -> float:
        """As measured, or the guess that it began with."""
        seconds, count = self._compared
        return seconds / count if count else self.comparison_s

    @property
    def seconds_per_result(self) -> float:
        """For a place: writing it, and its share of what the rest of the query does with results."""
        seconds, count = self._emitted
        own = seconds / count if count else self.result_s / 2
        return own + self._behind_s * self.places

    @property
    def _behind_s(self) -> float:
        """Seconds that the rest of the query takes for a result: a slope, held to the guess.

        Batches that hardly differ in their results say nothing of it; the guess weighs as much as a
        batch that differs from the others by `_TELLING_RESULTS`.
        """
        guess = self.result_s / 2
        n, x, y, xx, xy = self._elsewhere
        if n <= 0.0:
            return guess
        spread = max(0.0, xx / n - (x / n) ** 2)
        together = xy / n - (x / n) * (y / n)
        slope = guess + (together - guess * spread) / (spread + _TELLING_RESULTS**2)
        return min(max(slope, guess / 4), guess * 10)

    @property
    def result_units(self) -> float:
        """The price of a result in comparisons."""
        return self.seconds_per_result / self.seconds_per_comparison

    @property
    def fixed_s(self) -> float:
        """What a batch takes whatever is compared: the upper quartile of the latest ones.

        Not a mean and its spread: after a start or a stall those take the long batches along for many
        more, and leave half of the target unused.
        """
        if not self._recent:
            return 0.25 * self.target_s
        slope = self._behind_s
        found = sorted(max(0.0, seconds - slope * results) for results, seconds in self._recent)
        return found[(3 * len(found)) // 4]

    @property
    def work(self) -> float:
        """The units that each place may spend in the next batch."""
        left = max(_LEAST * self.target_s, _AIM * self.target_s - self.fixed_s)
        return left / self.seconds_per_comparison

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


def _faded(before: tuple[float, float], seconds: float, count: float) -> tuple[float, float]:
    return _MEMORY * before[0] + seconds, _MEMORY * before[1] + count
