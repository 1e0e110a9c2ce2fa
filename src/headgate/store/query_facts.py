"""What the driver knows of a running query and its workers do not: where its checkpoint is."""

from __future__ import annotations

import contextlib

from headgate.store.folder import read_json, unclaim, write_json
from headgate.store.places.place import Place
from headgate.store.places.stores import store_of

__all__ = ["checkpoint_of", "forget_query", "tell_checkpoint"]


#: A query that runs for longer than this goes by what its worker can find without the driver's word.
_KEPT_S = 90 * 86_400.0


def _path(control: Place, query: str) -> Place:
    return control / "queries" / f"{query}.json"


def tell_checkpoint(control: Place, query: str, location: str) -> None:
    """Leave the query's checkpoint for its workers; what killed drivers left long ago goes."""
    path = _path(control, query)
    write_json(path, {"checkpoint": location}, lasting=False)
    with contextlib.suppress(OSError):
        entries = store_of(path).entries(path.parent)
        # By the store's clock, and nobody else's: this one has just been written.
        now = max((e.written_at for e in entries if e.name == path.name), default=0.0)
        for old in entries:
            if not old.is_folder and now - old.written_at > _KEPT_S:
                unclaim(path.parent / old.name)


def checkpoint_of(control: Place, query: str) -> str | None:
    """What the driver told; None where it has not, or cannot know."""
    try:
        value = read_json(_path(control, query))
    except (OSError, ValueError):
        return None
    found = value.get("checkpoint") if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def forget_query(control: Place, query: str) -> None:
    """The query is over."""
    with contextlib.suppress(OSError):
        unclaim(_path(control, query))
