"""What the driver knows of a running query and its workers do not: where its checkpoint is."""

from __future__ import annotations

import contextlib
from pathlib import Path

from headgate.store.folder import read_json, write_json

__all__ = ["checkpoint_of", "forget_query", "tell_checkpoint"]


def _path(control: Path, query: str) -> Path:
    return control / "queries" / f"{query}.json"


def tell_checkpoint(control: Path, query: str, location: str) -> None:
    """Leave the query's checkpoint for its workers."""
    write_json(_path(control, query), {"checkpoint": location}, lasting=False)


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
