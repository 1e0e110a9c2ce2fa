"""Where a batch's rows are in its sources: from the ledger, or from Spark's own checkpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession

from headgate.errors import BadArgument, NotAsRecorded, SnapshotError
from headgate.spark.checkpoint import (
    ends_of_batch,
    files_between,
    first_offsets,
    open_checkpoint,
    records_between,
)
from headgate.store.folder import is_used, names_in
from headgate.store.ledger.records import Record
from headgate.store.places.place import Place
from headgate.store.stored_json import parsed_json

__all__ = [
    "BatchOffsets",
    "committed",
    "file_rows",
    "kafka_rows",
    "offsets_between",
    "offsets_in_checkpoint",
    "offsets_in_record",
    "rows_between",
]


@dataclass(frozen=True)
class BatchOffsets:
    """The half-open range of each source that one batch took, in the order of the sources."""

    batch: int
    starts: tuple[Any, ...]
    ends: tuple[Any, ...]

    def to_json(self) -> list[dict[str, Any]]:
        """As the ledger keeps it."""
        pairs = zip(self.starts, self.ends, strict=True)
        return [{"startOffset": start, "endOffset": end} for start, end in pairs]


def _parsed(value: Any) -> Any:
    """An offset as an object; Connect sessions report it as text."""
    return parsed_json(value) if isinstance(value, str) else value


#: How a rate source describes itself: every second has as many rows, once it is up to speed.
_RATE = re.compile(r"^RateStreamV2\[rowsPerSecond=(\d+), rampUpTimeSeconds=0,")


def rows_between(source: Mapping[str, Any]) -> int | None:
    """Rows between a source's start and end in one progress event; None where offsets do not tell.

    Kafka's offsets may have gaps (markers of transactions, compacted records): it is never fewer.
    """
    try:
        start, end = _parsed(source.get("startOffset")), _parsed(source.get("endOffset"))
        if isinstance(start, dict) and isinstance(end, dict) and "Kafka" in str(source["description"]):
            return records_between(start, end)
        rate = _RATE.match(str(source.get("description")))
        if rate and isinstance(start, int) and isinstance(end, int):
            return int(rate[1]) * (end - start)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return None


def offsets_in_record(record: Record) -> BatchOffsets:
    """The offsets that the ledger holds."""
    try:
        return BatchOffsets(
            record.batch,
            tuple(_parsed(source["startOffset"]) for source in record.offsets),
            tuple(_parsed(source["endOffset"]) for source in record.offsets),
        )
    except (KeyError, ValueError) as error:
        raise SnapshotError(
            f"the record of batch {record.batch} has no offsets that can be read ({error!r}): somebody "
            "changed it; leave the batch out, or give rows=, a reader of your own"
        ) from error


def offsets_in_checkpoint(checkpoint: Place, batch: int) -> BatchOffsets:
    """The offsets in Spark's offset log, which keeps the last hundred batches."""
    ends = _offset_log(checkpoint, batch)
    starts: tuple[Any, ...] = (None,) * len(ends)
    if batch > 0:
        starts = _offset_log(checkpoint, batch - 1)
    return BatchOffsets(batch, starts, ends)


def offsets_between(batch: int, before: Record | None, after: Record | None) -> BatchOffsets:
    """The offsets of a batch that has none itself: from where the one before it ended to the next."""
    first = batch == 0
    if after is None or not after.offsets or (before is None and not first):
        missing = batch + 1 if after is None or not after.offsets else batch - 1
        raise BadArgument(
            f"batch {batch} is not among the last hundred in the checkpoint, and batch {missing}, "
            "beside it, has no record with offsets either: nobody knows any more which rows it had"
        )
    ends = offsets_in_record(after).starts
    starts: tuple[Any, ...] = (None,) * len(ends)
    if before is not None:
        starts = offsets_in_record(before).ends
    return BatchOffsets(batch, starts, ends)


def committed(checkpoint: Place, batch: int) -> bool:
    """Whether the batch is over for good: it is in Spark's commit log, or a later one is.

    Spark keeps the last hundred batches of it, like the offsets.
    """
    commits = checkpoint / "commits"
    if not is_used(commits):
        raise BadArgument(
            f"checkpoint={str(checkpoint)!r} has no commits: give the query's checkpoint folder"
        )
    return any(name.isdigit() and int(name) >= batch for name in names_in(commits))


def _offset_log(checkpoint: Place, batch: int) -> tuple[Any, ...]:
    try:
        return tuple(ends_of_batch(checkpoint, batch))
    except OSError as error:
        raise BadArgument(
            f"checkpoint={str(checkpoint)!r} has no offsets of batch {batch}: give the query's "
            "checkpoint folder; Spark keeps the last hundred batches there"
        ) from error


