"""What a query left behind: when it last lived, and scratch files whose writers were killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

from headgate.store.file_age import time_by_the_store
from headgate.store.folder import write_json
from headgate.store.places.place import ObjectPath, Place
from headgate.store.places.stores import store_of

__all__ = ["last_life", "mark_alive", "remove_left_behind"]


def mark_alive(folder: Place, now: float) -> None:
    """Leave word that the query of this folder lives."""
    if isinstance(folder, Path):
        os.utime(folder, (now, now))
    else:
        write_json(folder / "alive.json", {})


def last_life(folder: Place) -> float:
    """When something in a query's folder was last written."""
    latest = 0.0
    if isinstance(folder, Path):
        with contextlib.suppress(FileNotFoundError):
            latest = os.stat(folder).st_mtime
    for place in (folder, folder / "ledger", folder / "pins", folder / "queues"):
        with contextlib.suppress(FileNotFoundError):
            if isinstance(place, Path):
                latest = max(latest, os.stat(place).st_mtime)
            for entry in store_of(place).entries(place):
                with contextlib.suppress(FileNotFoundError):
                    latest = max(latest, entry.written_at)
    return latest


def remove_left_behind(folder: Place, older_s: float) -> None:
    """Remove what is under a scratch name since so long ago: its writer was killed."""
    if isinstance(folder, ObjectPath):
        _remove_objects(folder, older_s)
        return
    before = time.time() - older_s
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            if not entry.name.startswith(".") or entry.name == ".upkeep":
                continue
            with contextlib.suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_mtime >= before:
                    continue
                claimed = entry.name.endswith(".claim") and (folder / entry.name[1:-6]).exists()
                if not claimed and entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                elif not claimed:
                    os.unlink(entry.path)


def _remove_objects(folder: ObjectPath, older_s: float) -> None:
    """Marks of whoever asked what time it is; there is no other scratch in an object store."""
    store = store_of(folder)
    scratch = [e for e in store.entries(folder) if e.name.startswith(".") and not e.is_folder]
    now = time_by_the_store(folder) if scratch else 0.0
    for entry in scratch:
        if now - entry.written_at > older_s:
            store.delete(folder / entry.name)
