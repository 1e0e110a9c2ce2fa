"""Inside a Python worker: count the strata of a partition, then draw from each. Two columns see Python.

A scalar Arrow function gets the stratum's key and the row's hash and gives the row's weight back; the
rows themselves stay in Spark, in a queue that spills. That is faster than `mapInArrow` with the rows in
it, and the wider they are the more so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.core.plan import Plan
from headgate.core.plan_parts import DrawLevel
from headgate.errors import BadArgument
from headgate.policies.by_group.accuracy import Accuracy
from headgate.policies.by_group.allocation import known_spreads
from headgate.policies.by_group.draw import draw_fixed, told_apart, toss_coins
from headgate.policies.by_group.key_filter import KeyFilter
from headgate.policies.by_group.level import Rule, grid, level_for
from headgate.sketches.hashing import mix64, mix64_array
from headgate.spark.gate.pin.task_plan import TaskPlan, batch_of_task
from headgate.store.gate_files.gate_call import GateCall

if TYPE_CHECKING:
    from headgate.policies.drawing import Quotas

__all__ = [
    "ABOUT",
    "RETURNS",
    "YIELDED",
    "PartitionStrata",
    "Known",
    "Pinned",
    "Sampling",
    "own_quotas",
    "weigher",
]

#: The weight of a row (not above 0: shed), and on one row of each task what the task saw.
RETURNS = "w double, about array<double>"
#: The weight of a row whose whole group yielded; any weight that is not above 0 means shed.
YIELDED = -1.0
#: What a task reports: strata, rows, strata that keep no row, deviation times rows, whether it had to do
#: without the batch's plan; then the curve.
ABOUT = ("strata", "rows", "yielded", "deviation", "tasks_without_plan")

Arrays = tuple[pa.Array, ...]


@dataclass(frozen=True)
class Known:
    """A plan that is known beforehand, and the batch that it is for: a backfill's, or a fixed rate's."""

    plan: Plan
    batch: int = 0
    #: Nobody hears what its tasks saw.
    call: GateCall | None = None

    def here(self) -> tuple[Plan, int, bool]:
        """Plan, batch, and whether the plan is the batch's own. A fixed rate meets every batch."""
        running = batch_of_task()
        return self.plan, self.batch if running is None else running[1], True


@dataclass(frozen=True)
class Pinned:
    """The plan of the running batch, pinned on first use."""

    lookup: TaskPlan

    @property
    def call(self) -> GateCall | None:
        """Whose tasks report what they saw."""
        return self.lookup.call

    def here(self) -> tuple[Plan, int, bool]:
        """Plan, batch, and whether the plan is the batch's own.

        A thread that a ``foreachBatch`` function began does not say which batch it works for; the gate
        then fails as it was told to, and reports it.
        """
        running = batch_of_task()
        if running is None:
            return self.lookup.fallback().plan, 0, False
        found = self.lookup.pin(*running)
        return found.plan, running[1], not found.origin.startswith("fail")


@dataclass(frozen=True)
class Sampling:
    """How a batch is drawn from, besides its plan."""

    rule: str
    least: int
    overflow: str
    draw: str
    seed: int
    #: Whether a value follows key and hash.
    valued: bool = False
    #: Whether a last column has the group's number among those of a `KeyFilter`.
    meeting: bool = False
    accuracy: Accuracy | None = None
    pane_us: int = 0
    window_us: int = 0
    #: Whether there is no driver to find a level, so that each task finds one for its own rows.
    alone: bool = False
    #: A rule of one's own, instead of a level.
    quotas: Quotas | None = None


