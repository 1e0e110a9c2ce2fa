"""A mark that somebody changed settings in a control store: one request tells it of all gates there."""

from __future__ import annotations

import time
import uuid

from headgate.store.folder import read_json, write_json
from headgate.store.places.place import Place

__all__ = ["last_change", "mark_change"]

#: The mark of the latest change in each store as this process has seen it, and when it asked.
_MARKS: dict[Place, tuple[float, str | None]] = {}


def _place(control: Place) -> Place:
    return control / "changes.json"


def mark_change(control: Place) -> None:
    """Leave word, behind the change itself, that somebody changed something in this store."""
    write_json(_place(control), {"mark": uuid.uuid4().hex})


def last_change(control: Place, ask_s: float) -> str | None:
    """What tells the latest change in the store from the one before; None before the first.

    The store is asked at most every `ask_s` seconds, for all gates of this process.
    """
    now = time.monotonic()
    asked, mark = _MARKS.get(control, (-float("inf"), None))
    if now - asked >= ask_s:
        _MARKS[control] = now, mark  # others of this process need not ask meanwhile
        value = read_json(_place(control))
        mark = value.get("mark") if isinstance(value, dict) else None
        _MARKS[control] = now, mark
    return mark
