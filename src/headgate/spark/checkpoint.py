"""A query's checkpoint, as Spark writes it: whose it is, and where its batches ended.

Spark writes ``<checkpoint>/offsets/<batch>`` before it executes a batch, and keeps about the last
hundred; ``<checkpoint>/metadata`` names the query; sources have folders of their own in
``<checkpoint>/sources``.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql.streaming.query import StreamingQuery

from headgate.errors import BadArgument
from headgate.store.folder import is_used, names_in
from headgate.store.places.place import ObjectPath, Place, address_alone, place_from
from headgate.store.places.stores import store_of

__all__ = [
    "began_before",
    "check_checkpoint",
    "checkpoint_place",
    "ends_of_batch",
    "files_between",
    "first_offsets",
    "forget_checkpoint",
    "location_of",
    "local_path",
    "open_checkpoint",
    "query_in",
    "records_between",
    "sink_described",
    "state_kept_apart",
]


#: A compacted log is read back in pieces of so many bytes.
_BLOCK = 1 << 16
#: The queries of checkpoints in object stores, as this process has read them: they do not change.
_QUERIES: dict[Place, str] = {}


def checkpoint_place(location: str) -> Place | None:
    """A location as a place that this process can read; None on another file system.

    >>> checkpoint_place("s3a://bucket/x"), checkpoint_place("hdfs://node/x")
    (ObjectPath(root='s3a://bucket', key='x'), None)
    """
    found = place_from(location)
    return found if isinstance(found, ObjectPath) else local_path(location)


def open_checkpoint(checkpoint: str | os.PathLike[str]) -> Place:
    """The checkpoint that a person gave, as Spark takes it; refused where it cannot be read here."""
    location = os.fspath(checkpoint)
    address_alone("checkpoint", location, BadArgument)
    found = checkpoint_place(location)
    if found is None:
        raise BadArgument(
            f"checkpoint={location!r} is on a file system that this process cannot read: give a folder "
            "(file:///... too) or an address in an object store (s3a://, gs://, abfss://); a copy "
            "of its folders offsets, commits and sources will do"
        )
    return found


def _text_of(path: Place) -> str:
    """What the file holds; FileNotFoundError where there is none."""
    return _bytes_of(path).decode("utf-8", "replace")


def _bytes_of(path: Place) -> bytes:
    held = store_of(path).get(path)
    if held is None:
        raise FileNotFoundError(str(path))
    return held.data


def local_path(location: str) -> Path | None:
    """A location as a path that this process can open; None on another file system.

    >>> local_path("file:///data/check%20points"), local_path("s3a://bucket/x")
    (PosixPath('/data/check points'), None)
    """
    parts = urlsplit(location)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if parts.scheme else Path(location)


def location_of(query: StreamingQuery) -> str | None:
    """Where a query that runs keeps its checkpoint; None over Connect, which does not tell."""
    try:
        location = str(query._jsq.streamingQuery().resolvedCheckpointRoot())
    except Exception:  # Connect has no such thing, and another Spark may not
        return None
    # Spark writes a local path as file:/tmp/x, without encoding it.
    return "/" + location[len("file:") :].lstrip("/") if location.startswith("file:") else location


def sink_described(query: StreamingQuery) -> str | None:
    """What a query that runs writes to, in Spark's words; None over Connect, which does not tell."""
    try:
        return str(query._jsq.streamingQuery().sink().toString())
    except Exception:  # Connect has no such thing, and another Spark may not
        return None


def check_checkpoint(checkpoint: str | os.PathLike[str]) -> str:
    """The location, if it can be a query's checkpoint: one, or a folder that is to become one."""
    location = os.fspath(checkpoint) if isinstance(checkpoint, str | os.PathLike) else ""
    if not isinstance(location, str) or not location:
        raise BadArgument(
            f"checkpoint={checkpoint!r}: give what the query gets as checkpointLocation, a folder"
        )
    address_alone("checkpoint", location, BadArgument)
    folder = local_path(location)
    if folder is None or not folder.exists():
        return location
    there = folder.is_dir() and (not any(folder.iterdir()) or (folder / "offsets").is_dir())
    if not there and not (folder / "metadata").is_file():
        raise BadArgument(
            f"checkpoint={location!r} is no query's checkpoint (it has neither metadata nor offsets): "
            "give the folder that the query gets as checkpointLocation"
        )
    return location


def began_before(location: str) -> bool:
    """Whether a query has batches behind it; True where that cannot be told from here."""
    place = checkpoint_place(location)
    try:
        return place is None or not is_used(place) or bool(names_in(place / "commits"))
    except OSError:
        return True


