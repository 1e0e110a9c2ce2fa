"""Process the shed rows later: read the batches' offsets again, and apply the plans' complement.

No row is stored at the time of overload. A row's fate is a pure function of the row and its batch's
pinned plan, and the ledger holds the plan and the offsets of every batch; so as long as the source
still has the rows, the shed ones are exactly those that the plan does not keep.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.errors import BadArgument
from headgate.spark.offsets import BatchOffsets, committed, offsets_in_checkpoint, offsets_in_record
from headgate.spark.shape import SCRATCH, GateShape
from headgate.store.audit import audit
from headgate.store.folder import used_control_folder
from headgate.store.guards import guard_in
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
    folder = used_control_folder(control)
    name = _the_query(folder, gate, query)
    records = Ledger(folder, gate, name).records()
    wanted = [r for r in records.values() if r.shed > 0] if batches is None else _pick(records, batches)
    if not wanted:
        raise BadArgument(f"gate {gate!r} of query {name} shed nothing in these batches")
    parts = []
    for record in wanted:
        shape = GateShape.load(folder, gate, record.shape)
        frame = rows(offsets_in_record(record))
        judged, kept = shape.judged(spark, frame, record.plan, record.batch)
        shed = judged.where(~kept).drop(*SCRATCH)
        parts.append(shed.withColumn("_batch", F.lit(record.batch)))
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
    its checkpoint, and no counts. Both together give them back. A batch that did not commit is left
    alone: it runs again when the query restarts.
    """
    folder = used_control_folder(control)
    name = _the_query(folder, gate, query)
    ledger, store = Ledger(folder, gate, name), PlanStore(folder, gate, name)
    (found,) = audit(folder, gate, name)
    settled = []
    for batch in [b for b in (*found.unsettled, *found.begun) if committed(Path(checkpoint), b)]:
        offsets = offsets_in_checkpoint(Path(checkpoint), batch)
        pinned = store.pinned(batch)
        if pinned is None:
            continue  # pruned meanwhile: it has a record by now
        shape = GateShape.load(folder, gate, pinned.shape)
        judged, passes = shape.judged(spark, rows(offsets), pinned.plan, batch)
        arrived, kept = F.count(F.lit(1)), F.count_if(passes)
        counts = judged.agg(arrived.alias("arrived"), kept.alias("kept")).collect()[0]
        record = Record(
            gate, name, batch, counts.arrived, counts.kept, counts.arrived - counts.kept,
            pinned.plan, pinned.shape, pinned.origin, why="recounted", offsets=offsets.to_json(),
        )  # fmt: skip
        ledger.append(record)
        settled.append(record)
    return settled


def _the_query(control: Path, gate: str, query: str | None) -> str:
    known = queries_of(control, gate)
    if guard_in(control, gate) is not None:
        raise BadArgument(
            f"{gate!r} is a guard: what it dropped followed the clock, and no reading again can tell it"
        )
    if not known:
        raise BadArgument(
            f"no gate {gate!r} has used the control folder {str(control)!r}: give the folder "
            "and the name that the query ran with"
        )
    if query is None and len(known) == 1:
        return known[0]
    if query is None or query not in known:
        raise BadArgument(
            f"query={query!r}: gate {gate!r} in {str(control)!r} has the queries "
            f"{', '.join(known)}; name one of them"
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
