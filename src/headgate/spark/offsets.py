"""Where a batch's rows are in its sources: from the ledger, or from Spark's own checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from headgate.errors import BadArgument
from headgate.store.ledger import Record

__all__ = [
    "BatchOffsets",
    "committed",
    "file_rows",
    "kafka_rows",
    "offsets_in_checkpoint",
    "offsets_in_record",
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
    return json.loads(value) if isinstance(value, str) else value


def offsets_in_record(record: Record) -> BatchOffsets:
    """The offsets that the ledger holds."""
    return BatchOffsets(
        record.batch,
        tuple(_parsed(source["startOffset"]) for source in record.offsets),
        tuple(_parsed(source["endOffset"]) for source in record.offsets),
    )


def offsets_in_checkpoint(checkpoint: Path, batch: int) -> BatchOffsets:
    """The offsets in Spark's offset log, which keeps the last hundred batches."""
    ends = _offset_log(checkpoint, batch)
    starts: tuple[Any, ...] = (None,) * len(ends)
    if batch > 0:
        starts = _offset_log(checkpoint, batch - 1)
    return BatchOffsets(batch, starts, ends)


def committed(checkpoint: Path, batch: int) -> bool:
    """Whether the batch is over for good: it is in Spark's commit log, or a later one is.

    Spark keeps the last hundred batches of it, like the offsets.
    """
    commits = checkpoint / "commits"
    if not commits.is_dir():
        raise BadArgument(
            f"checkpoint={str(checkpoint)!r} has no commits: give the query's checkpoint folder"
        )
    return any(p.name.isdigit() and int(p.name) >= batch for p in commits.iterdir())


def _offset_log(checkpoint: Path, batch: int) -> tuple[Any, ...]:
    path = checkpoint / "offsets" / str(batch)
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise BadArgument(
            f"checkpoint={str(checkpoint)!r} has no offsets of batch {batch}: give the query's "
            "checkpoint folder; Spark keeps the last hundred batches there"
        ) from error
    return tuple(None if line == "-" else json.loads(line) for line in lines[2:])


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
    """

    def rows(batch: BatchOffsets) -> DataFrame:
        start, end = batch.starts[source], batch.ends[source]
        if start is None and checkpoint is not None:
            start = _first_offsets(Path(checkpoint), source)
        if start is None:
            raise BadArgument(
                f"batch {batch.batch} is the query's first, and Spark reports no start for it: "
                "give checkpoint=, the query's checkpoint folder"
            )
        # A topic partition that is new in this batch began at 0.
        start = {t: {p: start.get(t, {}).get(p, 0) for p in parts} for t, parts in end.items()}
        kept = {k: v for k, v in options.items() if not k.lower().startswith(_STREAM_ONLY)}
        reader = spark.read.format("kafka").options(**kept)
        reader = reader.option("startingOffsets", json.dumps(start))
        frame = reader.option("endingOffsets", json.dumps(end)).load()
        return frame if prepare is None else prepare(frame)

    return rows


#: Options that say where a stream begins and how fast it reads; a batch has its own range.
_STREAM_ONLY = ("starting", "ending", "maxoffsets", "minoffsets", "maxtriggerdelay")


def _first_offsets(checkpoint: Path, source: int) -> Any:
    text = (checkpoint / "sources" / str(source) / "0").read_text(errors="replace")
    return json.loads(text[text.index("{") :])


def file_rows(
    load: Callable[[list[str]], DataFrame],
    checkpoint: str | Path,
    prepare: Callable[[DataFrame], DataFrame] | None = None,
    *,
    source: int = 0,
) -> Callable[[BatchOffsets], DataFrame]:
    """A reader of a file source's batches: `load` reads a list of paths, as the stream's format."""

    def rows(batch: BatchOffsets) -> DataFrame:
        start, end = batch.starts[source], batch.ends[source]
        first = -1 if start is None else int(start["logOffset"])
        last = int(end["logOffset"])
        log = Path(checkpoint) / "sources" / str(source)
        paths = {e["path"]: None for e in _file_log(log) if first < int(e["batchId"]) <= last}
        frame = load([unquote(path) for path in paths])  # the log holds them encoded
        return frame if prepare is None else prepare(frame)

    return rows


def _file_log(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.iterdir()):
        if path.name.removesuffix(".compact").isdigit():
            for line in path.read_text().splitlines()[1:]:
                yield json.loads(line)
