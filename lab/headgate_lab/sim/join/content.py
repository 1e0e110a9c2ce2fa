"""`Content` on the virtual CPU: batch by batch, scores first, then the best pairs.

A batch is all that came in `batch_s`. Everything is stored; blocks lie on a fixed grid of `basic_s`.
While the whole join fits into a batch's budget, nothing is scored. Otherwise each (probe, block) costs
`score_cost`, and if scoring alone would take more than half of the budget, only as many probes, evenly
spread, are scored and compared as half of it allows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headgate.errors import BadArgument
from headgate.joins.conditions import Overlap
from headgate_lab.papers.join.content import choose_pairs, scores
from headgate_lab.papers.join.rules import Content
from headgate_lab.sim.compiled import compiled
from headgate_lab.sim.join.stream import JoinStream

if TYPE_CHECKING:
    from headgate_lab.sim.join.cpu import JoinRun, JoinSetup

__all__ = ["run_content"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class _Side:
    """One stream, all of it: its tuples in order, and the item and type counts of its blocks so far."""

    def __init__(self, stream: JoinStream, side: int, basic_s: float, types: int) -> None:
        mine = stream.side == side
        self.time = stream.time[mine]
        single = stream.workload.singles
        self.lo = stream.value[mine].astype(np.uint64) if single else stream.lo[mine]
        self.hi, self.type = stream.hi[mine], stream.type[mine]
        self.items = stream.workload.items
        self.table = self._table(stream.value[mine], stream.size[mine], single)
        self.block = (self.time / basic_s).astype(np.int64)
        blocks = math.ceil(stream.workload.seconds / basic_s) + 1
        self.starts = np.searchsorted(self.block, np.arange(blocks + 1))
        self.item_counts = np.zeros((blocks, self.items + 1))
        self.type_counts = np.zeros((blocks, types))
        self.stored = 0

    def _table(self, value: Integers, size: Integers, single: bool) -> Integers:
        if single:
            return value[:, None]
        first = np.concatenate([[0], np.cumsum(size)])
        flat = np.zeros(int(first[-1]), np.int32)
        compiled("join.kernels").set_items(self.lo, self.hi, first, flat)
        table = np.full((len(size), int(size.max(initial=1))), self.items, np.int64)
        table[np.arange(table.shape[1]) < size[:, None]] = flat
        return table

    def store(self, until: int) -> None:
        new = slice(self.stored, until)
        block = self.block[new]
        np.add.at(self.type_counts, (block, self.type[new]), 1.0)
        np.add.at(self.item_counts, (block[:, None], self.table[new]), 1.0)
        self.stored = until


def run_content(stream: JoinStream, setup: JoinSetup, rule: Content) -> JoinRun:
    """Join the streams with `Content`."""
    from headgate_lab.sim.join.cpu import JoinRun

    if setup.index != "none":
        raise BadArgument(f"index={setup.index!r}: Content compares blocks; give index='none'")
    basic_s = setup.basic_s if not math.isinf(setup.basic_s) else max(setup.windows_s)
    sides = [_Side(stream, side, basic_s, len(setup.utilities)) for side in range(2)]
    seconds = math.ceil(stream.workload.seconds)
    output, utility, spent = np.zeros(seconds), np.zeros(seconds), np.zeros(seconds)
    fractions, share_of = np.zeros((seconds, 2)), np.zeros((seconds, 2))
    truth = 1.0  # matches found for each one that scores promised
    batches = math.ceil(seconds / rule.batch_s - 1e-9)
    for batch in range(batches):
        begin, end = batch * rule.batch_s, min(float(seconds), (batch + 1) * rule.batch_s)
        probes = [slice(one.stored, int(np.searchsorted(one.time, end))) for one in sides]
        for one, new in zip(sides, probes, strict=True):
            one.store(new.stop)
        budget = rule.margin * setup.capacity * (end - begin)
        second = min(int(begin), seconds - 1)
        found, value, cost, promised, parts = _batch(sides, probes, setup, rule, budget, truth)
        if promised > 0:
            truth += 0.5 * (found / promised - truth)
        output[second] += found
        utility[second] += value
        spent[second] += cost
        fractions[second] += parts[0]
        share_of[second] += parts[1]
    offered = np.bincount(stream.time.astype(np.int64), minlength=seconds).astype(np.float64)
    return JoinRun(
        output, utility, spent, offered, np.zeros(seconds), np.zeros(seconds),
        fractions / np.maximum(1.0, share_of), len(stream),
    )  # fmt: skip


def _batch(
    sides: list[_Side], probes: list[slice], setup: JoinSetup, rule: Content, budget: float, truth: float
) -> tuple[float, float, float, float, Floats]:
    """Output, utility, cost and promised output of one batch; by window the rows chosen and offered."""
    at_least = setup.condition.at_least if isinstance(setup.condition, Overlap) else 0
    worth = setup.layout.utility
    ranges = [_ranges(sides[w], sides[1 - w], probes[1 - w], setup.windows_s[w]) for w in range(2)]
    volumes = [ends - begins for begins, ends, _ in ranges]
    whole = float(sum(volume.sum() for volume in volumes))
    spent, promised = 0.0, 0.0
    chosen = [volume.astype(np.float64) for volume in volumes]
    if whole > budget or setup.result_cost > 0:
        pairs = float(sum((volume > 0).sum() for volume in volumes))
        spent = rule.score_cost * pairs
        scored = min(1.0, 0.5 * budget / spent) if spent > 0 else 1.0
        spent *= scored
        rank = [
            _scores(sides[w], sides[1 - w], probes[1 - w], ranges[w][2], max(1, at_least), worth)
            for w in range(2)
        ]
        price = [1.0 + setup.result_cost * truth * density for density, _ in rank]
        taken = [_spread(len(volume), scored)[:, None] for volume in volumes]
        score = np.concatenate([(d * v / p).ravel() for (d, v), p in zip(rank, price, strict=True)])
        wanted = [v * p * keep for v, p, keep in zip(volumes, price, taken, strict=True)]
        shares = choose_pairs(score, np.concatenate([one.ravel() for one in wanted]), budget - spent)
        cut = volumes[0].size
        parts = (shares[:cut].reshape(volumes[0].shape), shares[cut:].reshape(volumes[1].shape))
        chosen = [np.rint(p * v * keep) for p, v, keep in zip(parts, volumes, taken, strict=True)]
        promised = float(
            sum((take * density).sum() for take, (density, _) in zip(chosen, rank, strict=True))
        )
    found, value, kernels = 0.0, 0.0, compiled("join.kernels")
    for window, take in enumerate(chosen):
        probe, index = np.nonzero(take)
        ends = ranges[window][1][probe, index]
        stored, other = sides[window], sides[1 - window]
        rows = probe + probes[1 - window].start
        hits, gain = kernels.search_pairs(
            stored.lo, stored.hi, stored.type, other.lo, other.hi, other.type, rows,
            ends - take[probe, index].astype(np.int64), ends, at_least, worth,
        )  # fmt: skip
        found, value = found + hits, value + gain
    spent += float(sum(take.sum() for take in chosen)) + setup.result_cost * found
    counts = [[take.sum() for take in chosen], [volume.sum() for volume in volumes]]
    return found, value, spent, promised, np.array(counts, np.float64)


def _ranges(
    stored: _Side, other: _Side, probes: slice, window_s: float
) -> tuple[Integers, Integers, Any]:
    """The rows of every (probe, block) that are older than the probe and not out of the window."""
    times = other.time[probes]
    if window_s <= 0 or not len(times):
        empty = np.zeros((len(times), 0), np.int64)
        return empty, empty, slice(0, 0)
    oldest = np.searchsorted(stored.time, times - window_s)
    newest = np.searchsorted(stored.time, times)
    first = np.searchsorted(stored.starts, oldest.min(), side="right") - 1
    last = np.searchsorted(stored.starts, max(newest.max(), 1), side="left")
    blocks = slice(int(first), int(last))
    begins = np.maximum(stored.starts[first:last][None, :], oldest[:, None])
    ends = np.minimum(stored.starts[first + 1 : last + 1][None, :], newest[:, None])
    return begins, np.maximum(begins, ends), blocks


def _scores(
    stored: _Side, other: _Side, probes: slice, blocks: slice, at_least: int, worth: Floats
) -> tuple[Floats, Floats]:
    """Expected matches a comparison, and utility a match, of every (probe, block)."""
    counts, kinds = stored.item_counts[blocks, :-1], stored.type_counts[blocks]
    rows = np.maximum(1.0, kinds.sum(axis=1, keepdims=True))
    table = other.table[probes]
    density = scores(table, counts / rows, at_least)
    return density, worth[other.type[probes]] @ (kinds / rows).T


def _spread(count: int, share: float) -> npt.NDArray[np.bool_]:
    steps = np.floor(np.arange(count + 1) * share)
    return np.asarray(np.diff(steps) > 0)
