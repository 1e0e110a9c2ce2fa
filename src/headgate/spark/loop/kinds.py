"""The kinds of reports that a progress event may bring: each mechanism says how its own are read.

A mechanism's meter registers itself when it is imported, which its call does; so the control loop reads
what is there, and need not know them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

__all__ = ["kind_of_report", "reports_of_all_kinds"]

#: From a progress event to its reports, by the name of the gate, guard, join or result.
Reads = Callable[[Mapping[str, Any]], Mapping[str, Any]]
_R = TypeVar("_R", bound=Reads)

_KINDS: list[Reads] = []
#: Faults that were told; each once.
_SAID: deque[str] = deque(maxlen=100)

log = logging.getLogger("headgate")


def kind_of_report(reads: _R) -> _R:
    """Have the loop read reports with this function, too."""
    _KINDS.append(reads)
    return reads


def reports_of_all_kinds(progress: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Every report in one progress event, by name; and whether all kinds could be read."""
    found: dict[str, Any] = {}
    whole = True
    for reads in _KINDS:
        try:
            found |= reads(progress)
        except Exception as error:  # one kind's fault is no other one's
            whole = False
            text = f"{reads.__name__}: {type(error).__name__}: {error}"
            if text not in _SAID:
                _SAID.append(text)
                log.warning("a kind of reports cannot be read and is passed over: %s", text)
    return found, whole
