"""The shipped shedder of a worker on a virtual clock, batch after batch.

Rows wait for the trigger, and for the batch before theirs; then each is offered when its turn comes, and
takes what the job says. A shedder is built anew for each batch from the state of the one before and from
all lessons, as in a Spark task.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from headgate.core.cold_start import COLD_BATCHES
from headgate.guards.inline import Expected
from headgate.guards.inline_policy import InlinePolicy
from headgate.guards.price_shedding import PriceShedding
from headgate.guards.targets import average
from headgate.sketches.hashing import mix64
from headgate_lab.sim.las.stream import StreamLaw

__all__ = ["WorkerJob", "WorkerRun", "run_worker"]


@dataclass(frozen=True)
class WorkerJob:
    """Rows of a law of costs, arriving evenly or in bursts."""

    #: The law of keys and costs; its `under` says by how much the rows are too many.
    law: StreamLaw
    #: The spread of a row's cost around its key's, as the deviation of its logarithm.
    noise: float = 0.0
    #: Costs of the middle third are multiplied by this.
    doubled: float = 1.0
    #: The share of the rows that come in bursts of two seconds, and how many of those there are.
    in_bursts: float = 0.0
    bursts: int = 3
    #: Rows that had piled up before the query started, over an hour.
    piled_up: int = 0
    target_s: float = 1.0
    trigger_s: float = 0.25
    #: What passes between the end of a batch and the beginning of the next, as in Spark.
    pause_s: float = 0.0
    #: Rows of a batch that the worker sees at once; 0: it does not look ahead at all.
    seen_at_once: int = 50_000

    @cache  # noqa: B019 -- jobs are few, and as many as the benchmark names
    def rows(self, seed: int) -> tuple[list[int], list[float], list[float]]:
        """Keys, arrivals and durations, by arrival."""
        random = np.random.default_rng([seed, 11])
        drawn = self.law.draw(seed)
        count, arrivals = len(drawn), drawn.arrivals_s.copy()
        durations = drawn.durations_s * random.lognormal(0.0, self.noise, count)
        third = np.arange(count) // (count // 3 + 1)
        durations = np.where(third == 1, durations * self.doubled, durations)
        if self.in_bursts:
            begins = arrivals[-1] * (1 + np.arange(self.bursts)) / (self.bursts + 1)
            burst = random.random(count) < self.in_bursts
            arrivals[burst] = random.choice(begins, burst.sum()) + random.uniform(0.0, 2.0, burst.sum())
        if self.piled_up:
            arrivals += 0.1
            arrivals[: self.piled_up] = random.uniform(-3600.0, 0.0, self.piled_up)
        order = np.argsort(arrivals, kind="stable")
        return (
            drawn.items[order].tolist(), arrivals[order].tolist(), durations[order].tolist(),
        )  # fmt: skip


@dataclass(frozen=True)
class WorkerRun:
    """What became of the rows."""

    #: The share that was executed.
    kept: float
    #: The mean wait of those that counted in the target, in targets.
    wait: float
    #: By how much the weights of keys miss their counts, summed, as a share of all rows.
    error: float
    #: The longest batch, in targets.
    longest: float


def run_worker(
    job: WorkerJob, config: PriceShedding, cold_wait: float = 0.5, seed: int = 1
) -> WorkerRun:
    """Run a job through the shipped price."""
    keys, arrivals, durations = job.rows(seed)
    policy = InlinePolicy(replace(config, target=average(job.target_s)), average(job.target_s))
    costs, state = policy.costs(), None
    weights: Counter[int] = Counter()
    waits, longest, kept = 0.0, 0.0, 0
    now, began, row, batch = 0.0, 0.0, 0, 0
    while row < len(keys):
        now = max(now + job.pause_s, began + job.trigger_s, arrivals[row])
        stop = bisect_right(arrivals, now)
        shedder = policy.build(costs, costs.mean, mix64(seed + mix64(batch)), state)
        began = now
        earliest = began - cold_wait * job.target_s if batch < COLD_BATCHES else -math.inf
        seen = row
        for index in range(row, stop):
            if job.seen_at_once and index == seen:
                seen = min(stop, index + job.seen_at_once)
                counted = [max(at, earliest) for at in arrivals[index:seen]]
                shedder.expect(Expected(keys[index:seen], counted, more=seen < stop), now)
            since = max(arrivals[index], earliest)
            weight, _ = shedder.offer(keys[index], since, now)
            if weight:
                kept += 1
                weights[keys[index]] += weight  # type: ignore[assignment]
                waits += now - since
                now += durations[index]
                shedder.done(keys[index], durations[index], now)
        longest = max(longest, now - began)
        for key, runs, mean in shedder.lessons():
            costs.learn(key, mean, runs)
        state, row, batch = shedder.state(), stop, batch + 1
    truth = Counter(keys)
    error = sum(abs(weights[key] - count) for key, count in truth.items()) / len(keys)
    return WorkerRun(
        kept / len(keys), waits / max(1, kept) / job.target_s, error, longest / job.target_s
    )
