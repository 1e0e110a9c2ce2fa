"""Process the shed rows later: read the batches' offsets again, and apply the plans' complement.

No row is stored at the time of overload. A row's fate is a pure function of the row and its batch's
pinned plan, and the ledger holds the plan and the offsets of every batch; so as long as the source
still has the rows, the shed ones are exactly those that the plan does not keep. Before any of them is
handed on, what was read is compared with what was recorded (`headgate.spark.backfill.reread`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from headgate.errors import BadArgument, HeadgateError, NotAsRecorded
from headgate.policies import Policy
from headgate.spark.backfill.offsets import (
    BatchOffsets,
    committed,
    offsets_between,
    offsets_in_checkpoint,
    offsets_in_record,
)
from headgate.spark.backfill.parts import Parts, listed, query_named, shed_of, untrusted
from headgate.spark.backfill.reread import Rows, counted_again, mismatches
from headgate.spark.calls import explained
from headgate.spark.checkpoint import open_checkpoint
from headgate.spark.worker_errors import said_by_spark
from headgate.store.folder import used_control_folder
from headgate.store.gate_files.begun import begun_offsets, forget_begun
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger, Record
from headgate.store.places.place import Place
from headgate.store.plans import PlanStore

__all__ = ["backfill", "recount"]

log = logging.getLogger("headgate")


@explained('hg.backfill(spark, "rides", "/shared/headgate", hg.kafka_rows(...))')
def backfill(
    spark: SparkSession,
    gate: str,
    control: str | os.PathLike[str],
    rows: Rows,
    *,
    query: str | None = None,
    batches: Iterable[int] | None = None,
    on_mismatch: str = "refuse",
    check: bool = True,
    keep: str | Sequence[str] | None = None,
    policy: Policy | None = None,
) -> DataFrame:
    """The shed rows of recorded batches, each once, with their batch as ``_batch``.

    `rows` reads a batch again: `kafka_rows` and `file_rows` make such readers. `batches` are the
    batches wanted; by default all that shed anything.

    Every batch is first read once more and compared with its record: the rows that arrived, those that
    were kept, and their fingerprint. If one does not match, or has no trustworthy record, nothing is
    handed on (`NotAsRecorded` names the batches); with ``on_mismatch="skip"`` the others are, and a
    warning names those left out. ``check=False`` spares the reading and compares nothing.

    `keep` are the gate's own predicates, needed only where they call functions that are not harmless on
    their face: such are not taken from the control folder. `policy` is the gate's own, needed only where
    it draws rows by a rule of its own (`Drawing.quotas`).
    """
    if on_mismatch not in ("refuse", "skip"):
        raise BadArgument(f"on_mismatch={on_mismatch!r}: give 'refuse' or 'skip'")
    folder = used_control_folder(control)
    name = query_named(folder, gate, query)
    ledger = Ledger(folder, gate, name)
    asked = None if batches is None else sorted(set(batches))
    if asked is None:
        first, last = None, None
        wanted = [r for r in ledger.records().values() if r.shed > 0 or r.evidence.doubt]
    elif asked:
        first, last = asked[0], asked[-1]
        wanted = _pick(ledger, asked)
    else:
        raise BadArgument("batches=[] names none: leave it out for all that shed anything")
    (books,) = audit(folder, gate, name, first=first, last=last)
    bad = untrusted(books, None if asked is None else set(asked))
    if not wanted and not bad:
        raise BadArgument(f"gate {gate!r} of query {name} shed nothing in these batches")
    parts = Parts(spark, folder, gate, rows, keep, policy)
    read = {r.batch: part for r in wanted if r.batch not in bad and (part := parts.read(r, bad))}
    if check:
        bad |= mismatches(read)
    if bad and on_mismatch == "refuse":
        raise NotAsRecorded(_refusal(gate, name, bad), bad)
    if bad:
        log.warning("backfill of gate %r left batches out: %s", gate, listed(bad))
    shed = [shed_of(part) for batch, part in read.items() if batch not in bad]
    if not shed:
        raise NotAsRecorded(_refusal(gate, name, bad), bad)
    return reduce(DataFrame.unionByName, shed)


def _refusal(gate: str, query: str, bad: Mapping[int, str]) -> str:
    return (
        f"gate {gate!r} of query {query}: {len(bad)} of the batches cannot be told from the ledger and "
        f"the source together, so nothing is handed on: {listed(bad)}. Settle them, or leave them out "
        'with on_mismatch="skip"'
    )


@explained(
    'hg.recount(spark, "rides", "/shared/headgate", hg.kafka_rows(...), checkpoint="/lake/checkpoint")'
)
def recount(
    spark: SparkSession,
    gate: str,
    control: str | os.PathLike[str],
    rows: Rows,
    *,
    checkpoint: str | os.PathLike[str],
    query: str | None = None,
    keep: str | Sequence[str] | None = None,
    policy: Policy | None = None,
) -> list[Record]:
    """Settle the batches that have no record, or a doubtful one, by counting them again.

    A query killed between a batch's commit and its report has the plan pinned and the offsets in
    its checkpoint (or noted by the driver that came after, or in the records beside it), and no counts.
    Both together give them back. A batch that did not commit is left alone: it runs again when the
    query restarts. What cannot be settled is named in a warning; `headgate ledger verify` goes on
    naming it. `keep` and `policy` are the gate's own, as for `backfill`.
    """
    folder, place = used_control_folder(control), open_checkpoint(checkpoint)
    name = query_named(folder, gate, query)
    ledger = Ledger(folder, gate, name)
    (books,) = audit(folder, gate, name)
    records = ledger.records()
    parts = Parts(spark, folder, gate, rows, keep, policy)
    settled, left = [], {}
    for batch in sorted({*books.unsettled, *books.begun, *books.doubtful} - set(books.contradicted)):
        if not committed(place, batch):
            continue
        try:
            bare, offsets = _known_of(folder, gate, name, batch, records, place)
            counts = counted_again(parts.of(bare, offsets))
        except Exception as error:
            said = error if isinstance(error, HeadgateError | OSError) else said_by_spark(error)
            if said is None:
                raise
            left[batch] = f"cannot be settled: {said}"  # the others can be, all the same
            continue
        record = replace(
            bare, arrived=counts.arrived, kept=counts.kept, shed=counts.arrived - counts.kept,
            offsets=bare.offsets or offsets.to_json(), why="recounted",
            evidence=replace(
                bare.evidence, fingerprint=counts.fingerprint, doubt="", witness="", repaired=True
            ),
        )  # fmt: skip
        ledger.append(record)
        settled.append(record)
    forget_begun(PlanStore(folder, gate, name).folder, {record.batch for record in settled})
    left |= dict.fromkeys(books.missing, "left neither pin nor record: nobody knows what plan it met")
    if left:
        log.warning("recount of gate %r: %s", gate, listed(left))
    return settled


def _known_of(
    folder: Place, gate: str, query: str, batch: int, records: dict[int, Record], checkpoint: Place
) -> tuple[Record, BatchOffsets]:
    """All that is known of a batch but its counts, and its offsets."""
    doubtful = records.get(batch)
    if doubtful is not None:
        return doubtful, offsets_in_record(doubtful)
    store = PlanStore(folder, gate, query)
    pinned, begun_at = store.pinned(batch), store.begun_at(batch)
    if pinned is None:
        raise BadArgument(f"batch {batch} has no pin any more")
    try:
        offsets = offsets_in_checkpoint(checkpoint, batch)
    except BadArgument:
        noted = begun_offsets(store.folder, batch)
        if noted is not None:
            offsets = BatchOffsets(batch, *noted)
        else:
            offsets = offsets_between(batch, records.get(batch - 1), records.get(batch + 1))
    bare = Record(gate, query, batch, 0, 0, 0, pinned.plan, pinned.shape, pinned.origin)
    return replace(bare, attempt=pinned.attempt, started_at=begun_at or 0.0), offsets


def _pick(ledger: Ledger, batches: Sequence[int]) -> list[Record]:
    records = ledger.records(batches[0], batches[-1])
    missing = [b for b in batches if b not in records]
    if missing:
        raise BadArgument(
            f"batches {missing} are not in the ledger, which has {ledger.begins()} to "
            f"{ledger.last_batch()}"
        )
    return [records[b] for b in batches]
