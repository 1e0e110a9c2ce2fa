"""`Store`: what a control store must be able to do, and nothing else does with it.

Get, put, create if absent, list, delete. Everything that Headgate keeps is made of these: plans, pins,
leases, settings, the ledger, what was learned. A store gives what it was given last (to every process,
as soon as a put has returned), whole or not at all, and of many that create one name one wins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headgate.store.places.place import Place

__all__ = ["Entry", "Held", "Store"]

P = TypeVar("P", bound=Place)


@dataclass(frozen=True)
class Held:
    """What a name holds."""

    data: bytes
    #: When it was written, by the clock of whoever keeps the files or objects, and by nobody else's.
    written_at: float


class Entry:
    """A name in a listing."""

    def __init__(self, name: str, is_folder: bool, written_at: Callable[[], float]) -> None:
        self.name, self.is_folder = name, is_folder
        self._written_at = written_at

    @property
    def written_at(self) -> float:
        """By the store's clock; 0.0 where that says nothing, as of folders in an object store.

        Raises FileNotFoundError where it is gone.
        """
        return self._written_at()


class Store(ABC, Generic[P]):
    """A folder, or an object store. Its failures are OSErrors, whatever they are made of."""

    @abstractmethod
    def get(self, at: P) -> Held | None:
        """What the name holds; None where there is nothing of that name."""

    @abstractmethod
    def put(self, at: P, data: bytes, *, lasting: bool = True) -> None:
        """Let the name hold this: a reader sees what was there before or this, never a part.

        `lasting`: it must outlive a loss of power. What the next beat or batch writes again need not,
        and then does not wait for a disk.
        """

    @abstractmethod
    def create(self, at: P, data: bytes) -> bytes:
        """Let the name hold this if it holds nothing; what it holds then, for all who ask."""

    @abstractmethod
    def entries(self, at: P) -> list[Entry]:
        """The names directly below this one, in order; none where there is nothing."""

    @abstractmethod
    def delete(self, at: P) -> None:
        """Let the name hold nothing, however it came to hold something."""

    # Made of these.

    def get_all(self, places: Iterable[P]) -> list[Held | None]:
        """What each of the names holds; where requests take time, many at once."""
        return [self.get(at) for at in places]

    def put_all(self, values: Iterable[tuple[P, bytes]], *, lasting: bool = True) -> None:
        """Let each name hold its value; where requests take time, many at once."""
        for at, data in values:
            self.put(at, data, lasting=lasting)

    def delete_many(self, places: Iterable[P]) -> None:
        """Let none of these names hold anything; in as few requests as there can be."""
        for at in places:
            self.delete(at)

    def is_used(self, at: P) -> bool:
        """Whether there is anything below this name."""
        return bool(self.entries(at))

    def delete_all(self, at: P) -> None:
        """Delete all below this name."""
        for entry in self.entries(at):
            below: Any = at / entry.name
            if entry.is_folder:
                self.delete_all(below)
            else:
                self.delete(below)
