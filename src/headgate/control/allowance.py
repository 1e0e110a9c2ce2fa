"""How much work a join may do in its next batch: what the target leaves, at the speed that was measured.

join-2007 finds the fraction of the windows to process by trial (Algorithm 1): down by what was not
fetched, up by a fifth every five seconds, which loses to random drop for a minute after a burst. A
micro-batch says more: how long it took, how much of that its busiest shard spent comparing and writing
results, and how many comparisons and results that was. So the speed, the price of a result and the
time that goes elsewhere are each measured directly, and nothing is searched for.

A unit is one comparison. A result costs `result_units` of them, and they count in the choice of what
to compare: on compiled kernels a result costs some hundred times as much as a comparison.

Why not one fit of a batch's seconds for all of it: comparisons and results rise and fall together, so
that the durations of batches alone cannot tell their prices apart, and the first batch whose rows match
more often is missed by far
(`test_a_fit_of_durations_alone_cannot_tell_comparisons_from_results`). The operator has timed both.
What is left after them is what a gate's batch takes, too: a fixed time, and a price for each row that
came and for each that was taken in. So a gate's own fit learns it (`BatchCost`), with the same margin.
From it follow the rows that fit, where rows alone do not, and the time that is left for comparing in a
batch of a given size. One slope is learned besides: what the rest of the query takes for a result, held
to a guess.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.control.batch_cost import BatchCost
from headgate.control.duration import FIRST_ROWS
from headgate.control.margin import Margin
from headgate.control.what_fits import WhatFits, WholeRule
from headgate.core.cold_start import COLD_BATCHES
from headgate.core.row_budget import RowBudget
from headgate.errors import BadArgument

__all__ = ["ALLOWANCE", "Allowance", "AllowanceConfig", "Spent", "WorkBudget"]


@dataclass(frozen=True)
class AllowanceConfig:
    """The numbers of an `Allowance`. `headgate bench join-numbers` sweeps every field."""

    #: The share of the target that is aimed at, with the time that rows take late in it already: what is
    #: left is for prices of comparisons and results that are off.
    aim: float = 0.92
    #: The least share of the target that comparing gets: where rows alone leave less, some are left out.
    least: float = 0.1
    #: The share of batches that should end inside the target; the margin follows from it.
    inside: float = 0.95
    #: The least share of a batch's rows that is taken in.
    min_keep: float = 0.01
    #: Weight of the past in the measured speeds, a batch: a window of about five.
    memory: float = 0.8
    #: A batch that took so many times what was expected stalled: it says nothing of what results cost.
    stall: float = 2.0
    #: Seconds of comparing, and results written, below which a batch says more of a call than of the
    #: speed.
    telling_s: float = 0.01
    telling_emitted: float = 20_000.0
    #: The share of the target that the first batch is taken to need for everything but comparing.
    first_fixed: float = 0.25

    def __post_init__(self) -> None:
        for name in ("aim", "least", "inside", "min_keep", "first_fixed"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise BadArgument(f"{name}={value!r}: give a share above 0 and at most 1")
        if not 0 <= self.memory < 1:
            raise BadArgument(f"memory={self.memory!r}: give a weight from 0 to less than 1")
        if not self.stall >= 1:
            raise BadArgument(f"stall={self.stall!r}: give a factor of 1 or more")
        for name in ("telling_s", "telling_emitted"):
            value = getattr(self, name)
            if not value > 0:
                raise BadArgument(f"{name}={value!r}: give a number above 0")


_VERSION = 2
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
    #: Rows that were taken in, and that came, of both sides.
    kept_rows: float = 1.0
    arrived_rows: float = 1.0


@dataclass(frozen=True)
class WorkBudget:
    """What a batch of any size may compare: what the target leaves when its rows are handled."""

    #: Seconds that a batch may take, and that comparing gets at least.
    aim_s: float
    least_s: float
    #: What a batch of the usual size takes for all but comparing.
    usual_s: float
    #: How many times what they are expected to take rows are allowed to take.
    late: float
    seconds_per_comparison: float
    #: What a result counts, in comparisons.
    result_units: float

    def units(self, elsewhere_s: float | None = None) -> float:
        """The units of each shard, where the batch is expected to take so long for all but comparing."""
        elsewhere_s = self.usual_s if elsewhere_s is None else elsewhere_s
        left = max(self.least_s, self.aim_s - self.late * elsewhere_s)
        return left / self.seconds_per_comparison


@dataclass
class Allowance:
    """Learns from batches; says how many rows fit, and how many units each shard may spend."""

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
    #: Batches of this run, and rows of the latest one: taken in, and arrived.
    _batches: int = 0
    _rows: tuple[float, float] = (1.0, 1.0)
    _cost: BatchCost = field(init=False)
    _margin: Margin = field(init=False)
    #: The budget that held for the last batch.
    _given: RowBudget | None = None

    def __post_init__(self) -> None:
        self._cost = BatchCost(target_s=self.target_s)
        self._margin = Margin(self.config.inside)

    def aim_at(self, target_s: float) -> None:
        """Another target holds from now on; what was learned stays."""
        learned = self._cost.snapshot()
        self.target_s, self._cost = target_s, BatchCost(target_s=target_s)
        self._cost.restore(learned)
        self._given = None

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
        if not cold and self._cost.known:
            expected = self._cost.predict(spent.kept_rows, spent.arrived_rows) + self._behind_s * x
            if y <= self.config.stall * expected:
                terms, memory = (1.0, x, y, x * x, x * y), self.config.memory
                self._elsewhere = tuple(
                    memory * before + term for before, term in zip(self._elsewhere, terms, strict=True)
                )
        noise = self._cost.noise
        seconds = max(0.0, y - self._behind_s * x)
        miss = self._cost.add(spent.kept_rows, spent.arrived_rows, seconds, cold=cold)
        if miss is not None:
            self._margin.add(miss, noise)
        if spent.arrived_rows > 0:
            self._rows = spent.kept_rows, spent.arrived_rows
        if self._cutting and self._given is not None:
            self._margin.missed_rows(spent.kept_rows, self._given.rows(spent.arrived_rows))
        self._given = self.rows

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

        Batches that hardly differ in their results, for their noise, say nothing of it. The guess may be
        off by as much as it is: it is the mean of a slope that is normal with that deviation.
        """
        guess = self.result_s / 2
        n, x, y, xx, xy = self._elsewhere
        if n <= 0.0:
            return guess
        spread = max(0.0, xx / n - (x / n) ** 2)
        together = xy / n - (x / n) * (y / n)
        vague = (self._cost.noise * self.fixed_s / guess) ** 2
        slope = guess + n * (together - guess * spread) / (n * spread + vague)
        return min(max(slope, guess / 4), guess * 10)

    @property
    def result_units(self) -> float:
        """The price of a result in comparisons."""
        return self.seconds_per_result / self.seconds_per_comparison

    @property
    def _cutting(self) -> bool:
        """Whether rows of the last batch were left out."""
        return self._rows[0] < self._rows[1]

    @property
    def _fits(self) -> WhatFits:
        return WhatFits(self._cost, self._margin, WholeRule(), self._cutting)

    @property
    def fixed_s(self) -> float:
        """What a batch like the last one is expected to take whatever is compared."""
        if not self._cost.known:
            return self.config.first_fixed * self.target_s
        return self._cost.predict(*self._rows)

    @property
    def rows(self) -> RowBudget:
        """How many rows fit of a batch of any size: all, unless they alone would take too long.

        The first batches say more of starting workers than of rows: they leave none out, but for what is
        more than a first batch may have.
        """
        config, cost = self.config, self._cost
        if cost.samples <= COLD_BATCHES:
            most = max(FIRST_ROWS * self.target_s, self._rows[0])
            return RowBudget(self.target_s, most=most, min_keep=config.min_keep)
        room, fits = (1.0 - config.least) * self.target_s, self._fits
        (aim, kept), whole = fits.cut(room, self._rows[1]), fits.whole(room)
        if not self._cutting:  # too many rows have to be proved
            whole = max(whole, fits.surely_within(room))
        return RowBudget(
            aim,
            cost.fixed_s,
            cost.per_kept_s,
            cost.per_arrived_s,
            whole=whole,
            # By a price that may be next to nothing any number of rows would fit.
            most=max(whole, kept),
            min_keep=config.min_keep,
        )

    @property
    def budget(self) -> WorkBudget:
        """What a batch of any size may compare."""
        config, late = self.config, 1.0
        if self._cost.known:
            kept, arrived = self._rows
            late = self._fits.late_s(kept, arrived) / max(1e-9, self._cost.predict(kept, arrived))
        return WorkBudget(
            config.aim * self.target_s,
            config.least * self.target_s,
            self.fixed_s,
            late,
            self.seconds_per_comparison,
            self.result_units,
        )

    @property
    def work(self) -> float:
        """The units that each shard may spend in a batch with as many rows as the last one."""
        return self.budget.units()

    @property
    def usual_rows(self) -> float:
        """The rows that the last batch with any brought."""
        return self._rows[1]

    def _faded(self, before: tuple[float, float], seconds: float, count: float) -> tuple[float, float]:
        """Sums in which the past counts less with every batch."""
        return self.config.memory * before[0] + seconds, self.config.memory * before[1] + count

    def snapshot(self) -> dict[str, Any]:
        """All that was learned, as JSON."""
        return {
            "v": _VERSION,
            "compared": list(self._compared),
            "emitted": list(self._emitted),
            "elsewhere": list(self._elsewhere),
            "cost": self._cost.snapshot(),
            "margin": self._margin.snapshot(),
            "rows": list(self._rows),
        }

    def restore(self, value: Mapping[str, Any]) -> None:
        """Go on from a snapshot; the first batches of the new run are cold again."""
        compared, emitted = value["compared"], value["emitted"]
        self._compared = (float(compared[0]), float(compared[1]))
        self._emitted = (float(emitted[0]), float(emitted[1]))
        self._elsewhere = tuple(float(term) for term in value["elsewhere"])
        if "v" in value:
            self._cost.restore(value["cost"])
            self._margin.restore(value["margin"])
            self._rows = (float(value["rows"][0]), float(value["rows"][1]))
        elif value["recent"]:  # 0.1.0 knew nothing of rows, but how long batches took
            seconds = sorted(max(0.0, float(y) - self._behind_s * float(x)) for x, y in value["recent"])
            self._cost.believe(seconds[len(seconds) // 2], 0.0, 1.0)
        if not math.isfinite(self.work):
            raise ValueError(f"{self.work} units of work, which is no number")
