"""The folder's time is the year's: a virtual clock is no driver's clock that runs ahead of its store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from headgate.store.keeping import upkeep
from headgate.store.keeping.upkeep import now_at_most

__all__ = ["folders_follow_the_clock"]


@contextlib.contextmanager
def folders_follow_the_clock() -> Iterator[None]:
    """As if whoever keeps the files lived in the virtual year, too.

    Files get their times from the machine's clock. Upkeep takes the earlier of that and its own clock,
    so that a clock which runs ahead removes no query that lives; in a virtual year nothing would end.
    """
    upkeep.now_at_most = lambda folder, now: now
    try:
        yield
    finally:
        upkeep.now_at_most = now_at_most
