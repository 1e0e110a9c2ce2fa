"""A query's checkpoint, as Spark writes it: whose it is, and where its batches ended.

Spark writes ``<checkpoint>/offsets/<batch>`` before it executes a batch, and keeps about the last
hundred; ``<checkpoint>/metadata`` names the query; sources have folders of their own in
``<checkpoint>/sources``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql.streaming.query import StreamingQuery

from headgate.errors import BadArgument

__all__ = [
    "check_checkpoint",
    "ends_of_batch",
    "files_between",
    "first_offsets",
    "location_of",
    "local_path",
    "query_in",
    "records_between",
]


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


def check_checkpoint(checkpoint: str | os.PathLike[str]) -> str:
    """The location, if it can be a query's checkpoint: one, or a folder that is to become one."""
    location = os.fspath(checkpoint) if isinstance(checkpoint, str | os.PathLike) else ""
    if not isinstance(location, str) or not location:
        raise BadArgument(
            f"checkpoint={checkpoint!r}: give what the query gets as checkpointLocation, a folder"
        )
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


def query_in(checkpoint: Path) -> str | None:
    """The query that this checkpoint is of; None where there is none, or none that can be read."""
    try:
        value = json.loads((checkpoint / "metadata").read_text())
        return str(value["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def ends_of_batch(checkpoint: Path, batch: int) -> list[Any]:
    """Where each source was when the batch was planned; None for a source that had nothing yet.

    Raises OSError where the log does not have the batch, ValueError where it is of a kind unknown here.
    """
    version, _, *sources = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    if version != "v1":
        raise ValueError(f"an offset log of version {version!r}")
    return [None if line == "-" else json.loads(line) for line in sources]


def first_offsets(checkpoint: Path, source: int) -> Any:
    """Where a Kafka source began: it has written that down, behind a byte for older readers."""
    text = (checkpoint / "sources" / str(source) / "0").read_text(errors="replace")
    return json.loads(text[text.index("{") :])


def records_between(start: Mapping[str, Any], end: Mapping[str, Any]) -> int:
    """Offsets between two positions in topics; a partition that is new begins at 0.

    >>> records_between({"t": {"0": 5}}, {"t": {"0": 8, "1": 2}})
    5
    """
    return sum(
        int(last) - int(start.get(topic, {}).get(partition, 0))
        for topic, partitions in end.items()
        for partition, last in partitions.items()
    )


def files_between(checkpoint: Path, source: int, start: Any, end: Any) -> list[dict[str, Any]]:
    """The entries of a file source's log behind the offset `start` (None: all) and up to `end`."""
    first, last = -1 if start is None else int(start["logOffset"]), int(end["logOffset"])
    folder = checkpoint / "sources" / str(source)
    return [e for e in _file_log(folder, first, last) if first < int(e["batchId"]) <= last]


def _file_log(folder: Path, first: int, last: int) -> Iterator[dict[str, Any]]:
    """From the latest file back; a compacted one holds all that were before it, too."""
    for batch in range(last, first, -1):
        compacted = folder / f"{batch}.compact"
        path = compacted if compacted.exists() else folder / str(batch)
        version, *lines = path.read_text().splitlines()
        if version != "v1":
            raise ValueError(f"a file source's log of version {version!r}")
        yield from (json.loads(line) for line in lines if line)
        if path == compacted:
            return