def kafka_rows(
    spark: SparkSession,
    options: dict[str, str],
    prepare: Callable[[DataFrame], DataFrame] | None = None,
    *,
    checkpoint: str | Path | None = None,
    source: int = 0,
) -> Callable[[BatchOffsets], DataFrame]:
    """A reader of a Kafka source's batches.

    `options` are the stream's own; `prepare` is what the query does between the source and the
    gate. A query's very first batch has no start offset in its progress: give `checkpoint` for it.

    Exactly the partitions that the batch had are read, so that one that the topic got since does no
    harm; and what the topic no longer holds is an error, whatever ``failOnDataLoss`` says.
    """

    def rows(batch: BatchOffsets) -> DataFrame:
        start, end = _range_of(batch, source, "Kafka", _of_kafka)
        if start is not None and not _of_kafka(start):
            raise BadArgument(f"batch {batch.batch} begins at {start!r}, which is no place in a topic")
        if start is None and checkpoint is not None:
            start = first_offsets(open_checkpoint(checkpoint), source)
        if start is None:
            raise BadArgument(
                f"batch {batch.batch} is the query's first, and Spark reports no start for it: "
                "give checkpoint=, the query's checkpoint folder"
            )
        # A topic partition that is new in this batch began at 0.
        start = {t: {p: start.get(t, {}).get(p, 0) for p in parts} for t, parts in end.items()}
        kept = {k: v for k, v in options.items() if not k.lower().startswith(_STREAM_ONLY)}
        reader = spark.read.format("kafka").options(**kept)
        reader = reader.option("assign", json.dumps(_partitions(end)))
        reader = reader.option("startingOffsets", json.dumps(start)).option("failOnDataLoss", "true")
        frame = reader.option("endingOffsets", json.dumps(end)).load()
        return frame if prepare is None else prepare(frame)

    return rows


def _of_kafka(end: Any) -> bool:
    """Topics with their partitions, each by its number, and how far each goes."""
    return isinstance(end, dict) and all(
        isinstance(parts, dict)
        and all(p.isascii() and p.isdecimal() and type(n) is int for p, n in parts.items())
        for parts in end.values()
    )


def _of_files(end: Any) -> bool:
    return isinstance(end, dict) and "logOffset" in end


def _range_of(
    batch: BatchOffsets, source: int, kind: str, is_one: Callable[[Any], bool]
) -> tuple[Any, Any]:
    """Where the batch's part of a source begins and ends, if the source is of this kind."""
    if not 0 <= source < len(batch.ends):
        raise BadArgument(
            f"source={source!r}: batch {batch.batch} has {len(batch.ends)} source(s), counted from 0 in "
            "the order in which the query reads them"
        )
    end = batch.ends[source]
    if not is_one(end):
        raise BadArgument(
            f"source {source} of batch {batch.batch} is no {kind} source, since its offset is {end!r}: "
            "give kafka_rows for Kafka, file_rows for files, and for another source a function of your "
            "own that takes a BatchOffsets and reads the batch's rows again"
        )
    return batch.starts[source], end


def _partitions(end: Mapping[str, Mapping[str, Any]]) -> dict[str, list[int]]:
    return {topic: sorted(int(p) for p in partitions) for topic, partitions in end.items()}


#: Options that say what a stream reads, where it begins and how fast; a batch has its own range.
_STREAM_ONLY = (
    "starting", "ending", "maxoffsets", "minoffsets", "maxtriggerdelay", "subscribe", "assign",
    "failondataloss",
)  # fmt: skip


def file_rows(
    load: Callable[[list[str]], DataFrame],
    checkpoint: str | Path,
    prepare: Callable[[DataFrame], DataFrame] | None = None,
    *,
    source: int = 0,
    changed: str = "refuse",
) -> Callable[[BatchOffsets], DataFrame]:
    """A reader of a file source's batches: `load` reads a list of paths, as the stream's format.

    Files that are gone are refused, and local files that were written again since the batch; give
    ``changed="read"`` for files that were only copied back to their place.
    """
    if changed not in ("refuse", "read"):
        raise BadArgument(f"changed={changed!r}: give 'refuse' or 'read'")

    def rows(batch: BatchOffsets) -> DataFrame:
        start, end = _range_of(batch, source, "file", _of_files)
        found = files_between(open_checkpoint(checkpoint), source, start, end)
        entries = {entry["path"]: entry for entry in found}
        if changed == "refuse":
            _check_files(batch.batch, entries)
        frame = load([unquote(path) for path in entries])  # the log holds them encoded
        return frame if prepare is None else prepare(frame)

    return rows


def _check_files(batch: int, entries: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse local files that are not those that the batch read: Spark logs when they were written."""
    bad = []
    for path, entry in entries.items():
        url = urlsplit(path)
        if url.scheme not in ("", "file"):
            continue  # what is in a store is compared by its rows alone
        name = unquote(url.path)
        try:
            written = Path(name).stat().st_mtime_ns // 1_000_000
        except OSError:
            bad.append(f"{name} is gone")
            continue
        # Some file systems keep whole seconds.
        then = int(entry.get("timestamp", written))
        if written != then and written // 1000 != then / 1000:
            bad.append(f"{name} was written again since")
    if bad:
        more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
        raise NotAsRecorded(
            f"the files of batch {batch} are not those that it read ({', '.join(bad[:3])}{more}): put "
            'them back; or give changed="read" to file_rows if they only were copied',
            {batch: bad[0]},
        )
