"""The figures of a run, from its batches: what the hold table has a column for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.demo.batches import SETTLING, Batch, quantile
from headgate_lab.bench.hold.arrivals import Step
from headgate_lab.bench.hold.best_budget import best_constant_rows, fit_prices, hopeless

__all__ = ["batches_to_enter", "batches_to_zero", "held_figures", "inside_target", "oldest"]


def held_figures(batches: Sequence[Batch], began: float, step: Step, target_s: float) -> dict[str, Any]:
    """One row of the table; shares and delays are of the high load's batches after the tenth."""
    high = [b for b in batches if oldest(b) < began + step.down_s and b.until > began + step.up_s]
    high += [b for b in batches if b.running and b not in high and b.started_at < began + step.down_s]
    low = [b for b in batches if not b.running and oldest(b) >= began + step.down_s]
    settled = high[SETTLING:] or high[-1:]
    inside = [inside_target(b, target_s) for b in settled]
    delays = [b.delay_s for b in settled]
    arrived = sum(b.arrived for b in high)
    longest = max((b.duration_s for b in settled), default=0.0)
    return {
        "batches": len(high),
        "inside": _share(inside) if inside else 0.0,
        "longest_targets": round(longest / target_s, 3),
        **_of_best(batches, settled, target_s),
        "p50_delay_s": round(quantile(delays, 0.5), 2),
        "p95_delay_s": round(quantile(delays, 0.95), 2),
        "p100_delay_s": round(quantile(delays, 1.0), 2),
        "kept": round(sum(b.kept for b in high) / arrived, 4) if arrived else None,
        "batches_to_enter": batches_to_enter(high, target_s),
        "batches_to_zero": batches_to_zero(low),
    }


def _of_best(every: Sequence[Batch], settled: Sequence[Batch], target_s: float) -> dict[str, Any]:
    """Beside the best constant budget; and how many of the batches no budget could have held."""
    nothing = {"kept_of_best": None, "hopeless": None, "inside_of_possible": None}
    prices = fit_prices(every)
    ended = [b for b in settled if not b.running]
    if prices is None or not ended:
        return nothing
    possible = [b for b in ended if not hopeless(b, prices, target_s)]
    best = best_constant_rows(possible, prices, target_s)
    kept = sum(b.kept for b in possible)
    return {
        "kept_of_best": round(kept / best[1], 3) if best is not None and best[1] else None,
        "hopeless": round(1.0 - len(possible) / len(ended), 4),
        "inside_of_possible": _share([inside_target(b, target_s) for b in possible]),
    }


def _share(inside: list[bool]) -> float | None:
    return round(sum(inside) / len(inside), 4) if inside else None


def inside_target(batch: Batch, target_s: float) -> bool:
    """Whether it ended within the target."""
    return not batch.running and batch.duration_s <= target_s


def oldest(batch: Batch) -> float:
    """When its oldest row arrived."""
    return batch.ended_at - batch.delay_s


def batches_to_enter(high: Sequence[Batch], target_s: float) -> int | None:
    """Batches before the first of three in a row inside the target."""
    inside = [inside_target(b, target_s) for b in high]
    for i in range(len(inside) - 2):
        if all(inside[i : i + 3]):
            return i
    return None


def batches_to_zero(low: Sequence[Batch]) -> int | None:
    """Batches after the load fell before the first from which on nothing is shed."""
    for i in range(len(low)):
        if all(b.kept == b.arrived for b in low[i:]):
            return i
    return None
