"""The SIC of every query at a site over time, in an object store: chunks of lines, the oldest go."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from headgate.sites.service.history import history_line
from headgate.store.folder import names_in
from headgate.store.places.place import ObjectPath
from headgate.store.places.stores import store_of
from headgate.store.stored_json import parsed_json

__all__ = ["ObjectHistory"]

#: Lines of a chunk, and chunks that are kept: some days of a line every ten seconds.
_LINES, _CHUNKS = 500, 64


class ObjectHistory:
    """Each line puts its chunk again; a new process begins a new chunk."""

    def __init__(self, folder: ObjectPath) -> None:
        self._folder = folder
        self._number: int | None = None
        self._lines: list[bytes] = []

    def add(self, status: Mapping[str, Any]) -> None:
        """Append the SIC, acceptance and keep rates of a status as one line."""
        store = store_of(self._folder)
        if self._number is None or len(self._lines) >= _LINES:
            there = self._numbers()
            number, lines = 1 + (there[-1] if there else 0), []
            for old in there[: -(_CHUNKS - 1)]:
                store.delete(self._at(old))
        else:
            number, lines = self._number, self._lines
        lines = [*lines, json.dumps(history_line(status), separators=(",", ":")).encode()]
        store.put(self._at(number), gzip.compress(b"\n".join(lines), 1, mtime=0), lasting=False)
        self._number, self._lines = number, lines

    def lines(self) -> Iterator[dict[str, Any]]:
        """All lines, oldest first."""
        store = store_of(self._folder)
        for held in store.get_all(self._at(number) for number in self._numbers()):
            if held is None:
                continue
            try:
                yield from map(parsed_json, gzip.decompress(held.data).splitlines())
            except (OSError, EOFError, zlib.error, ValueError):
                continue

    def _numbers(self) -> list[int]:
        names = (name.removesuffix(".jsonl.gz") for name in names_in(self._folder))
        return sorted(int(name) for name in names if name.isdigit())

    def _at(self, number: int) -> ObjectPath:
        return self._folder / f"{number:012d}.jsonl.gz"
