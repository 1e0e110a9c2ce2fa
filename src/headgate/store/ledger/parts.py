"""The parts of a segment of the ledger: their names, their sums, their bytes.

A part is compressed and never changes. Its first line is its summary, in a gzip member of its own, so
that it is read without the records behind it.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headgate.store.ledger.totals import Totals
from headgate.store.stored_json import parsed_json

__all__ = ["DAMAGE", "SEGMENT", "Listing", "Part", "Summary", "packed", "parsed", "rescued_lines"]

#: Batches in one segment.
SEGMENT = 5000
#: What reading a damaged part may raise.
DAMAGE = (OSError, EOFError, zlib.error)


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
        """As JSON."""
        own, adds = self.own.to_json(), self.adds.to_json()
        return {"summary": 1, "closed_at": self.closed_at, "own": own, "adds": adds}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Summary:
        """What `to_json` wrote."""
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


def parsed(lines: Sequence[bytes]) -> Iterator[dict[str, Any]]:
    """The records in these lines; those torn by a kill, and what is no record, are passed over."""
    for line in lines:
        try:
            value = parsed_json(line)
        except ValueError:
            continue  # the batch is recorded again or shows as unsettled
        if isinstance(value, dict) and _countable(value):
            yield value


def _countable(value: dict[str, Any]) -> bool:
    """Whether it has what sums are made of (`Totals`)."""
    whole = (value.get("batch"), *(value.get(name, 0) for name in ("arrived", "kept", "shed")))
    words = (value.get("kind", "gate"), value.get("origin", "plan"))
    return (
        all(type(one) is int for one in whole)
        and all(isinstance(one, str) for one in words)
        and type(value.get("started_at", 0.0)) in (int, float)
    )


def packed(own: bytes, before: Sequence[dict[str, Any]], now: float) -> tuple[Summary, bytes]:
    """A part of these lines, behind what its segment has in earlier parts; and its summary."""
    records = list(parsed(own.splitlines()))
    mine = Totals.of(records)
    adds = Totals.of([*before, *records]).beyond(Totals.of(before)) if before else mine
    summary = Summary(mine, adds, now)
    head = json.dumps(summary.to_json(), separators=(",", ":")).encode() + b"\n"
    body = own if own.endswith(b"\n") else own + b"\n"
    return summary, gzip.compress(head, 6, mtime=0) + gzip.compress(body, 6, mtime=0)


def rescued_lines(data: bytes) -> list[bytes]:
    """The lines of a part in front of what is damaged of it."""
    lines: list[bytes] = []
    try:
        with gzip.open(io.BytesIO(data), "rb") as file:
            file.readline()  # the summary
            for line in file:
                lines.append(line.rstrip(b"\n"))
    except DAMAGE:
        pass
    return lines
