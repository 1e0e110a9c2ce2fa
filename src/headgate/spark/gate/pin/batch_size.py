"""How large a batch is, told by its checkpoint before it runs.

A task that pins the plan of a batch can read the offset log in a fraction of a millisecond. What it
cannot read (another file system, an offset of a kind that nobody knows here) it does without.
"""

from __future__ import annotations

from typing import Any

from headgate.core.batch_size import OFFSETS, BatchSize
from headgate.spark.checkpoint import (
    checkpoint_place,
    ends_of_batch,
    files_between,
    first_offsets,
    forget_checkpoint,
    local_path,
    planned_at,
    records_between,
)
from headgate.spark.tables.delta_log import DeltaOffset, size_between
from headgate.store.places.place import Place

__all__ = ["seconds_of_batch", "sizes_of_batch"]

#: Files of a batch that are looked at: a few milliseconds on a disk, a second on a slow mount.
_LOOKED_AT = 1000


def sizes_of_batch(
    checkpoint: Place, batch: int, delta: str | None = None
) -> tuple[BatchSize, ...] | None:
    """What each source has for the batch, in their order; None where one of them does not tell.

    `delta` is the Delta table among them, if there is one.
    """
    try:
        ends = ends_of_batch(checkpoint, batch)
        starts = ends_of_batch(checkpoint, batch - 1) if batch > 0 else [None] * len(ends)
        if len(starts) != len(ends):
            return None
        pairs = enumerate(zip(starts, ends, strict=True))
        log = None if delta is None else _log_of(delta, ends)
        found = [_size(checkpoint, source, start, end, log) for source, (start, end) in pairs]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        forget_checkpoint(checkpoint)
        return None
    known = tuple(size for size in found if size is not None)
    return known if known and len(known) == len(found) else None


def seconds_of_batch(checkpoint: Place, batch: int) -> float | None:
    """The time that the batch covers: since the one before it was planned; None where nobody can tell.

    Both times are the same driver's, or two drivers' after a move; a clock that went back says nothing.
    """
    if batch <= 0:
        return None
    try:
        start, end = planned_at(checkpoint, batch - 1), planned_at(checkpoint, batch)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return end - start if start is not None and end is not None and end >= start else None


def _log_of(delta: str, ends: list[Any]) -> Place | None:
    """Where the table's log is, if one source is a Delta table: of several nobody knows which is it."""
    place = checkpoint_place(delta)
    one = sum(DeltaOffset.read(end) is not None for end in ends) == 1
    return place / "_delta_log" if place is not None and one else None


def _size(
    checkpoint: Place, source: int, start: Any, end: Any, log: Place | None = None
) -> BatchSize | None:
    if end is None:
        return BatchSize(0.0, OFFSETS)
    if not isinstance(end, dict):
        return _of_steps(start, end)
    if DeltaOffset.read(end) is not None:
        return None if log is None else size_between(log, start, end)
    if "logOffset" in end:
        return _of_files(files_between(checkpoint, source, start, end))
    if end.keys() == {"offset", "timestamp"}:  # rate-micro-batch counts rows
        return _at_least_none(int(end["offset"]) - (0 if start is None else int(start["offset"])))
    if end.keys() == {"offset"}:
        return _of_steps(None if start is None else start["offset"], end["offset"])
    if end and all(isinstance(partitions, dict) for partitions in end.values()):
        begun = first_offsets(checkpoint, source) if start is None else start
        records = records_between(begun, end)
        return None if records is None else BatchSize(float(records), OFFSETS)
    return None


def _of_steps(start: Any, end: Any) -> BatchSize | None:
    """Whole numbers of some kind, as the seconds of Spark's rate source; where one began is not told."""
    if not isinstance(start, int) or not isinstance(end, int) or end < start:
        return None
    return BatchSize(float(end - start), "steps")


def _at_least_none(rows: int) -> BatchSize | None:
    return BatchSize(float(rows), OFFSETS) if rows >= 0 else None


def _of_files(entries: list[dict[str, Any]]) -> BatchSize:
    """The bytes of the files that the source took; their number where one cannot be looked at.

    Of very many files, some are looked at and stand for the others.
    """
    looked_at = entries[:: -(-len(entries) // _LOOKED_AT)] if entries else []
    paths = [local_path(str(entry["path"])) for entry in looked_at]
    try:
        sizes = [path.stat().st_size for path in paths if path is not None]
    except OSError:
        sizes = []
    if len(sizes) < len(looked_at):
        return BatchSize(float(len(entries)), "files")
    return BatchSize(sum(sizes) * len(entries) / max(1, len(sizes)), "bytes")