class PartitionStrata:
    """The strata of one partition: numbers for their keys, and what must be known of each."""

    def __init__(self, sampling: Sampling, columns: list[Arrays]) -> None:
        self._sampling = sampling
        keys = pa.chunked_array([c[0] for c in columns]).dictionary_encode()
        whole = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
        if isinstance(whole, pa.ChunkedArray):  # several chunks share one dictionary by now
            whole = pa.concat_arrays(whole.unify_dictionaries().chunks)
        self.codes: npt.NDArray[np.integer] = whole.indices.to_numpy(zero_copy_only=False)
        self.keys = whole.dictionary.to_numpy(zero_copy_only=False)
        self.hashes = _joined(columns, 1)
        if pc.count_distinct(pa.chunked_array([c[1] for c in columns])).as_py() < len(self.codes):
            self.hashes = told_apart(self.hashes)
        self.sizes = np.bincount(self.codes, minlength=len(self.keys)).astype(np.int64)
        self.means = self.deviations = np.zeros(len(self.keys))
        if sampling.valued:
            self._measure(_joined(columns, 2).astype(np.float64))
        self._bits = np.zeros(len(self.keys), np.int64)
        if sampling.meeting:
            self._bits[self.codes] = _joined(columns, -1)

    def _measure(self, values: npt.NDArray[np.float64]) -> None:
        """Mean and standard deviation of each stratum's values; what is no finite number is passed over.

        A deviation is infinite where the squares of finite values overflow.
        """
        there = np.isfinite(values)
        codes, known = self.codes[there], values[there]
        numbers = np.maximum(np.bincount(codes, minlength=len(self.keys)), 1)
        with np.errstate(over="ignore"):
            self.means = np.bincount(codes, known, len(self.keys)) / numbers
            squares = np.bincount(codes, np.square(known - self.means[codes]), len(self.keys))
        self.deviations = np.sqrt(squares / np.maximum(numbers - 1, 1))

    def _spread(self) -> float:
        """Every row's standard deviation, that of its stratum, added up."""
        return float((known_spreads(self.deviations) * self.sizes).sum())

    def part(self, span_us: int | None) -> npt.NDArray[np.float64]:
        """How much of its window a stratum is, in event time: a batch brings a part of a pane."""
        given = self._sampling
        if given.pane_us == 0:
            return np.ones(len(self.keys))
        covered = given.pane_us if span_us is None else min(span_us, given.pane_us)
        return np.full(len(self.keys), max(1e-4, covered / given.window_us))

    def decide(
        self, plan: Plan, batch: int, own: bool = True
    ) -> tuple[npt.NDArray[np.float64], list[float]]:
        """Every row's weight, and what to report; `own` says whether the plan is the batch's own."""
        given = self._sampling
        if given.quotas is not None:
            return self._by_own_rule(given.quotas, plan, own)
        asked = plan.draw if plan.draw is not None and plan.draw.rule == given.rule else DrawLevel()
        level = asked.level
        reference = self._reference() if level is None else asked.reference
        rule = Rule(given.rule, given.least, given.overflow, reference)
        shares = self._shares(rule, plan)
        curve = rule.curve(self.sizes, shares)
        if plan.keeps_everything:
            return np.ones(len(self.codes)), self._about(self.sizes, curve, own)
        if level is None and given.alone:
            level = level_for(plan.default * len(self.codes), grid(rule.name), curve)
        elif level is None:
            # Nothing is known of the other tasks' groups: what depends on no other group is the same
            # however the batch is split.
            rule, level = Rule("proportional", given.least, given.overflow), plan.default
            shares = self.sizes.astype(np.float64)
        quotas = rule.quotas(level, self.sizes, shares, self._dice(batch))
        draw = draw_fixed if given.draw == "fixed" else toss_coins
        weights = draw(self.codes, self.hashes, self.sizes, quotas)
        if given.overflow == "random":
            # A stratum that keeps a row by luck stands for those that did not have it.
            weights /= np.minimum(1.0, np.maximum(level * shares, 1e-12))[self.codes]
        if given.overflow != "exceed":
            weights[(quotas == 0)[self.codes]] = YIELDED
        return weights, self._about(quotas, curve, own)

    def _by_own_rule(
        self, rule: Quotas, plan: Plan, own: bool
    ) -> tuple[npt.NDArray[np.float64], list[float]]:
        """The same under a person's rule; a plan that keeps everything is not asked about."""
        quotas = self.sizes
        if not plan.keeps_everything:
            quotas = own_quotas(rule, self.sizes, plan)
        draw = draw_fixed if self._sampling.draw == "fixed" else toss_coins
        return draw(self.codes, self.hashes, self.sizes, quotas), self._about(quotas, np.zeros(0), own)

    def _shares(self, rule: Rule, plan: Plan) -> npt.NDArray[np.float64]:
        given, needs = self._sampling, None
        if given.accuracy is not None:
            part = self.part(None if plan.draw is None else plan.draw.span_us)
            needs = given.accuracy.needs(self.sizes, self.means, self.deviations, part)
        shares = rule.shares(self.sizes, self.deviations, needs)
        if given.meeting:
            inside = self._bits >= 0  # a null key joins nothing
            if plan.draw is not None and plan.draw.present is not None:
                inside &= KeyFilter.from_text(plan.draw.present).holds(np.maximum(self._bits, 0))
            shares = shares * inside
        return shares

    def _reference(self) -> float:
        """What the driver will take for a reference, as far as this partition can tell."""
        if self._sampling.rule == "congress" and len(self.keys):
            return len(self.codes) / len(self.keys)
        spread = self._spread() / max(1, len(self.codes))
        return spread if self._sampling.rule == "neyman" and spread > 0 else 1.0

    def _dice(self, batch: int) -> npt.NDArray[np.float64]:
        """A number in [0, 1) for each stratum and batch, the same in every process."""
        salt = np.uint64(mix64(self._sampling.seed ^ mix64(batch)))
        mixed = mix64_array(self.keys.astype(np.int64).view(np.uint64) ^ salt)
        return np.asarray((mixed >> np.uint64(11)) * 2.0**-53)

    def _about(
        self, quotas: npt.NDArray[np.int64], curve: npt.NDArray[np.float64], own: bool
    ) -> list[float]:
        yielded = int(((quotas == 0) & (self.sizes > 0)).sum())
        facts = [len(self.keys), len(self.codes), yielded, self._spread(), 0.0 if own else 1.0]
        return [*(float(fact) for fact in facts), *np.round(curve).tolist()]


