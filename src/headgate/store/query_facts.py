"""What the driver knows of a running query and its workers do not: where its checkpoint is."""

from __future__ import annotations

import contextlib
from pathlib import Path

from headgate.store.folder import read_json, write_json

__all__ = ["checkpoint_of", "forget_query", "tell_checkpoint"]


#: A query that runs for longer than this goes by what its worker can find without the driver's word.
_KEPT_S = 90 * 86_400.0


def _path(control: Path, query: str) -> Path:
    return control / "queries" / f"{query}.json"


def tell_checkpoint(control: Path, query: str, location: str) -> None:
    """Leave the query's checkpoint for its workers; what killed drivers left long ago goes."""
    path = _path(control, query)
    write_json(path, {"checkpoint": location}, lasting=False)
    with contextlib.suppress(OSError):
        now = path.stat().st_mtime  # by the store's clock, and nobody else's
        for old in path.parent.iterdir():
            if now - old.stat().st_mtime > _KEPT_S:
                old.unlink(missing_ok=True)


def checkpoint_of(control: Path, query: str) -> str | None:
    """What the driver told; None where it has not, or cannot know."""
    try:
        value = read_json(_path(control, query))
    except (OSError, ValueError):
        return None
    found = value.get("checkpoint") if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def forget_query(control: Path, query: str) -> None:
    """The query is over."""
    with contextlib.suppress(OSError):
        _path(control, query).unlink(missing_ok=True)
