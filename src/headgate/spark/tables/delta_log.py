"""What a Delta table's log says of a stream's batches: offsets, commits, and the files of a batch.

An offset of a Delta source is a version of the table and an index into the files that this version's
commit adds (``reservoirVersion``, ``index``); a batch has the files behind its start and up to its end.
The commits are JSON, one file a version, in ``_delta_log``; only files that are added with
``dataChange`` are rows of the stream, and they are counted in the order in which the commit has them.
Before all versions a new stream reads the table as it is (``isStartingVersion``).

Read by Spark's Python workers once a batch, so this module imports little.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headgate.core.batch_size import RECORDS, BatchSize
from headgate.store.places.place import Place
from headgate.store.places.stores import store_of

__all__ = ["AddedFile", "Commit", "DeltaOffset", "commit_name", "size_between"]

#: In front of all files of a version; versions of the offset below 3 write -1 for it.
_BASE = -100
#: Commits that are read for a batch's size: some milliseconds each.
_MOST_COMMITS = 200


@dataclass(frozen=True, order=True)
class DeltaOffset:
    """Where a stream is in a table."""

    version: int
    #: The last file of the version that was taken; below 0 where none was.
    index: int
    #: Whether it is within the table as it was when the stream began, and not in a commit.
    initial: bool = False

    @classmethod
    def read(cls, value: Any) -> DeltaOffset | None:
        """An offset as the checkpoint and the ledger have it; None where it is no Delta table's.

        >>> DeltaOffset.read({"sourceVersion": 1, "reservoirId": "x", "reservoirVersion": 7, "index": -1,
        ...                   "isStartingVersion": False})
        DeltaOffset(version=7, index=-100, initial=False)
        """
        if not isinstance(value, dict) or "reservoirVersion" not in value or "index" not in value:
            return None
        index = int(value["index"])
        older = int(value.get("sourceVersion", 1)) < 3
        initial = bool(value.get("isStartingVersion", False))
        return cls(int(value["reservoirVersion"]), _BASE if older and index < 0 else index, initial)

    @classmethod
    def before(cls, version: int) -> DeltaOffset:
        """In front of all that a version's commit adds."""
        return cls(version, _BASE)

    def commits_to(self, end: DeltaOffset) -> range:
        """The versions with files between this offset and a later one."""
        return range(self.version, end.version + (end.index >= 0))

    def has_taken(self, version: int, index: int) -> bool:
        """Whether a file, by its commit and its place there, is not behind this offset."""
        return (version, index) <= (self.version, self.index)


@dataclass(frozen=True)
class AddedFile:
    """A file that a commit added rows with."""

    path: str
    size: int
    #: None where the writer has left no statistics.
    rows: int | None

    @property
    def name(self) -> str:
        """The last part of its path: writers make it unique."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Commit:
    """What one version changed of the table's rows."""

    version: int
    added: tuple[AddedFile, ...]
    #: Files whose rows it took away; and all files that are not in the table any more.
    removed_rows: tuple[str, ...]
    removed: tuple[str, ...]

    @classmethod
    def read(cls, version: int, text: str) -> Commit:
        """A commit's file."""
        # Not `splitlines`: statistics have values of the data, and some characters end a line for that.
        actions = [json.loads(line) for line in text.split("\n") if line.strip()]
        adds = [a["add"] for a in actions if a.get("add")]
        removes = [a["remove"] for a in actions if a.get("remove")]
        return cls(
            version,
            tuple(_added(add) for add in adds if add.get("dataChange", True)),
            tuple(str(r["path"]) for r in removes if r.get("dataChange", True)),
            tuple(str(r["path"]) for r in removes),
        )

    def between(self, start: DeltaOffset, end: DeltaOffset) -> list[AddedFile]:
        """Its files that a batch between these offsets takes."""
        return [
            file
            for index, file in enumerate(self.added)
            if not start.has_taken(self.version, index) and end.has_taken(self.version, index)
        ]


def _added(add: dict[str, Any]) -> AddedFile:
    stats = add.get("stats")
    told = json.loads(stats) if isinstance(stats, str) and stats else {}
    rows = told.get("numRecords")
    # The file has these too, and whoever reads it leaves them out.
    hidden = int((add.get("deletionVector") or {}).get("cardinality", 0))
    size = int(add.get("size", 0))
    return AddedFile(str(add["path"]), size, None if rows is None else int(rows) - hidden)


def commit_name(version: int) -> str:
    """The file of a version's commit, in ``_delta_log``."""
    return f"{version:020d}.json"


def size_between(log: Place, start: Any, end: Any) -> BatchSize | None:
    """How much a batch has between two offsets: rows, or bytes where the writer counted none.

    None where the log does not tell it quickly: for what the table had when the stream began, for very
    many commits, for a log whose commits are gone or elsewhere, and where a commit changed rows: whether
    the stream skips such is in its options.
    """
    first, last = DeltaOffset.read(start), DeltaOffset.read(end)
    if first is None or last is None or first.initial or last.initial:
        return None
    versions = first.commits_to(last)
    if len(versions) > _MOST_COMMITS:
        return None
    found = store_of(log).get_all([log / commit_name(version) for version in versions])
    files: list[AddedFile] = []
    for version, held in zip(versions, found, strict=True):
        if held is None:
            return None
        commit = Commit.read(version, held.data.decode())
        taken = commit.between(first, last)
        if taken and commit.removed_rows:
            return None
        files += taken
    return _size(files)


def _size(files: Iterable[AddedFile]) -> BatchSize:
    known = list(files)
    if all(file.rows is not None for file in known):
        return BatchSize(float(sum(file.rows or 0 for file in known)), RECORDS)
    return BatchSize(float(sum(file.size for file in known)), "bytes")
