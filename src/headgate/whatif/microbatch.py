"""A micro-batch engine in virtual time, driven by the shipped controllers and policies.

It models what decides whether a target is held, and nothing else: when batches begin, which rows
they collect, what they cost, and which plan they meet. An hour of batches takes less than a
second, so a promise about thousands of batches can be a test.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headgate.control import Controller, ControllerConfig
from headgate.core.groups import GroupStats
from headgate.core.load import LoadSample, ReadLimit
from headgate.core.plan import KEEP_ALL, Plan
from headgate.errors import BadArgument
from headgate.policies import Policy, Uniform
from headgate.whatif.arrivals import Arrivals, Rate, RowTimes

__all__ = ["BatchRun", "Cost", "CostModel", "MicroBatches", "Workload"]

#: How long after its arrival an idle engine sees a row (Spark's polling delay).
_POLL_S = 0.01


@dataclass(frozen=True)
class Cost:
    """``(fixed + per_kept * kept + per_arrived * arrived)`` seconds, times log-normal noise.

    `noise` is the standard deviation of the logarithm: 0.1 is about 10 %. Where the misses of real
    batches are known (of the logarithm), they are drawn from instead, with their heavy tail.

    >>> Cost(fixed_s=0.25, per_kept_s=0.75e-4).capacity(1.0)
    10000.0
    """

    fixed_s: float
    per_kept_s: float
    per_arrived_s: float = 0.0
    noise: float = 0.0
    misses: tuple[float, ...] = ()

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


#: Shares of the rows by group key.
Mix = Mapping[int, float]
#: A cost that changes: from the batch's number and its start.
CostModel = Callable[[int, float], Cost]


@dataclass(frozen=True)
class Workload:
    """What stands around the gate: the stream, the query's cost, and how Spark was set up."""

    #: Rows per second at each instant, or when each row came.
    arrivals: Rate | RowTimes
    cost: Cost | CostModel
    #: The trigger's interval; 0 begins a batch as soon as the one before is over.
    trigger_s: float = 0.0
    #: Whether Spark says what the trigger's interval is.
    tells_interval: bool = True
    #: The source hands out whole stretches of so many seconds, as Spark's rate source does; 0: any row.
    granule_s: float = 0.0
    #: Rows that the source hands out at most per batch (`maxOffsetsPerTrigger`).
    source_cap: int | None = None
    #: Whether a capped source says what it holds back (Kafka does; files do not).
    tells_backlog: bool = True
    #: Whether the gate can read the cap in the query (a classic session), or must see it in batches.
    tells_cap: bool = False
    #: Extra seconds that no row causes, by the batch's start: a slow sink.
    stall: Callable[[float], float] | None = None
    #: Whether the size of a batch is known when its plan is pinned; if not, the budget's `keep` holds.
    size_known: bool = True
    #: The size as it is believed, by the true one: always off by this ratio (a compacted topic), and
    #: from batch to batch by a log-normal factor of this spread (bytes of files).
    size_ratio: float = 1.0
    size_spread: float = 0.0
    #: A budget published after batch n holds from n + 2 on: the next batch pinned its plan first.
    plan_lag: bool = False
    #: False for monitor mode: every row is kept, whatever the plan says.
    follow: bool = True
    #: Shares of the rows by group key, for policies that tell groups apart; may change with time.
    mix: Mix | Callable[[float], Mix] = field(default_factory=dict)
    seed: int = 0


@dataclass(frozen=True)
class BatchRun:
    """One simulated batch.

    `keep` is the share that its plan asked for, `advice` what the controller says after it for a batch
    whose size is not known, and `expected` the seconds of its rows without noise.
    """

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
    expected: float = 0.0
    #: Rows that came and rows that were kept, by group key, where the workload has a mix.
    groups: Mapping[int, tuple[int, int]] = field(default_factory=dict)


