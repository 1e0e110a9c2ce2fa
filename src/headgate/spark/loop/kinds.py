"""The kinds of reports that a progress event may bring: each mechanism says how its own are read.

A mechanism's meter registers itself when it is imported, which its call does; so the control loop reads
what is there, and imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

__all__ = ["kind_of_report", "reports_of_all_kinds"]

#: From a progress event to its reports, by the name of the gate, guard, join or result.
Reads = Callable[[Mapping[str, Any]], Mapping[str, Any]]
_R = TypeVar("_R", bound=Reads)

_KINDS: list[Reads] = []


def kind_of_report(reads: _R) -> _R:
    """Have the loop read reports with this function, too."""
    _KINDS.append(reads)
    return reads


def reports_of_all_kinds(progress: Mapping[str, Any]) -> dict[str, Any]:
    """Every report in one progress event, by name."""
    found: dict[str, Any] = {}
    for reads in _KINDS:
        found |= reads(progress)
    return found
