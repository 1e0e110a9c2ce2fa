"""One shedder, one operator and a queue between them, in virtual time (las-2020, Section 5.2).

`simulate` drives the shipped classes, tuple by tuple. `run` gives the same answer from the compiled
kernels, some hundred times faster; a test holds the two together.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate.guards.targets import PAPER_TARGET, LatencyTarget
from headgate.sketches import HashFamily, uniforms
from headgate_lab.papers.las import (
    AbsoluteLatency,
    AckedPrice,
    AckingOperator,
    AverageLatency,
    LasOperator,
    LasSettings,
    Pair,
    PriceShedder,
    Shedder,
    SlidingAverageLatency,
)
from headgate_lab.sim.compiled import compiled
from headgate_lab.sim.las.stream import LasStream

__all__ = ["LasRun", "PublishedPolicy", "learnt_pair", "run", "simulate"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LasRun:
    """What happened to every tuple; latencies of dropped ones are 0."""

    keep: npt.NDArray[np.bool_]
    latency_s: Array
    #: What the shedder thought that a tuple would wait.
    expected_s: Array
    #: The chance with which a tuple like this was kept.
    chance: Array
    #: Pairs of matrices sent.
    pairs: int = 0
    #: Tuples that only the guard dropped.
    guarded: int = 0

    def __post_init__(self) -> None:
        arrived, kept = len(self.keep), int(self.keep.sum())
        if arrived != kept + self.dropped or bool((self.latency_s < 0).any()):
            raise AssertionError("a simulated run does not add up: arrived = kept + dropped")

    @property
    def dropped(self) -> int:
        """The number of tuples that were dropped."""
        return int((~self.keep).sum())

    @property
    def dropped_ratio(self) -> float:
        """Alpha: the dropped share."""
        return self.dropped / len(self.keep)

    @property
    def average_latency_s(self) -> float:
        """Q-bar: the mean queueing latency of what was kept."""
        return float(self.latency_s[self.keep].mean()) if self.keep.any() else 0.0

    @property
    def running_average_s(self) -> Array:
        """Q-bar(j) after each kept tuple."""
        kept = self.latency_s[self.keep]
        return np.asarray(np.cumsum(kept) / np.arange(1, len(kept) + 1), np.float64)

    def windows(self, length: int) -> tuple[Array, Array]:
        """Mean latency (NaN if nothing was kept) and dropped share of each window of arrivals."""
        count = len(self.keep) // length
        keep = self.keep[: count * length].reshape(count, length)
        latency = np.where(keep, self.latency_s[: count * length].reshape(count, length), 0.0)
        kept = keep.sum(axis=1)
        means = np.where(kept > 0, latency.sum(axis=1) / np.maximum(1, kept), np.nan)
        return means, 1.0 - kept / length


@dataclass(frozen=True)
class PublishedPolicy:
    """A competitor of the paper's: "Base Line", "Straw-Man" or "Full Knowledge"."""

    name: str
    target: LatencyTarget = PAPER_TARGET
    under: float = 0.25
    factor: float = 1.0
    seed: int = 0


def _target_numbers(target: LatencyTarget) -> Any:
    kernels = compiled("las.kernels")
    tau = float(target.tau_s)
    if isinstance(target, AverageLatency) and target.memory is None:
        kind = kernels.AVERAGE if target.form == "long" else kernels.AVERAGE_SHORT
        return kernels.TargetNumbers(kind, tau, 1, target.counted_before)
    if isinstance(target, AbsoluteLatency):
        return kernels.TargetNumbers(kernels.ABSOLUTE, tau, 1, 0)
    if isinstance(target, SlidingAverageLatency) and not target.counted_before:
        return kernels.TargetNumbers(kernels.SLIDING, tau, target.window, 0)
    raise BadArgument(f"no kernel for the target {target!r}: use simulate, which takes any target")


def _item_columns(stream: LasStream, rows: int, columns: int, seed: int) -> npt.NDArray[np.int64]:
    return np.ascontiguousarray(HashFamily(rows, columns, seed).columns_of_all(stream.keys).T)


def learnt_pair(stream: LasStream, settings: LasSettings) -> Pair:
    """The pair that a shedder owns before a warm run: learnt by an operator from the stream's lesson."""
    operator = settings.operator()
    for item, seconds in zip(stream.lesson_items, stream.lesson_durations_s, strict=True):
        for message in operator.update(int(stream.keys[item]), float(seconds)):
            if isinstance(message, Pair):
                return message
    return Pair(operator.costs)


def run(
    stream: LasStream,
    policy: LasSettings | AckedPrice | PublishedPolicy,
    *,
    warm: bool = True,
    delay_s: float = 0.0,
) -> LasRun:
    """Run a policy over a stream with its kernel.

    `warm` gives LAS one learnt pair before the stream begins. The paper does not say so, but its figures
    are impossible without: the first matrices come after 3 N executed tuples, all of them kept.
    """
    if isinstance(policy, LasSettings):
        return _run_las(stream, policy, warm, delay_s)
    if isinstance(policy, AckedPrice):
        return _run_price(stream, policy, delay_s)
    return _run_published(stream, policy)


