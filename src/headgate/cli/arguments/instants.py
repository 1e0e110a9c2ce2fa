"""Instants as people write them for a command: a time of day, or how long ago."""

from __future__ import annotations

from headgate.durations import instant as point_in_time
from headgate.errors import BadArgument

__all__ = ["instant"]


def instant(name: str, text: str | None, now: float) -> float | None:
    """A time of day, or how long ago; None where the option was not given.

    >>> instant("since", "2 minutes", now=1000.0)
    880.0
    """
    if text is None:
        return None
    try:
        return point_in_time(text, now, name)
    except BadArgument:
        raise BadArgument(
            f"--{name} {text!r} is no time: write 2026-05-01T08:00, or how long ago, such as '2 hours'"
        ) from None