def query_in(checkpoint: Place) -> str | None:
    """The query that this checkpoint is of; None where there is none, or none that can be read."""
    if checkpoint in _QUERIES:
        return _QUERIES[checkpoint]
    try:
        found = str(json.loads(_text_of(checkpoint / "metadata"))["id"])
    except (OSError, ImportError, ValueError, KeyError, TypeError):
        return None
    if isinstance(checkpoint, ObjectPath):
        _QUERIES[checkpoint] = found
    return found


def forget_checkpoint(checkpoint: Place) -> None:
    """It is not what it was: look again when it is asked for."""
    _QUERIES.pop(checkpoint, None)


def ends_of_batch(checkpoint: Place, batch: int) -> list[Any]:
    """Where each source was when the batch was planned; None for a source that had nothing yet.

    Raises OSError where the log does not have the batch, ValueError where it is of a kind unknown here.
    """
    text = _text_of(checkpoint / "offsets" / str(batch))
    version, _, *sources = text.rstrip("\n").split("\n")
    if version != "v1":
        raise ValueError(f"an offset log of version {version!r}")
    return [None if line == "-" else json.loads(line) for line in sources]


def planned_at(checkpoint: Place, batch: int) -> float | None:
    """When the batch was planned, in seconds since 1970 by the driver's clock; None: it is not told."""
    text = _text_of(checkpoint / "offsets" / str(batch))
    version, told, *_ = text.split("\n")
    at_ms = json.loads(told).get("batchTimestampMs") if version == "v1" else None
    return at_ms / 1000.0 if isinstance(at_ms, int) and at_ms > 0 else None


def state_kept_apart(checkpoint: Place, batch: int) -> bool:
    """Whether the batches before this one named the state that they ended with, an attempt's own.

    A checkpoint without any says nothing against it.
    """
    try:
        return batch == 0 or _text_of(checkpoint / "commits" / str(batch - 1)).startswith("v2\n")
    except OSError:
        return False


def first_offsets(checkpoint: Place, source: int) -> Any:
    """Where a Kafka source began: it has written that down, behind a byte for older readers."""
    text = _text_of(checkpoint / "sources" / str(source) / "0")
    return json.loads(text[text.index("{") :])


def records_between(start: Mapping[str, Any], end: Mapping[str, Any]) -> int | None:
    """Offsets between two positions in topics; a partition that is new in its topic begins at 0.

    None where that says nothing of rows: a topic that was made anew goes back, and one that joined by
    its pattern may begin anywhere.

    >>> records_between({"t": {"0": 5}}, {"t": {"0": 8, "1": 2}}), records_between({}, {"t": {"0": 8}})
    (5, None)
    """
    if not end.keys() <= start.keys():
        return None
    taken = [
        int(last) - int(start[topic].get(partition, 0))
        for topic, partitions in end.items()
        for partition, last in partitions.items()
    ]
    return None if any(records < 0 for records in taken) else sum(taken)


def files_between(checkpoint: Place, source: int, start: Any, end: Any) -> list[dict[str, Any]]:
    """The entries of a file source's log behind the offset `start` (None: all) and up to `end`."""
    first, last = -1 if start is None else int(start["logOffset"]), int(end["logOffset"])
    folder = checkpoint / "sources" / str(source)
    found = [e for e in _file_log(folder, first, last) if first < int(e["batchId"]) <= last]
    return found[::-1]


def _file_log(folder: Place, first: int, last: int) -> Iterator[dict[str, Any]]:
    """From the latest file back, each from its end.

    Every tenth is compacted and holds all that were before it, too, which Spark removes after a while.
    """
    for batch in range(last, first, -1):
        name = f"{batch}.compact"
        if not _is_there(folder / name) and not _is_there(folder / str(batch)):
            logs = (n.removesuffix(".compact") for n in names_in(folder) if n.endswith(".compact"))
            later = [int(n) for n in logs if n.isdigit() and int(n) > batch]
            name = f"{min(later, default=batch)}.compact"
        whole = _is_there(folder / name)
        for entry in _entries_from_end(folder / (name if whole else str(batch))):
            if int(entry["batchId"]) <= first:
                return
            yield entry
        if whole:
            return


def _is_there(path: Place) -> bool:
    return path.exists() if isinstance(path, Path) else store_of(path).get(path) is not None


def _entries_from_end(path: Place) -> Iterator[dict[str, Any]]:
    """The entries of one file, the last first: a compacted log has all files that ever were read."""
    with path.open("rb") if isinstance(path, Path) else io.BytesIO(_bytes_of(path)) as file:
        if file.readline().strip() != b"v1":
            raise ValueError(f"{path.name} is no file source's log of version 1")
        begin, at, rest = file.tell(), file.seek(0, os.SEEK_END), b""
        while at > begin:
            size = min(_BLOCK, at - begin)
            at -= size
            file.seek(at)
            rest, *lines = (file.read(size) + rest).split(b"\n")
            yield from (json.loads(line) for line in reversed(lines) if line)
        if rest:
            yield json.loads(rest)
