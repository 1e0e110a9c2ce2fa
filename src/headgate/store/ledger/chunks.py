"""A ledger in an object store: chunks that their writers put again and again, and closed parts.

Nothing can be appended to an object. A writer keeps the lines of its latest chunk, and puts them all
with each one that comes, compressed: a record is one request of some kilobytes, and there is no object
for each batch. A chunk is full after 250 lines; then another is begun::

    00000003.00000012-5f2c09ab.open.gz    lines of segment 3, the twelfth chunk, and who writes it
    00000003.00000007-5f2c09.jsonl.gz     what is over, in one part; the first line is its summary
    00000003.00000007-5f2c09.sum.json     the summary alone: what is asked of many parts at once

A writer goes on with its latest chunk and with no other, so that nobody puts again what was closed:
chunks of a segment are closed when no line has come to any of them for ten minutes by the store's clock,
and then only if there is a later segment, or but for the latest of very many (a driver that starts again
and again leaves a chunk each time). A writer that comes back to its chunk after five minutes asks first
whether its segment is still the latest. A crash between the part and the end of its chunks leaves lines
that are there twice, and count once.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import re
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from headgate.store.file_age import time_by_the_store
from headgate.store.ledger.files import LedgerFiles, Mark
from headgate.store.ledger.parts import (
    DAMAGE,
    Listing,
    Part,
    Summary,
    packed,
    parsed,
    rescued_lines,
)
from headgate.store.ledger.totals import Totals
from headgate.store.places.contract import Held
from headgate.store.places.place import ObjectPath
from headgate.store.places.stores import store_of
from headgate.store.stored_json import parsed_json

__all__ = ["Chunks"]

#: Lines of a chunk, and bytes of them before they are compressed: what is put with each record stays
#: small.
_LINES, _BYTES = 250, 1 << 20
#: A writer that comes back to a chunk after so long asks whether it may; closing waits for longer.
_LEFT_S = 300.0
#: A store's times may be whole seconds: a chunk as young as this is got again, whatever they say.
_YOUNG_S = 2.0
#: Chunks of the latest segment that may lie unclosed: status reads them all.
_MANY = 64
_NAME = re.compile(r"(\d{8,})\.(\d{8,})-([0-9a-f]+)\.(open\.gz|jsonl\.gz)")


@dataclass(frozen=True, order=True)
class Chunk:
    """An object that lines are added to."""

    segment: int
    number: int
    mark: str
    written_at: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """The object's name."""
        return f"{self.segment:08d}.{self.number:08d}-{self.mark}.open.gz"


@dataclass(frozen=True)
class ObjectListing(Listing):
    """The names below a ledger's address."""

    chunks: tuple[Chunk, ...] = ()

    def of_segment(self, segment: int) -> list[Chunk]:
        """Its chunks in the order in which they were begun."""
        return sorted(chunk for chunk in self.chunks if chunk.segment == segment)


