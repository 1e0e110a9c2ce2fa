"""Batches that are to be read again: which, and with what judges their rows beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.errors import BadArgument, NotAsRecorded
from headgate.policies import Policy
from headgate.policies.by_group.level import LEVEL_RULES
from headgate.spark.backfill.offsets import BatchOffsets, offsets_in_record
from headgate.spark.backfill.reread import Reread, Rows
from headgate.spark.gate.shape import SCRATCH, GateShape
from headgate.store.guards import guard_in
from headgate.store.ledger.audit import Audit
from headgate.store.ledger.records import Record, queries_of
from headgate.store.places.place import Place

__all__ = ["Parts", "listed", "query_named", "shed_of", "untrusted"]


class Parts:
    """Batches read again, with what judges their rows beside them."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Place,
        gate: str,
        rows: Rows,
        keep: str | Sequence[str] | None,
        policy: Policy | None = None,
    ) -> None:
        self._policy = policy
        self._spark, self._folder, self._gate, self._rows = spark, folder, gate, rows
        self._keep = (keep,) if isinstance(keep, str) else keep
        self._shapes: dict[str, GateShape] = {}

    def read(self, record: Record, bad: dict[int, str]) -> Reread | None:
        """The batch, or None and why not in `bad` if the source says that it has changed."""
        try:
            return self.of(record, offsets_in_record(record))
        except NotAsRecorded as error:
            bad[record.batch] = str(error)
            return None

    def of(self, record: Record, offsets: BatchOffsets) -> Reread:
        """The batch at these offsets, judged by the plan and the shape of the record."""
        if record.shape not in self._shapes:
            shape = GateShape.load(self._folder, self._gate, record.shape, self._keep)
            shape = shape.drawn_by(self._policy)
            _require_repeatable(self._gate, shape)
            self._shapes[record.shape] = shape
        shape = self._shapes[record.shape]
        frame, kept = shape.judged(self._spark, self._rows(offsets), record.plan, record.batch)
        return Reread(record, shape, frame, kept)


def shed_of(part: Reread) -> DataFrame:
    """The rows that the batch's plan does not keep."""
    rows = part.frame.where(~part.kept).drop(*SCRATCH)
    return rows.withColumn("_batch", F.lit(part.record.batch))


def _require_repeatable(gate: str, shape: GateShape) -> None:
    strata = shape.strata
    if strata is not None and strata.quotas is None and strata.rule not in LEVEL_RULES:
        raise BadArgument(
            f"gate {gate!r} drew by the rule {strata.rule!r} of a policy of its own, whose code is not "
            "in the control folder: give policy=, the gate's policy as it was"
        )
    if strata is not None and not (strata.partitions or strata.passes or strata.alone):
        raise BadArgument(
            f"gate {gate!r} drew with counts='partition': which rows were kept depended on how they "
            "were packed into partitions, and nobody can pack them so again; use counts='batch' for a "
            "gate whose shed rows are wanted later"
        )


def untrusted(books: Audit, only: set[int] | None) -> dict[int, str]:
    """Batches of which the ledger cannot tell what they shed."""
    found = {b: f"is doubtful ({why}); recount settles it" for b, why in books.doubts.items()}
    found |= dict.fromkeys(books.unsettled, "has no record; recount settles it")
    found |= dict.fromkeys(books.missing, "left neither pin nor record")
    found |= dict.fromkeys(books.contradicted, "was recorded twice, and not alike")
    found |= {high: f"and those from {low} on had records that are gone" for low, high in books.deleted}
    return {b: why for b, why in sorted(found.items()) if only is None or b in only}


def listed(bad: Mapping[int, str], most: int = 10) -> str:
    """Batches with their reasons, in a line."""
    shown = "; ".join(f"batch {b} {why}" for b, why in list(bad.items())[:most])
    return shown + (f"; and {len(bad) - most} more" if len(bad) > most else "")


def query_named(control: Place, gate: str, query: str | None) -> str:
    """The query that is meant; it need not be named where there is one."""
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
