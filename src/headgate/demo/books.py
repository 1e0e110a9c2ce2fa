"""Is every row of a run accounted for?"""

from __future__ import annotations

import time
from itertools import pairwise

from pyspark.sql import SparkSession

from headgate.demo.batches import Side
from headgate.demo.watch import GATE
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger, Record
from headgate.store.places.place import Place

__all__ = ["ledger_agrees", "rows_agree"]


def rows_agree(side: Side) -> bool:
    """Whether each batch's rows are exactly those that the source's offsets name, without a gap.

    This is all that can be said of the side that has no ledger: nothing between the source and the
    query lost or added a row.
    """
    ended = [b for b in side.batches if not b.running]
    gapless = all(abs(a.until - (b.ended_at - b.delay_s)) < 1e-3 for a, b in pairwise(ended))
    return bool(ended) and gapless and all(b.counted for b in ended)


def ledger_agrees(spark: SparkSession, control: Place, side: Side) -> bool:
    """Whether, besides, the ledger has every batch, with the same counts, and balances."""
    numbers = [b.number for b in side.batches if not b.running]
    records = _records(spark, control, side.query, numbers)
    same = all(
        b.number in records
        and (records[b.number].arrived, records[b.number].kept) == (b.arrived, b.kept)
        for b in side.batches
        if not b.running
    )
    audits = audit(control, GATE, side.query)
    return rows_agree(side) and same and bool(audits) and all(a.balanced for a in audits)


def _records(
    spark: SparkSession, control: Place, query: str, numbers: list[int], patience_s: float = 5.0
) -> dict[int, Record]:
    """The ledger's records, once the last of these batches is among them."""
    ControlLoop.of(spark).drain()
    deadline = time.monotonic() + patience_s
    while True:
        records = Ledger(control, GATE, query).records()
        if all(n in records for n in numbers) or time.monotonic() > deadline:
            return records
        time.sleep(0.1)
