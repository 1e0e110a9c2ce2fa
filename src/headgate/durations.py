"""Durations as people write them: ``"2 seconds"``, ``"500 ms"``, ``1.5``."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from headgate.errors import BadArgument

__all__ = ["Duration", "seconds"]

Duration = str | float | int | timedelta

_UNITS = {
    "us": 1e-6,
    "microsecond": 1e-6,
    "microseconds": 1e-6,
    "ms": 1e-3,
    "millisecond": 1e-3,
    "milliseconds": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "secs": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "m": 60.0,
    "min": 60.0,
    "mins": 60.0,
    "minute": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "days": 86400.0,
}
_TEXT = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*([a-z]+)\s*", re.IGNORECASE)


def seconds(value: Duration, name: str = "duration") -> float:
    """The duration in seconds; refuses what is not a positive, finite duration.

    >>> seconds("2 seconds"), seconds("500 ms"), seconds(1.5)
    (2.0, 0.5, 1.5)
    """
    if isinstance(value, bool):
        raise _bad(name, value)
    if isinstance(value, timedelta):
        result = value.total_seconds()
    elif isinstance(value, int | float):
        result = float(value)
    else:
        match = _TEXT.fullmatch(value) if isinstance(value, str) else None
        if match is None or match[2].lower() not in _UNITS:
            raise _bad(name, value)
        result = float(match[1]) * _UNITS[match[2].lower()]
    if not (math.isfinite(result) and result > 0):
        raise _bad(name, value)
    return result


def _bad(name: str, value: object) -> BadArgument:
    return BadArgument(
        f"{name}={value!r} is not a positive duration: write it as '2 seconds', '500 ms', "
        f"'1 minute', or a positive number of seconds"
    )
