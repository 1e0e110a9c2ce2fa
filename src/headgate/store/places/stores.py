"""Which store a place is in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.store.places.local import LocalFiles
from headgate.store.places.place import Place

if TYPE_CHECKING:
    from headgate.store.places.contract import Store

__all__ = ["store_of"]

_LOCAL = LocalFiles()


def store_of(place: Place) -> Store[Any]:
    """The store that this name is in."""
    if isinstance(place, Path):
        return _LOCAL
    from headgate.store.places.objects import Objects  # late: needs an extra, and local folders do not

    return Objects.at(place.root)
