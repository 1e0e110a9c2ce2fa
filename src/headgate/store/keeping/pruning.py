"""Upkeep by hand: what a running query does by itself, for a folder that no query uses any more."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from headgate.errors import HeadgateError
from headgate.settings import RETENTION_S, retention_s
from headgate.store.guards import guard_in
from headgate.store.keeping.upkeep import Upkeep, ended_queries, now_at_most, remove_query
from headgate.store.ledger.records import queries_of
from headgate.store.places.place import Place
from headgate.store.settings_file import SettingsFile

__all__ = ["pruned", "retention_of"]


def retention_of(control: Place, gate: str) -> float:
    """How long a gate's or a guard's records are kept, in seconds; the default where none is said."""
    try:
        guard = guard_in(control, gate)
        if guard is not None:
            return retention_s(guard.get("retention", RETENTION_S))
        return SettingsFile(control, gate).effective().retention_s
    except (HeadgateError, ValueError):  # not there, or cut off by a crash
        return RETENTION_S


def pruned(
    control: Place, gate: str, *, dry_run: bool, clock: Callable[[], float] = time.time
) -> dict[str, Any]:
    """What was done, or would be, for one gate."""
    kept_s = retention_of(control, gate)
    try:
        now = now_at_most(control, clock())
    except OSError:
        if not dry_run:
            raise
        now = clock()  # of somebody who may only read, and only asks
    ended = ended_queries(control, gate, now - kept_s, set())
    found: dict[str, Any] = {"gate": gate, "compressed": 0, "expired": 0, "pins": 0, "ended": ended}
    for query in [q for q in queries_of(control, gate) if q not in ended]:
        upkeep = Upkeep(control, gate, query, clock)
        upkeep.retention_s = kept_s
        due = upkeep.due()
        found["compressed"] += due["segments_to_compress"]
        found["expired"] += due["segments_to_expire"]
        found["pins"] += due["pins_to_drop"]
        if not dry_run:
            upkeep.run(ended=False)
    if not dry_run:
        for query in ended:
            remove_query(control, gate, query)
    return found
