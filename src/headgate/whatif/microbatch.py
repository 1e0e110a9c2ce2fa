"""A micro-batch engine in virtual time, driven by the shipped controllers and policies.

It models what decides whether a target is held, and nothing else: when batches begin, which rows
they collect, what they cost, and which plan they meet. An hour of batches takes less than a
second, so a promise about thousands of batches can be a test.
"""

from __future__ import annotations

import bisect
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headgate.control import Controller, ControllerConfig
from headgate.core.groups import GroupStats
from headgate.core.load import Budget, LoadSample, ReadLimit
from headgate.core.plan import KEEP_ALL, Plan
from headgate.errors import BadArgument
from headgate.policies import Policy, Uniform

__all__ = ["BatchRun", "Cost", "CostModel", "MicroBatches", "Workload"]

#: Arrivals are summed up in steps of this many seconds; between two steps they come evenly.
_STEP_S = 0.02
#: How long after its arrival an idle engine sees a row (Spark's polling delay).
_POLL_S = 0.01
_LONGEST_QUIET_S = 3_600.0


@dataclass(frozen=True)
class Cost:
    """``(fixed + per_kept * kept + per_arrived * arrived)`` seconds, times log-normal noise.

    `noise` is the standard deviation of the logarithm: 0.1 is about 10 %.

    >>> Cost(fixed_s=0.25, per_kept_s=0.75e-4).capacity(1.0)
    10000.0
    """

    fixed_s: float
    per_kept_s: float
    per_arrived_s: float = 0.0
    noise: float = 0.0

    def seconds(self, kept: float, arrived: float) -> float:
        """The cost without noise."""
        return self.fixed_s + self.per_kept_s * kept + self.per_arrived_s * arrived

    def capacity(self, target_s: float) -> float:
        """Rows per second at which a batch that keeps all of `target_s` seconds takes as long."""
        return round((target_s - self.fixed_s) / (self.per_kept_s + self.per_arrived_s) / target_s, 6)

    def ideal_keep(self, load: float, interval_s: float, target_s: float) -> float:
        """The share that fits exactly: what one could keep who knew the costs and met no noise."""
        rows = load * interval_s
        room = target_s - self.fixed_s - self.per_arrived_s * rows
        return min(1.0, max(0.0, room / (self.per_kept_s * rows)))


#: A cost that changes: from the batch's number and its start.
CostModel = Callable[[int, float], Cost]


@dataclass(frozen=True)
class Workload:
    """What stands around the gate: the stream, the query's cost, and how Spark was set up."""

    #: Rows per second at each instant.
    arrivals: Callable[[float], float]
    cost: Cost | CostModel
    #: The trigger's interval; 0 begins a batch as soon as the one before is over.
    trigger_s: float = 0.0
    #: Rows that the source hands out at most per batch (`maxOffsetsPerTrigger`).
    source_cap: int | None = None
    #: Whether a capped source says what it holds back (Kafka does; files do not).
    tells_backlog: bool = True
    #: Whether the gate can read the cap in the query (a classic session), or must see it in batches.
    tells_cap: bool = False
    #: Extra seconds that no row causes, by the batch's start: a slow sink.
    stall: Callable[[float], float] | None = None
    #: A plan published after batch n holds from n + 2 on: the next batch read its plan first.
    plan_lag: bool = False
    #: False for monitor mode: every row is kept, whatever the plan says.
    follow: bool = True
    #: Shares of the rows by group key, for policies that tell groups apart.
    mix: Mapping[int, float] = field(default_factory=dict)
    seed: int = 0


@dataclass(frozen=True)
class BatchRun:
    """One simulated batch. `keep` is the share its plan asked for; `advice` the budget after it."""

    batch: int
    start: float
    duration: float
    arrived: int
    kept: int
    keep: float
    delay: float
    backlog: int
    advice: float
    state: str


class _Arrivals:
    """Rows in the order of their arrival: how many by an instant, and when the n-th came."""

    def __init__(self, rate: Callable[[float], float], begin: float) -> None:
        self._rate, self._begin = rate, begin
        self._sums = [0.0]

    def _extend(self) -> None:
        middle = self._begin + (len(self._sums) - 0.5) * _STEP_S
        rate = self._rate(middle)
        if not (math.isfinite(rate) and rate >= 0):
            raise BadArgument(f"arrivals({middle:.2f}) = {rate!r}: give rows per second, 0 or more")
        self._sums.append(self._sums[-1] + rate * _STEP_S)

    def until(self, now: float) -> int:
        place = max(0.0, (now - self._begin) / _STEP_S)
        index = int(place)
        while len(self._sums) < index + 2:
            self._extend()
        low, high = self._sums[index], self._sums[index + 1]
        return int(low + (high - low) * (place - index) + 1e-9)

    def instant_of(self, row: int) -> float:
        """When row number `row` (from 0) came."""
        quiet = 0.0
        while self._sums[-1] < row + 1:
            self._extend()
            quiet = quiet + _STEP_S if self._sums[-1] == self._sums[-2] else 0.0
            if quiet > _LONGEST_QUIET_S:
                raise BadArgument("no row arrives for a whole hour: the stream is over")
        index = bisect.bisect_left(self._sums, row + 1)
        low, high = self._sums[index - 1], self._sums[index]
        return self._begin + (index - 1 + (row + 1 - low) / (high - low)) * _STEP_S


