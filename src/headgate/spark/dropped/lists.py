"""Which files of dropped rows count: those that Spark's report of their batch names.

The list of a batch is written before its record is in the ledger, from the same report: rows by reason
are the same in both. A batch without a list has none that count; where files are there all the same, its
report was lost.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.errors import DamagedFile
from headgate.spark.dropped.writing import rows_place
from headgate.store.folder import names_in, read_json, unclaim, write_json
from headgate.store.places.place import Place, place_from

__all__ = ["DroppedList", "DroppedLists", "Lister"]

log = logging.getLogger("headgate")

#: How a file may be called: nothing else that stands in a list is looked for.
_FILE = re.compile(r"(row|left|right)-\d{1,9}-[0-9a-f]{32}\.parquet")
_LIST = re.compile(r"(\d{12})\.json")
#: Lists that wait for a folder that cannot be written; then the oldest is given up, in words.
_MOST_WAITING = 1000


@dataclass(frozen=True)
class DroppedList:
    """What was dropped of one batch."""

    batch: int
    #: Files by name.
    files: tuple[str, ...]
    #: Rows by why they were dropped; a join's by side.
    rows: Mapping[str, int]

    def of_side(self, side: str) -> list[str]:
        """The files of a guard's rows (``row``), or of one side of a join."""
        return [name for name in self.files if name.startswith(f"{side}-")]


class DroppedLists:
    """The lists of one guard or join in one query."""

    def __init__(self, folder: str, query: str) -> None:
        self._folder, self._query = folder, query
        self._at = place_from(folder) / query / "lists"

    def write(self, found: DroppedList) -> None:
        """Let these files count, and remove what other attempts of the batch left."""
        value = {"v": 1, "files": list(found.files), "rows": dict(found.rows)}
        write_json(self._at / f"{found.batch:012d}.json", value)
        with contextlib.suppress(OSError):
            rows = self.rows_of(found.batch)
            for name in set(names_in(rows)) - set(found.files):
                unclaim(rows / name)

    def rows_of(self, batch: int) -> Place:
        """Where a batch's files are."""
        return place_from(rows_place(self._folder, self._query, batch))

    def batches(self) -> list[int]:
        """Batches that have a list, in order."""
        names = (_LIST.fullmatch(name) for name in names_in(self._at))
        return sorted(int(found[1]) for found in names if found is not None)

    def unlisted(self) -> list[int]:
        """Batches before the last list whose files nobody listed: their report was lost in a kill."""
        listed = self.batches()
        rows = place_from(self._folder) / self._query / "rows"
        there = sorted(int(name) for name in names_in(rows) if re.fullmatch(r"\d{12}", name))
        return [b for b in there if listed and b < listed[-1] and b not in set(listed)]

    def read(self, first: int | None = None, last: int | None = None) -> Iterator[DroppedList]:
        """The lists of these batches, in order; refuses what is none."""
        for batch in self.batches():
            if (first is None or batch >= first) and (last is None or batch <= last):
                path = self._at / f"{batch:012d}.json"
                try:
                    yield _read(batch, read_json(path))
                except (ValueError, TypeError, KeyError, AttributeError) as error:
                    raise DamagedFile(
                        f"{str(path)!r} lists no dropped rows ({error}): somebody changed it, or it was "
                        f"cut off; batch {batch} can be left out with first= and last="
                    ) from error


def _read(batch: int, value: Any) -> DroppedList:
    names = tuple(value["files"])
    for name in names:
        if not isinstance(name, str) or not _FILE.fullmatch(name):
            raise ValueError(f"{str(name)[:60]!r} is no file of dropped rows")
    return DroppedList(batch, names, {str(why): int(n) for why, n in value["rows"].items()})


class Lister:
    """The driver's part: lists what reports name; what cannot be written now is tried again."""

    def __init__(self, folder: str, query: str, whose: str) -> None:
        self._lists, self._whose = DroppedLists(folder, query), whose
        self._waiting: list[DroppedList] = []

    def take(self, batch: int, files: Sequence[str], rows: Mapping[str, int]) -> None:
        """A batch ended, and dropped the rows of these files.

        A batch without any needs no list, unless another attempt left files: then an empty list says
        that none of them counts.
        """
        if files or self._left_over(batch):
            self._waiting.append(DroppedList(batch, tuple(sorted(set(files))), dict(rows)))
        self.write()

    def _left_over(self, batch: int) -> bool:
        try:
            return bool(names_in(self._lists.rows_of(batch)))
        except OSError:  # an empty list is not worth waiting for
            return False

    def write(self) -> None:
        """Write what waits, as far as that can be done now."""
        while self._waiting:
            try:
                self._lists.write(self._waiting[0])
            except OSError as error:
                log.warning(
                    "%s: which rows batch %d dropped cannot be listed now (%s)",
                    self._whose, self._waiting[0].batch, error,
                )  # fmt: skip
                break
            del self._waiting[0]
        for given_up in self._waiting[:-_MOST_WAITING]:
            log.warning("%s: the dropped rows of batch %d are not listed", self._whose, given_up.batch)
        del self._waiting[:-_MOST_WAITING]