class Chunks(LedgerFiles):
    """The objects of one ledger, and this object's own chunk among them."""

    closes_open_ones: ClassVar[bool] = True

    def __init__(self, folder: ObjectPath, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(folder)
        self._folder, self._clock = folder, clock
        self._store = store_of(folder)
        self._mark = uuid.uuid4().hex[:8]
        self._chunk: Chunk | None = None
        self._text, self._put_at = b"", 0.0

    def listing(self) -> ObjectListing:
        """The names: one request for each thousand."""
        chunks: list[Chunk] = []
        closed: list[Part] = []
        for entry in self._store.entries(self._folder):
            match = _NAME.fullmatch(entry.name)
            if match is None:
                continue
            named = int(match[1]), int(match[2]), match[3]
            if match[4] == "open.gz":
                chunks.append(Chunk(*named, entry.written_at))
            else:
                closed.append(Part(*named))
        plain = frozenset(chunk.segment for chunk in chunks)
        return ObjectListing(plain, (), tuple(closed), tuple(chunks))

    # Lines come.

    def append(self, segment: int, text: str) -> None:
        """Put the chunk again, with one line more; what was not put is not kept."""
        chunk, text_before = self._chunk, self._text
        if chunk is None or not self._goes_on(chunk, segment):
            chunk, text_before = self._begun(segment), b""
        whole = text_before + text.encode() + b"\n"
        self._store.put(self._folder / chunk.name, gzip.compress(whole, 1, mtime=0))
        self._chunk, self._text, self._put_at = chunk, whole, self._clock()

    def _goes_on(self, chunk: Chunk, segment: int) -> bool:
        full = len(self._text) >= _BYTES or self._text.count(b"\n") >= _LINES
        if chunk.segment != segment or full:
            return False
        if self._clock() - self._put_at < _LEFT_S:
            return True
        return max(self.listing().numbers, default=segment) == segment

    def _begun(self, segment: int) -> Chunk:
        """A new chunk, behind all that the segment has."""
        if self._chunk is not None and self._chunk.segment == segment:
            number = self._chunk.number
        else:
            number = max((c.number for c in self.listing().of_segment(segment)), default=0)
        return Chunk(segment, number + 1, self._mark)

    # Lines are read.

    def open_lines(self, segment: int, listing: Listing) -> list[bytes] | None:
        """The lines of all chunks of the segment, read at once."""
        assert isinstance(listing, ObjectListing)
        read = self._read(listing.of_segment(segment))
        if read is None:
            return None
        return list(dict.fromkeys(line for lines in read.values() for line in lines))

    def _read(self, chunks: list[Chunk]) -> dict[Chunk, list[bytes]] | None:
        """The lines of the chunks that can be read; None if one of them is not there any more."""
        lines: dict[Chunk, list[bytes]] = {}
        found: list[Held | None] = self._store.get_all(self._folder / c.name for c in chunks)
        for chunk, held in zip(chunks, found, strict=True):
            if held is None:
                return None
            try:
                lines[chunk] = gzip.decompress(held.data).splitlines()
            except DAMAGE as error:  # it was put whole: somebody else has changed it
                self.note_damage(chunk.name, error)
        return lines

    def appended(self, since: Mark | None) -> tuple[Mark, list[bytes] | None]:
        """Gets the chunks that were put again since the mark, and leaves out the lines that it knew."""
        listing = self.listing()
        parts = frozenset(part.closed for part in listing.closed)
        latest = max((chunk.written_at for chunk in listing.chunks), default=0.0)
        before = {} if since is None else since.open
        changed = [
            chunk
            for chunk in sorted(listing.chunks)
            if before.get(chunk.name, (0.0, 0))[0] != chunk.written_at
            or latest - chunk.written_at < _YOUNG_S
        ]
        opened = {name: before[name] for name in (c.name for c in listing.chunks) if name in before}
        read = self._read(changed) if since is not None and since.closed == parts else None
        if read is None:
            return Mark(parts, {c.name: (c.written_at, 0) for c in listing.chunks}), None
        fresh: list[bytes] = []
        for chunk, lines in read.items():
            fresh += lines[before.get(chunk.name, (0.0, 0))[1] :]
            opened[chunk.name] = (chunk.written_at, len(lines))
        return Mark(parts, opened), fresh

    def part_lines(self, part: Part) -> list[bytes] | None:
        """The part, decompressed."""
        held = self._store.get(self._folder / part.closed)
        if held is None:
            return None
        try:
            return gzip.decompress(held.data).splitlines()[1:]  # behind the summary
        except DAMAGE as error:
            self.note_damage(part.closed, error)
            return rescued_lines(held.data)

    def summary(self, part: Part) -> Summary:
        """From its own object; from the part where that is not there."""
        held = self._store.get(self._folder / _summary_name(part.closed))
        if held is not None:
            try:
                return Summary.from_json(parsed_json(held.data))
            except (ValueError, KeyError, TypeError):
                pass  # the part has it, too
        whole = self._store.get(self._folder / part.closed)
        if whole is None:
            raise FileNotFoundError(str(self._folder / part.closed))
        try:
            with gzip.open(io.BytesIO(whole.data), "rb") as file:
                return Summary.from_json(parsed_json(file.readline()))
        except (*DAMAGE, ValueError, KeyError, TypeError) as error:
            self.note_damage(part.closed, error)
            own = Totals.of(parsed(rescued_lines(whole.data)))
            return Summary(own, own, whole.written_at)

    # Closing; by one at a time (`headgate.store.keeping.upkeep` sees to that).

    def ready(self, segment: int, listing: Listing, quiet_s: float, now: float) -> bool:
        """When no line has come for a while; of the latest segment, when it has very many chunks."""
        assert isinstance(listing, ObjectListing)
        chunks = listing.of_segment(segment)
        latest = segment == max(listing.numbers, default=segment)
        if not chunks or (latest and len(chunks) <= _MANY):
            return False
        return bool(self._closable(listing, segment, quiet_s))

    def _closable(self, listing: ObjectListing, segment: int, quiet_s: float) -> list[Chunk]:
        """All chunks of a segment that is over and quiet; of the latest, the first ones while quiet.

        Lines of parts are read before those of chunks, so none may overtake one that was written
        earlier: the last record of a batch is the one that counts.
        """
        now = time_by_the_store(self._folder)
        chunks = listing.of_segment(segment)
        quiet = list(itertools.takewhile(lambda chunk: now - chunk.written_at >= quiet_s, chunks))
        if segment == max(listing.numbers, default=segment):
            return quiet[: len(chunks) - 1]
        return quiet if len(quiet) == len(chunks) else []

    def close(self, segment: int, number: int, quiet_s: float, now: float) -> bool:
        """Write the part, then delete the chunks that are in it; a damaged one stays, for an audit."""
        listing = self.listing()
        read = self._read(self._closable(listing, segment, quiet_s))
        if not read:
            return False
        parts = (self.part_lines(part) or [] for part in listing.parts(segment))
        before = dict.fromkeys(line for lines in parts for line in lines)
        # A chunk that was put once more after it was closed has lines that count where they first were.
        lines = dict.fromkeys(line for found in read.values() for line in found if line not in before)
        if lines:
            part = Part(segment, number, uuid.uuid4().hex[:6])
            summary, data = packed(b"\n".join(lines) + b"\n", list(parsed(list(before))), now)
            said = json.dumps(summary.to_json(), separators=(",", ":")).encode()
            self._store.put(self._folder / part.closed, data)
            self._store.put(self._folder / _summary_name(part.closed), said)
        for chunk in read:
            self._store.delete(self._folder / chunk.name)
        return True

    def remove(self, names: Iterable[str]) -> None:
        """Remove closed parts, and their summaries."""
        for name in names:
            self._store.delete(self._folder / name)
            self._store.delete(self._folder / _summary_name(name))


def _summary_name(closed: str) -> str:
    return closed.removesuffix(".jsonl.gz") + ".sum.json"
