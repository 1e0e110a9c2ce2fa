"""`LedgerFiles`: what the ledger is made of, wherever it is kept.

A segment has the records of 5,000 batches. Lines are appended to what is open of it; what is over is
closed into parts (`headgate.store.ledger.parts`). Readers miss no line that was there when they began,
whatever is done meanwhile, and a line that is there twice counts once.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from headgate.store.ledger.parts import Listing, Part, Summary, parsed
from headgate.store.places.place import Place

__all__ = ["LedgerFiles", "Mark"]

log = logging.getLogger("headgate")

#: How often a listing is taken again while names move.
TRIES = 50


@dataclass(frozen=True)
class Mark:
    """How far somebody has read who follows a ledger: see `LedgerFiles.appended`."""

    #: What is closed. When that changes lines have moved, and all is read again.
    closed: frozenset[str]
    #: By the name of each open file: which file it is, and how far it was read.
    open: Mapping[str, tuple[float, int]]


class LedgerFiles(ABC):
    """The files, or objects, of one ledger."""

    #: Whether much that is open of the latest segment may be closed, too.
    closes_open_ones: ClassVar[bool] = False

    def __init__(self, folder: Place) -> None:
        self.at = folder
        #: Parts that could not be read to their end, with the reason; for an audit.
        self.damaged: dict[str, str] = {}

    @abstractmethod
    def listing(self) -> Listing:
        """The files of the ledger that are there now."""

    @abstractmethod
    def append(self, segment: int, text: str) -> None:
        """Add a line; it lasts when this returns, and is where it will be read."""

    @abstractmethod
    def open_lines(self, segment: int, listing: Listing) -> list[bytes] | None:
        """The lines that are in no part yet; None if a name of the listing is not there any more."""

    @abstractmethod
    def appended(self, since: Mark | None) -> tuple[Mark, list[bytes] | None]:
        """The mark of now, and the whole lines that came since the one that is given.

        None instead of lines where that cannot be told, because what is open was closed meanwhile, or
        no mark was given: then all is read in the usual way. A line that was read before may come again.
        """

    @abstractmethod
    def part_lines(self, part: Part) -> list[bytes] | None:
        """A part's lines; None if it is not there any more."""

    @abstractmethod
    def summary(self, part: Part) -> Summary:
        """What a closed part has, without reading it all; FileNotFoundError where it is gone."""

    @abstractmethod
    def ready(self, segment: int, listing: Listing, quiet_s: float, now: float) -> bool:
        """Whether what is open of a segment can be closed.

        One that was closed before and got late lines waits until it has had none for `quiet_s`.
        """

    @abstractmethod
    def close(self, segment: int, number: int, quiet_s: float, now: float) -> bool:
        """Close what is `ready` of a segment into a part with this number, by one at a time.

        Whether there was something that can be.
        """

    @abstractmethod
    def remove(self, names: Iterable[str]) -> None:
        """Remove closed parts, by the names that they have there."""

    def finish_closing(self, listing: Listing, now: float) -> bool:
        """Finish what a crash left half closed; whether there was something."""
        return False

    # Made of these.

    def lines(self, segment: int, listing: Listing | None = None) -> list[bytes]:
        """The segment's lines in the order written, each once.

        All lines that were there when the listing was taken are found, even while the segment is
        being closed: what is open is read first, then what is closed.
        """
        listing = listing or self.listing()
        for _ in range(TRIES):
            found = self._opened(segment, listing)
            if found is not None:
                return found
            listing = self.listing()
        raise OSError(f"segment {segment} of the ledger {str(self.at)!r} changes all the time")

    def _opened(self, segment: int, listing: Listing) -> list[bytes] | None:
        """The lines, or None if a name of the listing is not there any more."""
        fresh = self.open_lines(segment, listing)
        if fresh is None:
            return None
        read = []
        for part in listing.parts(segment):
            lines = self.part_lines(part)
            if lines is None:
                return None
            read.append(lines)
        read.append(fresh)
        if sum(map(bool, read)) < 2:
            return next((lines for lines in read if lines), [])
        return list(dict.fromkeys(line for lines in read for line in lines))

    def values(self, segment: int, listing: Listing | None = None) -> Iterator[dict[str, Any]]:
        """The segment's records as JSON; lines torn by a kill are passed over."""
        return parsed(self.lines(segment, listing))

    def values_of(self, parts: Iterable[Part]) -> Iterator[dict[str, Any]]:
        """The records of some parts of a segment as JSON, in the order written."""
        for part in sorted(parts):
            yield from parsed(self.part_lines(part) or [])

    def note_damage(self, name: str, error: Exception) -> None:
        """A file cannot be read to its end: say so once."""
        if name not in self.damaged:
            self.damaged[name] = f"{type(error).__name__}: {error}"
            log.warning("%s cannot be read to its end (%s)", self.at / name, error)