class MicroBatches:
    """The engine: `run` as many batches as wanted, `restart` in between, read `records`.

    >>> from headgate import HoldDuration
    >>> overload = Workload(lambda t: 20_000.0, Cost(fixed_s=0.25, per_kept_s=0.75e-4))
    >>> batches = MicroBatches(overload, HoldDuration("1 second")).run(100)
    >>> max(b.duration for b in batches[10:]) < 1.0
    True
    """

    def __init__(
        self,
        workload: Workload,
        config: ControllerConfig,
        policy: Policy | None = None,
        snapshot: Mapping[str, Any] | None = None,
    ) -> None:
        if policy is not None and policy.drawing is not None:
            raise BadArgument(
                f"policy={policy!r} draws rows by the groups of their own batch, which this engine does "
                "not model: give a policy whose plans have rates (Uniform, ValueClasses, GroupRates)"
            )
        self.workload = workload
        self._config, self._policy = config, policy or Uniform()
        self._random = random.Random(workload.seed)
        arrivals = workload.arrivals
        self._rows: RowTimes = (
            Arrivals(arrivals, 0.0, workload.granule_s) if callable(arrivals) else arrivals
        )
        self.controller: Controller = config.build(snapshot)
        self._tell_cap()
        self.groups = GroupStats()
        self.records: list[BatchRun] = []
        self.handed = self.kept = self.shed = 0
        self.now = 0.0
        self._next_trigger = workload.trigger_s
        self._budgets = [self.controller.opening(0.0)] * 2

    def restart(self, down_s: float) -> None:
        """Stop, stay down while rows go on arriving, and go on from the controller's snapshot."""
        self.now += down_s
        self._next_trigger = self.now
        self.controller = self._config.build(self.controller.snapshot())
        self._tell_cap()
        self._budgets = [self.controller.opening(self.now)] * 2

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

    def run_until(
        self, instant: float, downtimes: Sequence[tuple[float, float]] = (), most: float = math.inf
    ) -> list[BatchRun]:
        """Batches that begin before an instant, while rows come; the records of all.

        In each of the `downtimes` the query stops with the batch that runs then, and begins again.
        """
        left = list(downtimes)
        while self.now < instant and self.handed < self._rows.total and len(self.records) < most:
            if left and self.now >= left[0][0]:
                _, begins = left.pop(0)
                self.restart(max(0.0, begins - self.now))
            self._batch()
        self.check_conservation()
        return self.records

    def check_conservation(self) -> None:
        """Every row that arrived was kept, was shed, or still waits."""
        start = self.records[-1].start if self.records else self.now
        arrived, waiting = self._rows.until(start), self._rows.until(start) - self.handed
        recorded = sum(r.arrived for r in self.records)
        if waiting < 0 or arrived != self.kept + self.shed + waiting or recorded != self.handed:
            raise AssertionError(
                f"{arrived} rows arrived; {self.kept} were kept, {self.shed} shed, {waiting} wait"
            )

    def _pinned(self, arrived: int) -> Plan:
        """The plan of a batch that begins now, as whoever pins it makes it."""
        load = self.workload
        budget = self._budgets[0 if load.plan_lag else 1]
        if load.size_known:
            off = self._random.lognormvariate(0.0, load.size_spread) if load.size_spread > 0 else 1.0
            budget = budget.at(round(arrived * load.size_ratio * off))
        return self._policy.plan(budget, self.groups) if load.follow else KEEP_ALL

    def _start(self) -> float:
        """Spark's rule: at the next multiple of the interval, at once when that has passed."""
        trigger, start = self.workload.trigger_s, max(self.now, self._next_trigger)
        if self._rows.until(start) <= self.handed:
            start = max(start, self._rows.ready_at(self.handed) + _POLL_S)
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
        counts, through, share = self._pass(arrived, self._pinned(arrived), 0.5 * (oldest + start))
        kept = sum(through.values())
        number = len(self.records)
        cost = load.cost if isinstance(load.cost, Cost) else load.cost(number, start)
        expected = cost.seconds(kept, arrived)
        duration = expected * self._miss(cost)
        duration += load.stall(start) if load.stall else 0.0
        self.handed += arrived
        self.kept += kept
        self.shed += arrived - kept
        self.now = start + duration
        backlog = waiting - arrived
        shown = backlog if load.source_cap is not None and load.tells_backlog else None
        interval = load.trigger_s if load.tells_interval and load.trigger_s > 0 else None
        sample = LoadSample(number, start, duration, arrived, kept, oldest, shown, interval_s=interval)
        self.groups = GroupStats(counts, arrived)
        budget = self.controller.decide(sample)
        self._budgets = [self._budgets[1], budget]
        delay = self.now - oldest
        self.records.append(
            BatchRun(
                number, start, duration, arrived, kept, share, delay, backlog, budget.keep,
                budget.state, expected, {k: (n, through[k]) for k, n in counts.items()},
            )
        )  # fmt: skip

    def _miss(self, cost: Cost) -> float:
        """By which factor a batch misses what it costs."""
        if cost.misses:
            return math.exp(self._random.choice(cost.misses))
        return self._random.lognormvariate(0.0, cost.noise)

    def _pass(
        self, arrived: int, plan: Plan, at: float
    ) -> tuple[dict[int, int], dict[int | None, int], float]:
        """The rows through the gate: those of each group, those kept of each, the share to expect.

        Rows in no group of the mix are kept under the key None.
        """
        counts: dict[int, int] = {}
        rest, share_left = arrived, 1.0
        mix = self.workload.mix
        for key, share in (mix(at) if callable(mix) else mix).items():
            counts[key] = self._binomial(rest, min(1.0, share / share_left)) if share_left > 0 else 0
            rest -= counts[key]
            share_left -= share
        groups: list[tuple[int | None, int, float]] = [(None, rest, plan.default)]
        groups += [(k, n, plan.rate_of(k)) for k, n in counts.items()]
        kept = {key: self._binomial(n, rate) for key, n, rate in groups}
        expected = sum(n * rate for _, n, rate in groups) / arrived if arrived else plan.default
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
