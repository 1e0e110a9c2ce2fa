"""The SIC of every query at a site over time: a line an interval, two files at most."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headgate.store.durable import make_folder, open_private
from headgate.store.stored_json import parsed_json

__all__ = ["History", "history_line"]

_LARGEST = 8 << 20


def history_line(status: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a status: the SIC, acceptance and keep rates."""
    return {
        "at": status["at"],
        "level": status["level"],
        "trim": status["trim"],
        "queries": {
            query: {"sic": view["sic"], "accepted": view["accepted"], "told_by": view["told_by"]}
            for query, view in status["queries"].items()
        },
        "keep": {name: gate["keep"] for name, gate in status["gates"].items()},
    }


class History:
    """A file that is appended to; when it is large it gets a second name, and a new one is begun."""

    def __init__(self, path: Path, largest: int = _LARGEST) -> None:
        self._path, self._largest = path, largest
        #: Whether the file is known to end with a whole line.
        self._whole = False

    def add(self, status: Mapping[str, Any]) -> None:
        """Append the SIC, acceptance and keep rates of a status as one line."""
        line = history_line(status)
        make_folder(self._path.parent)
        if self._path.exists() and self._path.stat().st_size > self._largest:
            self._path.replace(self._before)
        with open(open_private(self._path, os.O_WRONLY | os.O_APPEND), "a", encoding="utf-8") as file:
            cut = "\n" if self._is_cut() else ""
            file.write(cut + json.dumps(line, separators=(",", ":")) + "\n")

    def _is_cut(self) -> bool:
        """Whether a crash cut the last line off, so that the next one needs a line break before it."""
        if self._whole:
            return False
        self._whole = True
        with open(self._path, "rb") as file:
            file.seek(0, os.SEEK_END)
            if file.tell() == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"

    @property
    def _before(self) -> Path:
        return self._path.with_suffix(".before.jsonl")

    def lines(self) -> Iterator[dict[str, Any]]:
        """All lines, oldest first; one that a crash cut off is skipped."""
        for path in (self._before, self._path):
            if not path.exists():
                continue
            with open(path, encoding="utf-8") as file:
                for line in file:
                    try:
                        value = parsed_json(line)
                    except ValueError:
                        continue
                    if isinstance(value, dict):
                        yield value
