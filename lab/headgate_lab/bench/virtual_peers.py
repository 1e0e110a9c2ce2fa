"""Why a gate's means are off by more than a filter's: `headgate bench peers` in virtual time.

The same bursts as there, at five times the capacity for half a minute, the same speeds, and sliding
windows of 10 s. A filter that was told the mean load keeps one row in five of every batch. What a gate
keeps of a batch depends on the batch; a row of one that kept a hundredth weighs a hundred. Errors are
given by the windows' begin, so that those which hold the first batches are told from the later ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headgate import HoldDuration
from headgate.whatif.microbatch import BatchRun, Cost, MicroBatches, Workload
from headgate_lab.bench.hold.arrivals import TICK_S, factors

__all__ = ["peer_rows"]

Array = npt.NDArray[np.float64]

_CAPACITY, _LOAD, _SECONDS, _TARGET_S = 33_000.0, 5.0, 30.0, 2.0
_FIXED_S, _ARRIVED, _NOISE = 0.5, 0.03, 0.1
#: Groups of the query, and of those the ones that are drawn here.
_GROUPS, _DRAWN = 300, 60
_WINDOW_S, _SLIDE_S = 10.0, 2.0
#: Windows that begin from here on hold none of the first batches.
_LATER_S = 8.0
#: Seconds for which the first batch starts up, and the second a third of it.
_START_UPS = (0.0, 3.0)


def peer_rows(seeds: Sequence[int]) -> list[dict[str, Any]]:
    """One row for each start-up: mean relative errors of a gate's and a filter's means."""
    return [_row(start_up, seeds) for start_up in _START_UPS]


def _row(start_up_s: float, seeds: Sequence[int]) -> dict[str, Any]:
    gate: list[tuple[float, float]] = []
    by_hand: list[tuple[float, float]] = []
    least = []
    for seed in seeds:
        batches = _run(start_up_s, seed)
        spans = list(itertools.pairwise([0.0, *(b.start for b in batches)]))
        kept = [b.kept / b.arrived for b in batches]
        least.append(min(kept[1:4]))
        gate += _errors(batches, spans, kept, seed)
        by_hand += _errors(batches, spans, [1.0 / _LOAD] * len(kept), seed)
    row: dict[str, Any] = {"starts up for": start_up_s, "least kept of batches 1 to 3": min(least)}
    for name, found in (("gate", gate), ("filter", by_hand)):
        early = [error for begin, error in found if begin < _LATER_S]
        late = [error for begin, error in found if begin >= _LATER_S]
        row[f"{name}, all windows"] = float(np.mean(early + late))
        row[f"{name}, later windows"] = float(np.mean(late))
    return {name: round(value, 4) for name, value in row.items()}


def _run(start_up_s: float, seed: int) -> list[BatchRun]:
    shape = _LOAD * _CAPACITY * factors("bursts", _SECONDS, seed=0)
    per_kept = (_TARGET_S - _FIXED_S) / (_CAPACITY * _TARGET_S)

    def cost(batch: int, start: float) -> Cost:
        starting = start_up_s * (1.0, 1.0 / 3.0, 0.0)[min(batch, 2)]
        return Cost(_FIXED_S + starting, per_kept, _ARRIVED * per_kept, _NOISE)

    load = Workload(lambda t: float(shape[min(len(shape) - 1, int(t / TICK_S))]), cost, seed=seed)
    engine = MicroBatches(load, HoldDuration(_TARGET_S))
    engine.now = 0.5
    while engine.now < _SECONDS:
        engine.run(1)
    return [b for b in engine.records if b.arrived]


def _errors(
    batches: list[BatchRun], spans: list[tuple[float, float]], kept: list[float], seed: int
) -> list[tuple[float, float]]:
    """The begin of each window and group, and how far its mean is off, relative to the true one."""
    random = np.random.default_rng(seed)
    at, rows, share = _cells(batches, spans, kept)
    last = _SECONDS - _WINDOW_S - 2.0 * _TARGET_S
    found = []
    for group in range(_DRAWN):
        least = 30.0 + group % 50 + 15.0 * np.sin(at / 60.0 * 2.0 * np.pi)
        came = random.poisson(rows)
        drawn = random.binomial(came, share)
        sums = _sums(random, least, drawn)
        every = sums + _sums(random, least, came - drawn)
        for begin in np.arange(_SLIDE_S - _WINDOW_S, last + 0.1, _SLIDE_S):
            inside = (at >= begin) & (at < begin + _WINDOW_S)
            weight = (drawn[inside] / share[inside]).sum()
            if weight > 0.0:
                said = (sums[inside] / share[inside]).sum() / weight
                true = every[inside].sum() / came[inside].sum()
                found.append((float(begin), float(abs(said - true) / true)))
    return found


def _cells(
    batches: list[BatchRun], spans: list[tuple[float, float]], kept: list[float]
) -> tuple[Array, Array, Array]:
    """Pieces of a batch's arrivals of half a second: when, rows of a group, and the share kept."""
    cells = []
    for batch, (begin, end), share in zip(batches, spans, kept, strict=True):
        pieces = max(1, round((end - begin) / TICK_S))
        for piece in range(pieces):
            middle = begin + (piece + 0.5) / pieces * (end - begin)
            cells.append((middle, batch.arrived / pieces / _GROUPS, share))
    at, rows, shares = np.array(cells).T
    return at, rows, shares


def _sums(random: np.random.Generator, least: Array, rows: npt.NDArray[np.int64]) -> Array:
    """Sums of so many speeds: exponential beyond the least."""
    beyond = random.gamma(np.maximum(rows, 1), 30.0)
    return np.asarray(least * rows + np.where(rows > 0, beyond, 0.0))
