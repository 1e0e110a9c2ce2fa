"""CHECKUTILITY: the caller's say on what must not be dropped (las-2020, Section 3.3)."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Utility", "may_always_drop"]

#: From a tuple's key: True if it can be dropped with an acceptable loss of quality.
Utility = Callable[[int], bool]


def may_always_drop(key: int) -> bool:
    """Every tuple is worth the same, as in all of the paper's experiments."""
    return True