def _run_las(stream: LasStream, settings: LasSettings, warm: bool, delay_s: float) -> LasRun:
    kernels, shape = compiled("las.kernels"), settings.shape
    item_columns = _item_columns(stream, shape.rows, shape.columns, shape.seed)
    size = (shape.rows, shape.columns)
    pair: tuple[Array, Array, Array] = (np.zeros(size), np.zeros(size), np.zeros(2))
    if warm:
        pair = kernels.learn_pair(
            stream.lesson_items, stream.lesson_durations_s, item_columns, shape.columns, settings.window,
            settings.stability,
        )  # fmt: skip
    numbers = kernels.QueueNumbers(
        settings.window, settings.stability, settings.factor, settings.clamp_idle, settings.guard_delta,
        {"reset": 0.0, "halve": 0.5, "keep": 1.0}[settings.after_send], delay_s,
    )  # fmt: skip
    keep, latency, expected, pairs = kernels.run_las(
        stream.items, stream.durations_s, stream.arrivals_s, item_columns, shape.columns,
        _target_numbers(settings.target), numbers, warm, *pair,
    )  # fmt: skip
    return LasRun(keep, latency, expected, keep.astype(np.float64), pairs)


def _run_price(stream: LasStream, config: AckedPrice, delay_s: float) -> LasRun:
    kernels, rule = compiled("las.price_kernels"), config.price_rule
    memory = 1
    if config.costs == "sketch":
        size = (config.shape.rows, config.shape.columns)
        item_columns = _item_columns(stream, *size, config.shape.seed)
    else:
        table = config.build_costs()
        size, memory = table.keys.shape, table.memory  # type: ignore[union-attr]
        item_columns = _item_columns(stream, 1, size[0], config.seed)
    kind = {"known": kernels.KNOWN, "table": kernels.TABLE, "sketch": kernels.SKETCH}[config.costs]
    numbers = kernels.PriceNumbers(
        {"hard": kernels.HARD, "soft": kernels.SOFT, "balanced": kernels.BALANCED}[rule.shape],
        float(rule.gamma), float(rule.spread), float(rule.kp), float(rule.ki), float(rule.fade),
        float(rule.lowest), float(rule.recent), float(rule.spare), float(rule.credit),
        float(rule.most_credit), kind, config.ack_every, config.half_life, memory,
        float(config.ack_memory), delay_s,
    )  # fmt: skip
    keep, latency, expected, chances, guarded = kernels.run_price(
        stream.items, stream.durations_s, stream.arrivals_s, uniforms(config.seed, len(stream)),
        item_columns, size, _target_numbers(config.target), numbers,
    )  # fmt: skip
    return LasRun(keep, latency, expected, chances, 0, guarded)


def _run_published(stream: LasStream, policy: PublishedPolicy) -> LasRun:
    kernels, count = compiled("las.kernels"), len(stream)
    target = _target_numbers(policy.target)
    if policy.name == "Full Knowledge":
        costs = stream.durations_s
    elif policy.name == "Straw-Man":
        costs = np.full(count, stream.mean_s * policy.factor)
    elif policy.name == "Base Line":
        kept = uniforms(policy.seed, count) < 1.0 - max(0.0, policy.under)
        latency = np.zeros(count)
        everything = AbsoluteLatency(float("inf"))
        _, latency[kept], _ = kernels.run_queue(
            stream.durations_s[kept], stream.arrivals_s[kept], stream.durations_s[kept],
            _target_numbers(everything),
        )  # fmt: skip
        return LasRun(kept, latency, np.zeros(count), np.full(count, 1.0 - max(0.0, policy.under)))
    else:
        raise BadArgument(f"name={policy.name!r}: one of 'Base Line', 'Straw-Man', 'Full Knowledge'")
    keep, latency, expected = kernels.run_queue(stream.durations_s, stream.arrivals_s, costs, target)
    return LasRun(keep, latency, expected, keep.astype(np.float64))


def simulate(
    stream: LasStream,
    shedder: Shedder,
    operator: LasOperator | AckingOperator | None = None,
    *,
    delay_s: float = 0.0,
) -> LasRun:
    """Run shipped objects over a stream, tuple by tuple; slow and obvious."""
    count = len(stream)
    keep, latency, chance = np.zeros(count, bool), np.zeros(count), np.zeros(count)
    under_way: deque[tuple[float, int, float, float | None]] = deque()
    box: deque[tuple[float, Any]] = deque()
    free = 0.0
    for index in range(count):
        now, seconds = float(stream.arrivals_s[index]), float(stream.durations_s[index])
        while under_way and under_way[0][0] <= now:
            done, key, took, request = under_way.popleft()
            for message in _report(operator, key, took, done, request):
                box.append((done + delay_s, message))
        while box and box[0][0] <= now:
            shedder.receive(box.popleft()[1])  # type: ignore[attr-defined]
        key = int(stream.keys[stream.items[index]])
        verdict = shedder.offer(key, now, seconds)
        chance[index] = verdict.probability
        if verdict.keep:
            keep[index], start = True, max(free, now)
            latency[index] = start - now
            free = start + seconds
            under_way.append((free, key, seconds, verdict.request))
    guarded = shedder.guarded if isinstance(shedder, PriceShedder) else 0
    return LasRun(keep, latency, np.zeros(count), chance, 0, guarded)


def _report(
    operator: LasOperator | AckingOperator | None,
    key: int,
    took: float,
    done: float,
    request: float | None,
) -> list[Any]:
    if isinstance(operator, LasOperator):
        return list(operator.update(key, took, done, request))
    if isinstance(operator, AckingOperator):
        ack = operator.update(took, done)
        return [ack] if ack else []
    return []
