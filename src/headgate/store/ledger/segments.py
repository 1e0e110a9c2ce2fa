"""The files of a ledger: one open segment that grows, closed ones that are compressed and summed up.

A segment has the records of 5,000 batches. Its lines move one way only, and readers follow them in that
order, so that they miss none, whatever is done meanwhile::

    00000003.jsonl                      lines are appended here, also late ones to an old segment
    00000003.00000007-5f2c09.closing    it was set aside to be compressed
    00000003.00000007-5f2c09.jsonl.gz   compressed; the first line is its summary
    totals.json                         sums over all that was ever closed, and over what expired

Nothing is rewritten: late lines become one more part. A part's number (7 here) says in which order parts
were closed, so that `totals.json` says by one number which of them it counts, and a crash between two
steps costs nothing. A line that is there twice (a crash after a part was compressed, an append that was
repeated because the file was set aside under it) counts once.
"""

from __future__ import annotations

import errno
import gzip
import json
import logging
import os
import re
import uuid
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from headgate.store.durable import make_folder, open_private, remove, sync_folder
from headgate.store.ledger.totals import Totals

__all__ = ["SEGMENT", "Part", "Segments", "Summary"]

log = logging.getLogger("headgate")

#: Batches in one segment.
SEGMENT = 5000
_NAME = re.compile(r"(\d{8,})(?:\.(\d{8,})-([0-9a-f]+)\.(closing|jsonl\.gz)|\.jsonl)")
#: How often a listing is taken again while names move.
_TRIES = 50
_DAMAGE = (OSError, EOFError, zlib.error)


@dataclass(frozen=True, order=True)
class Part:
    """A part of a segment that no line is added to any more."""

    segment: int
    number: int
    mark: str

    @property
    def closing(self) -> str:
        """Its name while it is being compressed."""
        return f"{self.segment:08d}.{self.number:08d}-{self.mark}.closing"

    @property
    def closed(self) -> str:
        """Its name after that."""
        return f"{self.segment:08d}.{self.number:08d}-{self.mark}.jsonl.gz"


@dataclass(frozen=True)
class Summary:
    """The first line of a closed part."""

    #: Of its own records.
    own: Totals
    #: What it adds to the parts of its segment that were closed before: a batch counts once.
    adds: Totals
    closed_at: float

    @property
    def last_at(self) -> float:
        """When the last of its batches began, as far as the records say."""
        return self.own.last_at if self.own.last_at is not None else self.closed_at

    def to_json(self) -> dict[str, Any]:
        """As the first line of a compressed segment has it."""
        own, adds = self.own.to_json(), self.adds.to_json()
        return {"summary": 1, "closed_at": self.closed_at, "own": own, "adds": adds}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Summary:
        """The summary that `to_json` wrote."""
        own, adds = Totals.from_json(value["own"]), Totals.from_json(value["adds"])
        return cls(own, adds, float(value["closed_at"]))


@dataclass(frozen=True)
class Listing:
    """The names in a ledger's folder."""

    plain: frozenset[int]
    closing: tuple[Part, ...]
    closed: tuple[Part, ...]

    @cached_property
    def numbers(self) -> list[int]:
        """Segments that have lines, in order."""
        return sorted({*self.plain, *(p.segment for p in (*self.closing, *self.closed))})

    def parts(self, segment: int) -> list[Part]:
        """A segment's parts in the order in which their lines were written."""
        return self._of_segment.get(segment, [])

    @cached_property
    def _of_segment(self) -> dict[int, list[Part]]:
        found: dict[int, list[Part]] = {}
        for part in sorted({*self.closing, *self.closed}):
            found.setdefault(part.segment, []).append(part)
        return found


