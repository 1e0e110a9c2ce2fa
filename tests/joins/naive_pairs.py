"""Slow, obvious twins of the block kernels: Python sets, every pair."""

from __future__ import annotations

from itertools import combinations
from math import prod
from typing import Any

from headgate.joins.conditions import (
    Condition,
    Equal,
    InnerProduct,
    Overlap,
    Predicate,
    Subset,
    Superset,
)

Pair = tuple[int, int]


def holds(condition: Condition, left: Any, right: Any) -> bool:
    """Whether two values match: lists of items, keys, weights by item, or vectors."""
    if isinstance(condition, Overlap):
        return len(set(left) & set(right)) >= condition.at_least
    if isinstance(condition, Subset):
        return set(right).issuperset(left)
    if isinstance(condition, Superset):
        return set(left).issuperset(right)
    if isinstance(condition, Equal):
        return bool(left == right)
    if isinstance(condition, InnerProduct) and isinstance(left, dict):
        return bool(sum(left[x] * right[x] for x in sorted(left) if x in right) >= condition.at_least)
    if isinstance(condition, InnerProduct):
        return bool(sum(a * b for a, b in zip(left, right, strict=True)) >= condition.at_least)
    assert isinstance(condition, Predicate)
    return bool(condition.function(left, right))


def pairs(
    condition: Condition,
    probes: list[Any],
    probe_times: list[int],
    rows: list[Any],
    row_times: list[int],
    picked: list[int] | None,
    before: int,
    after: int,
    probe_is_left: bool,
) -> list[Pair]:
    found = []
    for probe in range(len(probes)) if picked is None else picked:
        for row in range(len(rows)):
            ours, theirs = probes[probe], rows[row]
            left, right = (ours, theirs) if probe_is_left else (theirs, ours)
            if -before <= row_times[row] - probe_times[probe] <= after and holds(condition, left, right):
                found.append((probe, row))
    return found


def elementary(shares: list[float], size: int) -> float:
    """e_size: the sum over all choices of so many shares of their product."""
    return sum(prod(choice) for choice in combinations(shares, size))


def best_first(
    scores: list[float],
    costs: list[float],
    budget: float,
) -> set[int]:
    """The longest run of the highest scores that fits a budget."""
    taken: set[int] = set()
    for index in sorted(range(len(scores)), key=lambda index: -scores[index]):
        budget -= costs[index]
        if budget < 0:
            break
        taken.add(index)
    return taken
