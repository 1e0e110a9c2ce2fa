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
import os
import re
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from headgate.store.durable import make_folder, open_private, remove, sync_folder
from headgate.store.ledger.files import TRIES, LedgerFiles, Mark
from headgate.store.ledger.parts import (
    DAMAGE,
    SEGMENT,
    Listing,
    Part,
    Summary,
    packed,
    parsed,
    rescued_lines,
)
from headgate.store.ledger.totals import Totals
from headgate.store.stored_json import parsed_json

__all__ = ["SEGMENT", "Listing", "Part", "Segments", "Summary"]

#: A line is shorter than this.
_LOOK_BACK = 1 << 20
_NAME = re.compile(r"(\d{8,})(?:\.(\d{8,})-([0-9a-f]+)\.(closing|jsonl\.gz)|\.jsonl)")


class Segments(LedgerFiles):
    """The files in one ledger's folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        self._listed: tuple[list[str], Listing] | None = None

    def plain(self, segment: int) -> Path:
        """Where lines of this segment are appended."""
        return self.folder / f"{segment:08d}.jsonl"

    def listing(self) -> Listing:
        """The names, taken until two readings agree: one alone may miss a name that is renamed."""
        before = None if self._listed is None else self._listed[0]
        for _ in range(TRIES):
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

    def open_lines(self, segment: int, listing: Listing) -> list[bytes] | None:
        """The lines of the open file; it may be a new one of the old name."""
        try:
            lines = self.plain(segment).read_bytes().splitlines()
        except FileNotFoundError:
            return None if segment in listing.plain else []
        # Set aside since the listing was taken: what was in it then is in a part that it does not name.
        return lines if self.listing().parts(segment) == listing.parts(segment) else None

    def appended(self, since: Mark | None) -> tuple[Mark, list[bytes] | None]:
        """Reads on where the mark says, in the files that are still the same."""
        listing = self.listing()
        parts = frozenset(part.closed for part in (*listing.closing, *listing.closed))
        same = since is not None and since.closed == parts
        opened: dict[str, tuple[float, int]] = {}
        fresh: list[bytes] = []
        for segment in sorted(listing.plain):
            path = self.plain(segment)
            try:
                with open(path, "rb", buffering=0) as file:
                    found = os.fstat(file.fileno())
                    known = since.open.get(path.name) if since is not None and same else None
                    if known is None and segment == max(listing.plain) and same:
                        known = (found.st_ino, 0)  # a segment that has just begun
                    if known is None or known[0] != found.st_ino or known[1] > found.st_size:
                        same = False
                        opened[path.name] = (found.st_ino, _whole_lines(file, found.st_size))
                        continue
                    file.seek(known[1])
                    data = file.read(found.st_size - known[1])
            except FileNotFoundError:
                same = False
                continue
            whole = data.rpartition(b"\n")[0]
            fresh += whole.splitlines()
            opened[path.name] = (known[0], known[1] + (len(whole) + 1 if b"\n" in data else 0))
        return Mark(parts, opened), fresh if same else None

    def part_lines(self, part: Part) -> list[bytes] | None:
        """What was set aside first, then what is compressed: lines move that way."""
        try:
            return (self.folder / part.closing).read_bytes().splitlines()
        except FileNotFoundError:
            pass
        try:
            with gzip.open(self.folder / part.closed, "rb") as file:
                file.readline()  # the summary
                return file.read().splitlines()
        except FileNotFoundError:
            return None
        except DAMAGE as error:
            self.note_damage(part.closed, error)
            return self._rescued(part)

    def _rescued(self, part: Part) -> list[bytes]:
        """The lines in front of the damage."""
        try:
            return rescued_lines((self.folder / part.closed).read_bytes())
        except OSError:
            return []

    def summary(self, part: Part) -> Summary:
        """What a closed part has, without reading it all."""
        try:
            with gzip.open(self.folder / part.closed, "rb") as file:
                return Summary.from_json(parsed_json(file.readline()))
        except FileNotFoundError:
            raise
        except (*DAMAGE, ValueError, KeyError, TypeError) as error:
            self.note_damage(part.closed, error)
            own = Totals.of(parsed(self._rescued(part)))
            return Summary(own, own, os.stat(self.folder / part.closed).st_mtime)

    def remove(self, names: Iterable[str]) -> None:
        """Delete closed parts, so that the folder does not name them after a loss of power either."""
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
        sync_folder(self.folder)

    # Closing; by one at a time (`headgate.store.keeping.upkeep` sees to that).

    def ready(self, segment: int, listing: Listing, quiet_s: float, now: float) -> bool:
        """At once, if nothing of it was closed before."""
        if not any(p.segment == segment for p in listing.closed):
            return True
        try:
            return now - os.stat(self.plain(segment)).st_mtime >= quiet_s
        except FileNotFoundError:
            return False

    def close(self, segment: int, number: int, quiet_s: float, now: float) -> bool:
        """Set the open file aside, and compress it."""
        self.compress(self.set_aside(segment, number), now)
        return True

    def finish_closing(self, listing: Listing, now: float) -> bool:
        """Compress what a crash left set aside."""
        if not listing.closing:
            return False
        self.compress(min(listing.closing, key=lambda p: p.number), now)
        return True

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
        before = list(self.values_of(p for p in listing.parts(part.segment) if p < part))
        summary, data = packed(text, before, now)
        scratch = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            with open(open_private(scratch, os.O_WRONLY), "wb") as file:
                file.write(data)
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


def _whole_lines(file: IO[bytes], size: int) -> int:
    """Where the last whole line ends: one may be cut off, or still be on its way."""
    begin = max(0, size - _LOOK_BACK)
    file.seek(begin)
    return begin + file.read(size - begin).rfind(b"\n") + 1


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False
