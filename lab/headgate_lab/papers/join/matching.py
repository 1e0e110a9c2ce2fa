"""Do two values match? Every condition, one pair at a time (join-2007, section 3.2).

Slow and obvious, for small uses and as the measure of the block kernels. A value is what a column holds:
a single value (`Equal`), a set of items (`Subset`, `Superset`, `Overlap`), weights by item or a vector
(`InnerProduct`); a `Predicate`'s function gets the two values as they are. None matches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.errors import BadArgument
from headgate.joins.conditions import (
    Condition,
    Equal,
    InnerProduct,
    Overlap,
    Predicate,
    Subset,
    Superset,
)

__all__ = ["inner", "matches"]


def inner(left: Any, right: Any) -> float:
    """The inner product of two weighted sets (mappings), or of two vectors."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return float(sum(weight * right[item] for item, weight in left.items() if item in right))
    return float(sum(ours * theirs for ours, theirs in zip(left, right, strict=True)))


def matches(condition: Condition, left: Any, right: Any) -> bool:
    """Whether a left and a right value satisfy a condition.

    >>> from headgate.joins.conditions import overlap
    >>> matches(overlap("words", at_least=2), {1, 2, 3}, {2, 3, 4})
    True
    """
    if isinstance(condition, Predicate):
        return bool(condition.function(left, right))
    if left is None or right is None:
        return False
    if isinstance(condition, Equal):
        return bool(left == right)
    if isinstance(condition, InnerProduct):
        return inner(left, right) >= condition.at_least
    if isinstance(condition, Subset | Superset | Overlap):
        ours, theirs = ({item for item in side if item is not None} for side in (left, right))
        if isinstance(condition, Overlap):
            return len(ours & theirs) >= condition.at_least
        return ours <= theirs if isinstance(condition, Subset) else ours >= theirs
    raise BadArgument(
        f"{condition!r} is no condition known here: give equal, subset, superset, overlap, "
        "inner_product or predicate"
    )
