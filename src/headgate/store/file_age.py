"""How old a file or an object is by whoever keeps it, so that no two machines' clocks meet."""

from __future__ import annotations

import contextlib
import uuid

from headgate.store.places.place import Place
from headgate.store.places.stores import store_of

__all__ = ["age_by_the_store", "time_by_the_store"]


def age_by_the_store(path: Place, written_at: float | None = None) -> float:
    """Seconds between the last change of a name and that of one which is written now beside it.

    Both times are set by the same server. `written_at` is the first of them, where that is known. 0.0
    where they cannot be had.
    """
    try:
        now = time_by_the_store(path.parent)
        if written_at is None:
            held = store_of(path).get(path)
            written_at = now if held is None else held.written_at
        return max(0.0, now - written_at)
    except OSError:
        return 0.0


def time_by_the_store(folder: Place) -> float:
    """What time it is by the clock of whoever keeps this folder; raises OSError where nobody tells."""
    mark = folder / f".look-{uuid.uuid4().hex}"
    store = store_of(mark)
    try:
        store.put(mark, b"{}", lasting=False)
        held = store.get(mark)
    finally:
        with contextlib.suppress(OSError):
            store.delete(mark)
    if held is None:
        raise OSError(f"{mark} was removed as soon as it was written")
    return held.written_at
