"""What a driver that was killed left without a record, noted by the next one while Spark knows it."""

from __future__ import annotations

import contextlib

from headgate.spark.checkpoint import checkpoint_place, ends_of_batch
from headgate.store.gate_files.begun import forget_begun, note_begun, noted_batches
from headgate.store.ledger.records import Ledger
from headgate.store.places.place import Place
from headgate.store.plans import PlanStore

__all__ = ["note_left_unsettled"]


def note_left_unsettled(control: Place, gate: str, query: str, checkpoint: str) -> None:
    """Note the offsets of pinned batches without a record, as far as Spark's log still has them.

    Notes of batches that have a record by now go. The batch that runs again at this start is noted,
    too, and its note goes with the next one.
    """
    place = checkpoint_place(checkpoint)
    store = PlanStore(control, gate, query)
    pins, noted = set(store.pinned_batches()), noted_batches(store.folder)
    if place is None or not pins | noted:
        return
    settled = Ledger(control, gate, query).settled(pins | noted)
    forget_begun(store.folder, noted & settled | noted - pins)
    for batch in sorted(pins - settled - noted):
        # One that Spark has forgotten, or whose log is of a kind unknown here, cannot be noted.
        with contextlib.suppress(OSError, ValueError):
            ends = ends_of_batch(place, batch)
            starts = ends_of_batch(place, batch - 1) if batch > 0 else [None] * len(ends)
            note_begun(store.folder, batch, starts, ends)
