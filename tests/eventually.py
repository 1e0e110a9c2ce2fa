"""Waiting for what another thread or process is about to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["eventually"]

_T = TypeVar("_T")


def eventually(look: Callable[[], _T], what: str, within_s: float = 60.0) -> _T:
    """What `look` finds, as soon as that is something; fails where it takes too long."""
    until = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < until, f"not seen in {within_s:g} s: {what}"
        time.sleep(0.02)
    return found
