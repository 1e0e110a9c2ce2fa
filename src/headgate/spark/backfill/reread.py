"""Batches that are read again, and whether they are what was recorded of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headgate.spark.backfill.offsets import BatchOffsets
from headgate.spark.gate.fingerprint import fingerprint_columns, fingerprint_in
from headgate.spark.gate.identity import row_hash
from headgate.spark.gate.shape import GateShape
from headgate.spark.worker_errors import said_by_spark
from headgate.store.ledger.records import Record

__all__ = ["Counts", "Reread", "Rows", "counted_again", "mismatches"]

#: Why a batch may have fewer rows than it had.
_FEWER = (
    ": the source no longer holds the others (compacted, expired or deleted since), or what stands "
    "between source and gate is not what it was"
)
#: Rows of a batch, as they stood in front of the gate.
Rows = Callable[[BatchOffsets], DataFrame]


@dataclass(frozen=True)
class Reread:
    """One batch read again: what was recorded of it, its rows, and which of them its plan keeps."""

    record: Record
    shape: GateShape
    frame: DataFrame
    kept: Column

    def summary(self) -> DataFrame:
        """One row: the batch, the rows that arrive, those that are kept, and these ones' fingerprint."""
        hashed = F.when(self.kept, row_hash(self.frame, self.shape.identity, self.shape.seed))
        return self.frame.agg(
            F.lit(self.record.batch).alias("batch"),
            F.count(F.lit(1)).alias("arrived"),
            F.count_if(self.kept).alias("kept"),
            *fingerprint_columns(hashed),
        )


@dataclass(frozen=True)
class Counts:
    """What reading a batch again found."""

    arrived: int
    kept: int
    fingerprint: str


def _counts(frame: DataFrame) -> dict[int, Counts]:
    rows = [row.asDict() for row in frame.collect()]
    return {r["batch"]: Counts(r["arrived"], r["kept"], fingerprint_in(r)) for r in rows}


def counted_again(part: Reread) -> Counts:
    """What the batch has now."""
    return _counts(part.summary())[part.record.batch]


def mismatches(parts: Mapping[int, Reread]) -> dict[int, str]:
    """Why batches are not what was recorded, by batch; one job over all of them."""
    if not parts:
        return {}
    found: dict[int, Counts] = {}
    bad: dict[int, str] = {}
    try:
        found = _counts(reduce(DataFrame.unionByName, [p.summary() for p in parts.values()]))
    except Exception as error:
        if said_by_spark(error) is None:
            raise
        for batch, part in parts.items():  # one of them cannot be read: which?
            try:
                found[batch] = counted_again(part)
            except Exception as reason:
                if said_by_spark(reason) is None:
                    raise
                bad[batch] = f"({_ranges(part.record)}) cannot be read any more: {_first_word(reason)}"
    for batch, counts in found.items():
        why = _unlike(parts[batch].record, counts)
        if why is not None:
            bad[batch] = why
    return bad


def _first_word(error: Exception) -> str:
    """What Java said, without where py4j called it from."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return next((line[2:] for line in lines if line.startswith(": ")), lines[0])


def _ranges(record: Record) -> str:
    pairs = [f"{s.get('startOffset')} to {s.get('endOffset')}" for s in record.offsets]
    return "offsets " + "; ".join(pairs)


def _unlike(record: Record, counts: Counts) -> str | None:
    """How a batch differs from its record, in words; None if it does not."""
    if (counts.arrived, counts.kept) != (record.arrived, record.kept):
        said = (
            f"has {counts.arrived:,} rows of which the plan keeps {counts.kept:,}, and "
            f"{record.arrived:,} arrived and {record.kept:,} were kept"
        )
        return said + _FEWER if counts.arrived < record.arrived else said
    if record.evidence.fingerprint and counts.fingerprint != record.evidence.fingerprint:
        return (
            f"has as many rows, but the plan keeps others now than were kept then (fingerprint "
            f"{counts.fingerprint}, recorded {record.evidence.fingerprint})"
        )
    return None
