"""How large a batch is, told by its checkpoint before it runs.

A task that pins the plan of a batch can read the offset log in a fraction of a millisecond. What it
cannot read (another file system, an offset of a kind that nobody knows here) it does without.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headgate.core.batch_size import OFFSETS, BatchSize
from headgate.spark.checkpoint import (
    ends_of_batch,
    files_between,
    first_offsets,
    local_path,
    records_between,
)

__all__ = ["sizes_of_batch"]


def sizes_of_batch(checkpoint: Path, batch: int) -> tuple[BatchSize, ...] | None:
    """What each source has for the batch, in their order; None where one of them does not tell."""
    try:
        ends = ends_of_batch(checkpoint, batch)
        starts = ends_of_batch(checkpoint, batch - 1) if batch > 0 else [None] * len(ends)
        if len(starts) != len(ends):
            return None
        pairs = enumerate(zip(starts, ends, strict=True))
        found = [_size(checkpoint, source, start, end) for source, (start, end) in pairs]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    known = tuple(size for size in found if size is not None)
    return known if known and len(known) == len(found) else None


def _size(checkpoint: Path, source: int, start: Any, end: Any) -> BatchSize | None:
    if end is None:
        return BatchSize(0.0, OFFSETS)
    if isinstance(end, int) and not isinstance(end, bool):  # Spark's rate source counts seconds
        return BatchSize(float(end - int(start or 0)), "seconds")
    if not isinstance(end, dict) or not end:
        return None
    if "logOffset" in end:
        return _of_files(files_between(checkpoint, source, start, end))
    if isinstance(end.get("offset"), int):  # rate-micro-batch
        return BatchSize(float(end["offset"] - (0 if start is None else int(start["offset"]))), OFFSETS)
    if all(isinstance(partitions, dict) for partitions in end.values()):
        begun = first_offsets(checkpoint, source) if start is None else start
        return BatchSize(float(max(0, records_between(begun, end))), OFFSETS)
    return None


def _of_files(entries: list[dict[str, Any]]) -> BatchSize:
    """The bytes of the files that the source took; their number where one cannot be looked at."""
    paths = [local_path(str(entry["path"])) for entry in entries]
    try:
        sizes = [path.stat().st_size for path in paths if path is not None]
    except OSError:
        sizes = []
    if len(sizes) < len(entries):
        return BatchSize(float(len(entries)), "files")
    return BatchSize(float(sum(sizes)), "bytes")
