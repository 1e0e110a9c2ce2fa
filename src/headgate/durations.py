"""Durations as people write them: ``"2 seconds"``, ``"500 ms"``, ``1.5``."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta

from headgate.errors import BadArgument

__all__ = ["Duration", "Instant", "instant", "seconds"]

Duration = str | float | int | timedelta
Instant = str | float | int | datetime

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
        result = _as_float(value)
    else:
        match = _TEXT.fullmatch(value) if isinstance(value, str) else None
        if match is None or match[2].lower() not in _UNITS:
            raise _bad(name, value)
        result = float(match[1]) * _UNITS[match[2].lower()]
    if not (math.isfinite(result) and result > 0):
        raise _bad(name, value)
    return result


def _as_float(value: float) -> float:
    """The number; infinite where it is a whole number beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _bad(name: str, value: object) -> BadArgument:
    return BadArgument(
        f"{name}={value!r} is not a positive duration: write it as '2 seconds', '500 ms', "
        f"'1 minute', or a positive number of seconds"
    )


def instant(value: Instant, now: float, name: str = "since") -> float:
    """A point in time in seconds since 1970: as such, as a time of day, or how long ago.

    >>> instant("2 hours", 10_000.0), instant(5.0, 10_000.0)
    (2800.0, 5.0)
    """
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, int | float) and not isinstance(value, bool):
        at = _as_float(value)
        if math.isfinite(at):
            return at
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except ValueError:
            pass
        try:
            return now - seconds(value, name)
        except BadArgument:
            pass
    raise BadArgument(
        f"{name}={value!r} is no time: write 2026-05-01T08:00, or how long ago, such as '2 hours'"
    )
