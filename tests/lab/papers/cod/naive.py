"""Slow, obvious twins of the arrays."""

from __future__ import annotations

import statistics
from collections import defaultdict

import numpy as np


def keep_fixed(codes: list[int], quotas: list[int], lots: list[float]) -> list[int]:
    kept = []
    for group, quota in enumerate(quotas):
        rows = [row for row, code in enumerate(codes) if code == group]
        kept += sorted(rows, key=lambda row: lots[row])[:quota]
    return sorted(kept)


def aggregate(name: str, codes: list[int], values: list[float], groups: int) -> list[float]:
    rows: dict[int, list[float]] = defaultdict(list)
    for code, value in zip(codes, values, strict=True):
        rows[code].append(value)
    functions = {"mean": statistics.fmean, "median": statistics.median, "sum": sum, "count": len}
    nothing = 0.0 if name in ("sum", "count") else float("nan")
    return [float(functions[name](rows[g])) if g in rows else nothing for g in range(groups)]


def water_level(sizes: list[int], least: int, budget: int) -> list[int]:
    """Equal caps, one row at a time: the group with the fewest rows so far that has another gets it."""
    quotas = [min(size, least) for size in sizes]
    while sum(quotas) < min(budget, sum(sizes)):
        open_ = [g for g, size in enumerate(sizes) if quotas[g] < size]
        quotas[min(open_, key=lambda g: quotas[g])] += 1
    return quotas


def windows(instants: list[float], size: float, slide: float, limit: float) -> dict[float, list[int]]:
    """The rows of each complete window that has any, found by trying every window."""
    found = {}
    first = int(np.floor(min(instants) / slide)) - int(np.ceil(size / slide))
    for number in range(first, int(max(instants) // slide) + 1):
        start = number * slide
        rows = [row for row, instant in enumerate(instants) if start <= instant < start + size]
        if rows and start + size <= limit:
            found[start] = rows
    return found