class Segments:
    """The files in one ledger's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: Files that could not be read to their end, with the reason; for an audit.
        self.damaged: dict[str, str] = {}
        self._listed: tuple[list[str], Listing] | None = None

    def plain(self, segment: int) -> Path:
        """Where lines of this segment are appended."""
        return self.folder / f"{segment:08d}.jsonl"

    def listing(self) -> Listing:
        """The names, taken until two readings agree: one alone may miss a name that is renamed."""
        before = None if self._listed is None else self._listed[0]
        for _ in range(_TRIES):
            try:
                names = sorted(os.listdir(self.folder))
            except (FileNotFoundError, NotADirectoryError):
                names = []
            if names == before:
                break
            before = names
        if self._listed is None or self._listed[0] != names:
            self._listed = names, _listing_of(names)
        return self._listed[1]

    def append(self, segment: int, text: str) -> None:
        """Add a line; it is on disk when this returns, and in a file that will be read."""
        make_folder(self.folder)
        path = self.plain(segment)
        while True:
            handle = open_private(path, os.O_RDWR | os.O_APPEND)
            with open(handle, "r+b", buffering=0) as file:
                end = file.seek(0, os.SEEK_END)
                line = text.encode() + b"\n"
                if end > 0:
                    file.seek(end - 1)
                    line = line if file.read(1) == b"\n" else b"\n" + line
                if file.write(line) != len(line):  # the next append begins a line of its own
                    raise OSError(errno.ENOSPC, "the record was cut off: no space left", str(path))
                os.fsync(handle)
                if end == 0:
                    sync_folder(self.folder)
                # Set aside under our hands: whoever compresses it may have read it before.
                if _is_still(path, handle):
                    return

    def lines(self, segment: int, listing: Listing | None = None) -> list[bytes]:
        """The segment's lines in the order written, each once.

        All lines that were there when the listing was taken are found, even while the segment is
        being closed: the open file is opened first, then what was set aside, then what is compressed.
        """
        listing = listing or self.listing()
        for _ in range(_TRIES):
            found = self._opened(segment, listing)
            if found is not None:
                return found
            listing = self.listing()
        raise OSError(f"segment {segment} of the ledger {str(self.folder)!r} changes all the time")

    def _opened(self, segment: int, listing: Listing) -> list[bytes] | None:
        """The lines, or None if a name of the listing is not there any more."""
        try:
            fresh = self.plain(segment).read_bytes().splitlines()
        except FileNotFoundError:
            fresh = []
            if segment in listing.plain:
                return None
        read = []
        for part in listing.parts(segment):
            lines = self._part(part)
            if lines is None:
                return None
            read.append(lines)
        read.append(fresh)
        if sum(map(bool, read)) < 2:
            return next((lines for lines in read if lines), [])
        return list(dict.fromkeys(line for lines in read for line in lines))

    def _part(self, part: Part) -> list[bytes] | None:
        try:
            return (self.folder / part.closing).read_bytes().splitlines()
        except FileNotFoundError:
            pass
        lines: list[bytes] = []
        try:
            with gzip.open(self.folder / part.closed, "rb") as file:
                file.readline()  # the summary
                lines = file.read().splitlines()
        except FileNotFoundError:
            return None
        except _DAMAGE as error:
            lines = self._rescued(part)
            self._note_damage(part, error)
        return lines

    def _rescued(self, part: Part) -> list[bytes]:
        """The lines in front of the damage."""
        lines: list[bytes] = []
        try:
            with gzip.open(self.folder / part.closed, "rb") as file:
                file.readline()
                for line in file:
                    lines.append(line.rstrip(b"\n"))
        except _DAMAGE:
            pass
        return lines

    def _note_damage(self, part: Part, error: Exception) -> None:
        if part.closed not in self.damaged:
            self.damaged[part.closed] = f"{type(error).__name__}: {error}"
            log.warning("%s cannot be read to its end (%s)", self.folder / part.closed, error)

    def values(self, segment: int, listing: Listing | None = None) -> Iterator[dict[str, Any]]:
        """The segment's records as JSON; lines torn by a kill are passed over."""
        return _parsed(self.lines(segment, listing))

    def values_of(self, parts: Iterable[Part]) -> Iterator[dict[str, Any]]:
        """The records of some parts of a segment as JSON, in the order written."""
        for part in sorted(parts):
            yield from _parsed(self._part(part) or [])

    def summary(self, part: Part) -> Summary:
        """What a closed part has, without reading it all."""
        try:
            with gzip.open(self.folder / part.closed, "rb") as file:
                return Summary.from_json(json.loads(file.readline()))
        except FileNotFoundError:
            raise
        except (*_DAMAGE, ValueError, KeyError, TypeError) as error:
            self._note_damage(part, error)
            own = Totals.of(_parsed(self._rescued(part)))
            return Summary(own, own, os.stat(self.folder / part.closed).st_mtime)

    # Closing; by one at a time (`headgate.store.upkeep` sees to that).

    def set_aside(self, segment: int, number: int) -> Part:
        """Take no more lines into the segment's open file: the next one begins another."""
        part = Part(segment, number, uuid.uuid4().hex[:6])
        os.rename(self.plain(segment), self.folder / part.closing)
        sync_folder(self.folder)
        return part

    def compress(self, part: Part, now: float) -> Summary | None:
        """Finish what `set_aside` began; None if another has."""
        source, target = self.folder / part.closing, self.folder / part.closed
        listing = self.listing()
        try:
            text = source.read_bytes()
        except FileNotFoundError:
            return None
        own = list(_parsed(text.splitlines()))
        earlier = [p for p in listing.parts(part.segment) if p < part]
        before = list(self.values_of(earlier))
        mine = Totals.of(own)
        adds = Totals.of([*before, *own]).beyond(Totals.of(before)) if before else mine
        summary = Summary(mine, adds, now)
        head = json.dumps(summary.to_json(), separators=(",", ":")).encode() + b"\n"
        scratch = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            with open(open_private(scratch, os.O_WRONLY), "wb") as file:
                # Two members, so that the summary is read without the records.
                file.write(gzip.compress(head, 6, mtime=0))
                file.write(gzip.compress(text if text.endswith(b"\n") else text + b"\n", 6, mtime=0))
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, target)
        finally:
            scratch.unlink(missing_ok=True)
        sync_folder(self.folder)
        remove(source)
        return summary


def _listing_of(names: list[str]) -> Listing:
    plain: set[int] = set()
    closing: list[Part] = []
    closed: list[Part] = []
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        if match[2] is None:
            plain.add(int(match[1]))
        else:
            part = Part(int(match[1]), int(match[2]), match[3])
            (closing if match[4] == "closing" else closed).append(part)
    return Listing(frozenset(plain), tuple(closing), tuple(closed))


def _parsed(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue  # torn by a kill; the batch is recorded again or shows as unsettled
        if isinstance(value, dict) and "batch" in value:
            yield value


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False
