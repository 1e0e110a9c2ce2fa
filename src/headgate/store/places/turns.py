"""One at a time: whoever works at a query's files takes a turn, and nobody else does meanwhile.

In a local folder that is a lock of the operating system, which ends with its process.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from headgate.errors import ControlFolderError
from headgate.store.places.place import Place
from headgate.store.single_process_lock import single_process_lock

__all__ = ["LockedTurns", "Turns", "turns_in"]


class Turns(ABC):
    """The turns at one folder, as one process takes them."""

    @abstractmethod
    def taken(self) -> AbstractContextManager[bool]:
        """A turn; the value says whether it could be had."""

    @abstractmethod
    def end(self) -> None:
        """There is nothing more to do for now: let others take a turn."""


class LockedTurns(Turns):
    """In a local folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ".upkeep"

    @contextlib.contextmanager
    def taken(self) -> Iterator[bool]:
        """A turn; held until the end of the block."""
        try:
            lock = single_process_lock(self._path, "somebody is at it")
        except ControlFolderError:
            yield False
            return
        with lock:
            yield True

    def end(self) -> None:
        """A turn ends with its block."""


def turns_in(folder: Place) -> Turns:
    """The turns at what is in this folder."""
    if isinstance(folder, Path):
        return LockedTurns(folder)
    from headgate.store.places.object_turns import ObjectTurns  # late: most stores are folders

    return ObjectTurns(folder)