class MicroBatches:
    """The engine: `run` as many batches as wanted, `restart` in between, read `records`.

    >>> from headgate import HoldDuration
    >>> overload = Workload(lambda t: 20_000.0, Cost(fixed_s=0.25, per_kept_s=0.75e-4))
    >>> batches = MicroBatches(overload, HoldDuration("1 second")).run(100)
    >>> max(b.duration for b in batches[10:]) < 1.0
    True
    """

    def __init__(
        self, workload: Workload, config: ControllerConfig, policy: Policy | None = None
    ) -> None:
        self.workload = workload
        self._config, self._policy = config, policy or Uniform()
        self._random = random.Random(workload.seed)
        self._rows = _Arrivals(workload.arrivals, 0.0)
        self.controller: Controller = config.build()
        self._tell_cap()
        self.groups = GroupStats()
        self.records: list[BatchRun] = []
        self.handed = self.kept = self.shed = 0
        self.now = 0.0
        self._next_trigger = workload.trigger_s
        self._plans = [self._plan(self.controller.opening(0.0))] * 2

    def restart(self, down_s: float) -> None:
        """Stop, stay down while rows go on arriving, and go on from the controller's snapshot."""
        self.now += down_s
        self._next_trigger = self.now
        self.controller = self._config.build(self.controller.snapshot())
        self._tell_cap()
        self._plans = [self._plan(self.controller.opening(self.now))] * 2

    def _tell_cap(self) -> None:
        if self.workload.tells_cap:
            self.controller.capped(ReadLimit(rows=self.workload.source_cap))

    def run(self, batches: int) -> list[BatchRun]:
        """That many more batches; their records."""
        done = len(self.records)
        for _ in range(batches):
            self._batch()
        self.check_conservation()
        return self.records[done:]

    def check_conservation(self) -> None:
        """Every row that arrived was kept, was shed, or still waits."""
        start = self.records[-1].start if self.records else self.now
        arrived, waiting = self._rows.until(start), self._rows.until(start) - self.handed
        recorded = sum(r.arrived for r in self.records)
        if waiting < 0 or arrived != self.kept + self.shed + waiting or recorded != self.handed:
            raise AssertionError(
                f"{arrived} rows arrived; {self.kept} were kept, {self.shed} shed, {waiting} wait"
            )

    def _plan(self, budget: Budget) -> Plan:
        return self._policy.plan(budget, self.groups)

    def _start(self) -> float:
        """Spark's rule: at the next multiple of the interval, at once when that has passed."""
        trigger, start = self.workload.trigger_s, max(self.now, self._next_trigger)
        if self._rows.until(start) <= self.handed:
            start = max(start, self._rows.instant_of(self.handed) + _POLL_S)
            if trigger > 0:
                start = math.ceil(start / trigger) * trigger
        if trigger > 0:
            self._next_trigger = (math.floor(start / trigger + 1e-9) + 1) * trigger
        return start

    def _batch(self) -> None:
        load, start = self.workload, self._start()
        waiting = self._rows.until(start) - self.handed
        arrived = waiting if load.source_cap is None else min(waiting, load.source_cap)
        oldest = self._rows.instant_of(self.handed)
        plan = self._plans[0] if load.plan_lag else self._plans[1]
        counts, kept, expected = self._pass(arrived, plan if load.follow else KEEP_ALL)
        number = len(self.records)
        cost = load.cost if isinstance(load.cost, Cost) else load.cost(number, start)
        duration = cost.seconds(kept, arrived) * self._random.lognormvariate(0.0, cost.noise)
        duration += load.stall(start) if load.stall else 0.0
        self.handed += arrived
        self.kept += kept
        self.shed += arrived - kept
        self.now = start + duration
        backlog = waiting - arrived
        told = backlog if load.source_cap is not None and load.tells_backlog else None
        sample = LoadSample(number, start, duration, arrived, kept, oldest, told)
        self.groups = GroupStats(counts, arrived)
        budget = self.controller.decide(sample)
        self._plans = [self._plans[1], self._plan(budget)]
        delay = self.now - oldest
        self.records.append(
            BatchRun(
                number, start, duration, arrived, kept, expected, delay, backlog, budget.keep,
                budget.state,
            )
        )  # fmt: skip

    def _pass(self, arrived: int, plan: Plan) -> tuple[dict[int, int], int, float]:
        """The rows through the gate, group by group: counts, rows kept, the share to expect."""
        counts: dict[int, int] = {}
        rest, share_left = arrived, 1.0
        for key, share in self.workload.mix.items():
            counts[key] = self._binomial(rest, min(1.0, share / share_left)) if share_left > 0 else 0
            rest -= counts[key]
            share_left -= share
        groups = [(rest, plan.default), *((n, plan.rate_of(k)) for k, n in counts.items())]
        kept = sum(self._binomial(n, rate) for n, rate in groups)
        expected = sum(n * rate for n, rate in groups) / arrived if arrived else plan.default
        return counts, kept, expected

    def _binomial(self, n: int, p: float) -> int:
        if n <= 0 or p <= 0.0:
            return 0
        if p >= 1.0:
            return n
        if n <= 30:
            return sum(self._random.random() < p for _ in range(n))
        drawn = self._random.gauss(n * p, math.sqrt(n * p * (1.0 - p)))
        return min(n, max(0, round(drawn)))
