"""Process the shed rows later: read the batches' offsets again, and apply the plans' complement.

No row is stored at the time of overload. A row's fate is a pure function of the row and its batch's
pinned plan, and the ledger holds the plan and the offsets of every batch; so as long as the source
still has the rows, the shed ones are exactly those that the plan does not keep.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.errors import BadArgument
from headgate.plan import KEEP_ALL
from headgate.spark.offsets import BatchOffsets, offsets_in_checkpoint, offsets_in_record
from headgate.spark.shape import THRESHOLD, GateShape
from headgate.store.audit import audit
from headgate.store.ledger import Ledger, Record, queries_of
from headgate.store.plans import PlanStore

__all__ = ["backfill", "recount"]

#: Rows of a batch, as they stood in front of the gate.
Rows = Callable[[BatchOffsets], DataFrame]


def backfill(
    spark: SparkSession,
    gate: str,
    control: str | os.PathLike[str],
    rows: Rows,
    *,
    query: str | None = None,
    batches: Iterable[int] | None = None,
) -> DataFrame:
    """The shed rows of recorded batches, each once, with their batch as ``_batch``.

    `rows` reads a batch again: `kafka_rows` and `file_rows` make such readers. `batches` are the
    batches wanted; by default all that shed anything.
    """
    folder = Path(control)
    shape = GateShape.load(folder, gate)
    name = _the_query(folder, gate, query)
    records = Ledger(folder, gate, name).records()
    wanted = [r for r in records.values() if r.shed > 0] if batches is None else _pick(records, batches)
    if not wanted:
        raise BadArgument(f"gate {gate!r} of query {name} shed nothing in these batches")
    parts = []
    for record in wanted:
        frame = rows(offsets_in_record(record))
        decided = shape.decided(spark, frame, record.plan).where(F.col(THRESHOLD).isNull())
        parts.append(decided.drop(THRESHOLD).withColumn("_batch", F.lit(record.batch)))
    return reduce(DataFrame.unionByName, parts)


def recount(
    spark: SparkSession,
    gate: str,
    control: str | os.PathLike[str],
    rows: Rows,
    *,
    checkpoint: str | os.PathLike[str],
    query: str | None = None,
) -> list[Record]:
    """Settle the batches that a kill left without a record, by counting them again.

    A query killed between a batch's commit and its report has the plan pinned and the offsets in
    its checkpoint, and no counts. Both together give them back.
    """
    folder = Path(control)
    shape = GateShape.load(folder, gate)
    name = _the_query(folder, gate, query)
    ledger, store = Ledger(folder, gate, name), PlanStore(folder, gate, name)
    (found,) = audit(folder, gate, name)
    settled = []
    for batch in found.unsettled:
        offsets = offsets_in_checkpoint(Path(checkpoint), batch)
        pinned = store.pinned(batch)
        plan = KEEP_ALL if pinned is None else pinned.plan
        decided = shape.decided(spark, rows(offsets), plan)
        arrived = F.count(F.lit(1)).alias("arrived")
        kept = F.count(THRESHOLD).alias("kept")
        shed = F.count_if(F.col(THRESHOLD).isNull()).alias("shed")
        counts = decided.agg(arrived, kept, shed).collect()[0]
        record = Record(gate, name, batch, counts.arrived, counts.kept, counts.shed, plan)
        origin = "plan" if pinned is None else pinned.origin
        record = replace(record, origin=origin, why="recounted", offsets=offsets.to_json())
        ledger.append(record)
        settled.append(record)
    return settled


def _the_query(control: Path, gate: str, query: str | None) -> str:
    known = queries_of(control, gate)
    if query is None and len(known) == 1:
        return known[0]
    if query is None or query not in known:
        raise BadArgument(
            f"query={query!r}: gate {gate!r} in {str(control)!r} has the queries "
            f"{', '.join(known) or 'none'}; name one of them"
        )
    return query


def _pick(records: dict[int, Record], batches: Iterable[int]) -> list[Record]:
    wanted = sorted(set(batches))
    missing = [b for b in wanted if b not in records]
    if missing:
        raise BadArgument(
            f"batches {missing} are not in the ledger, which has {min(records, default=None)} to "
            f"{max(records, default=None)}"
        )
    return [records[b] for b in wanted]