def own_quotas(rule: Quotas, sizes: npt.NDArray[np.int64], plan: Plan) -> npt.NDArray[np.int64]:
    """What a person's rule says, as whole rows that each group has."""
    quotas = np.asarray(rule(sizes, plan))
    if quotas.shape != sizes.shape:
        raise BadArgument(
            f"quotas of shape {quotas.shape} for {len(sizes)} groups: a drawing's quotas= gives one "
            "number for each group"
        )
    if not np.isfinite(quotas).all():
        raise BadArgument(
            "a drawing's quotas= gave what is no number: give rows, 0 or more, of each group"
        )
    return np.asarray(np.clip(quotas, 0, sizes), np.int64)


def _joined(columns: list[Arrays], index: int) -> npt.NDArray[Any]:
    return np.concatenate([c[index].to_numpy(zero_copy_only=False) for c in columns])


def weigher(sampling: Sampling, plans: Known | Pinned) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function that Spark calls once a partition, with its Arrow batches in order."""

    def weigh(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        columns = list(batches)
        if not columns:
            return
        weights, about = PartitionStrata(sampling, columns).decide(*plans.here())
        at = 0
        for part in columns:
            rows = len(part[0])
            yield _result(weights[at : at + rows], about if at == 0 and rows else None)
            at += rows

    return weigh


def _result(weights: npt.NDArray[np.float64], about: list[float] | None) -> pa.Array:
    kind = pa.list_(pa.float64())
    said = pa.nulls(len(weights), kind)
    if about is not None:
        said = pa.concat_arrays([pa.array([about], kind), pa.nulls(len(weights) - 1, kind)])
    return pa.StructArray.from_arrays([pa.array(weights), said], names=["w", "about"])
