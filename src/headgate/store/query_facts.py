"""What is known of a query as a whole: its checkpoint, its sink, and which gates it is behind.

The first two are the driver's word to its workers. The last is the driver's word to the next one, for
object stores: which of hundreds of gates a query ran behind would else be a request for each.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection

from headgate.store.folder import read_json, unclaim, write_json
from headgate.store.places.place import ObjectPath, Place
from headgate.store.places.stores import store_of

__all__ = [
    "checkpoint_of",
    "forget_query",
    "gates_of_query",
    "note_gates",
    "tell_checkpoint",
    "told_of",
]


#: A query that runs for longer than this goes by what its worker can find without the driver's word.
_KEPT_S = 90 * 86_400.0
#: What this process was told from an object store, in which run of the query, and when; and how long it
#: goes by that.
_TOLD: dict[Place, tuple[dict[str, str], str, float]] = {}
_AGAIN_S = 60.0


def _path(control: Place, query: str) -> Place:
    return control / "queries" / f"{query}.json"


def tell_checkpoint(control: Place, query: str, location: str, sink: str | None = None) -> None:
    """Leave the query's checkpoint for its workers, and its sink as Spark describes it.

    What killed drivers left long ago goes.
    """
    path = _path(control, query)
    told = {"checkpoint": location} | ({} if sink is None else {"sink": sink})
    write_json(path, told, lasting=False)
    with contextlib.suppress(OSError):
        entries = store_of(path).entries(path.parent)
        # By the store's clock, and nobody else's: this one has just been written.
        now = max((e.written_at for e in entries if e.name == path.name), default=0.0)
        for old in entries:
            if not old.is_folder and now - old.written_at > _KEPT_S:
                unclaim(path.parent / old.name)


def checkpoint_of(control: Place, query: str) -> str | None:
    """What the driver told; None where it has not, or cannot know."""
    return told_of(control, query).get("checkpoint")


def told_of(control: Place, query: str, run: str = "") -> dict[str, str]:
    """All that the driver told: its ``checkpoint`` and, if it can see that, its ``sink``.

    An object store is asked once in a process, and then once a minute: each batch asks here. Whoever
    names the run that asks is not told what was told to another: that one may write to another sink.
    """
    path = _path(control, query)
    known, in_run, at = _TOLD.get(path, ({}, "", 0.0))
    if known and run in ("", in_run) and time.monotonic() - at < _AGAIN_S:
        return known
    try:
        value = read_json(path)
    except (OSError, ValueError):
        return {}
    if not isinstance(value, dict) or not isinstance(value.get("checkpoint"), str):
        return {}
    found = {name: said for name, said in value.items() if isinstance(said, str)}
    if isinstance(path, ObjectPath):
        _TOLD[path] = found, run, time.monotonic()
    return found


def forget_query(control: Place, query: str) -> None:
    """The query is over."""
    _TOLD.pop(_path(control, query), None)
    with contextlib.suppress(OSError):
        unclaim(_path(control, query))


def _gates_path(control: Place, query: str) -> Place:
    return control / "queries" / f"{query}.gates.json"


def note_gates(control: Place, query: str, gates: Collection[str]) -> None:
    """Leave word which gates the query is behind: those of its run before, and these."""
    if isinstance(control, ObjectPath):
        known = gates_of_query(control, query) or set()
        if not known.issuperset(gates):
            write_json(_gates_path(control, query), sorted(known.union(gates)))


def gates_of_query(control: Place, query: str) -> set[str] | None:
    """The gates that a query was behind; None where nobody has noted it, and a look tells.

    In a folder a look costs nothing. An earlier version noted nothing.
    """
    if not isinstance(control, ObjectPath):
        return None
    try:
        value = read_json(_gates_path(control, query))
    except (OSError, ValueError):
        return None
    return set(value) if isinstance(value, list) else None
