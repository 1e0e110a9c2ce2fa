"""Two kills in a row leave two batches without a record; a hundred batches later they can be settled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.core.plan import Plan
from headgate.errors import BadArgument
from headgate.spark.backfill.backfill import _known_of
from headgate.spark.backfill.left_unsettled import note_left_unsettled
from headgate.store.gate_files.begun import begun_offsets, noted_batches
from headgate.store.ledger.records import Ledger, Record
from headgate.store.pinned_plan import PinnedPlan
from headgate.store.plans import PlanStore

GATE, QUERY = "rides", "query"
KEPT = Plan(0.5)


def record(batch: int) -> Record:
    source = {"startOffset": {"logOffset": batch - 1}, "endOffset": {"logOffset": batch}}
    return Record(GATE, QUERY, batch, 10, 5, 5, KEPT, offsets=[source])


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Of a query that planned six batches, from one source of files."""
    folder = tmp_path / "checkpoint"
    (folder / "offsets").mkdir(parents=True)
    for batch in range(6):
        text = "\n".join(["v1", "{}", json.dumps({"logOffset": batch})])
        (folder / "offsets" / str(batch)).write_text(text)
    return folder


@pytest.fixture
def store(control: Path) -> PlanStore:
    """Batches 0 to 5 are pinned; of 2 and 3 there is no record, because two drivers were killed."""
    plans = PlanStore(control, GATE, QUERY)
    ledger = Ledger(control, GATE, QUERY)
    for batch in range(6):
        plans.pin_to(batch, PinnedPlan(KEPT, "plan"))
        if batch not in (2, 3):
            ledger.append(record(batch))
    return plans


def forget(checkpoint: Path) -> None:
    """As Spark does a hundred batches later."""
    for path in (checkpoint / "offsets").iterdir():
        path.unlink()


def test_without_a_note_nobody_knows_where_the_first_of_two_ended(
    control: Path, checkpoint: Path, store: PlanStore
) -> None:
    forget(checkpoint)
    records = Ledger(control, GATE, QUERY).records()
    with pytest.raises(BadArgument, match="nobody knows any more"):
        _known_of(control, GATE, QUERY, 2, records, checkpoint)


def test_a_driver_that_starts_notes_what_earlier_ones_left(
    control: Path, checkpoint: Path, store: PlanStore
) -> None:
    note_left_unsettled(control, GATE, QUERY, str(checkpoint))
    assert noted_batches(store.folder) == {2, 3}
    forget(checkpoint)
    note_left_unsettled(control, GATE, QUERY, str(checkpoint))  # a later start, which can add nothing
    records = Ledger(control, GATE, QUERY).records()
    for batch in (2, 3):
        bare, offsets = _known_of(control, GATE, QUERY, batch, records, checkpoint)
        assert bare.plan == KEPT
        assert (offsets.starts, offsets.ends) == (({"logOffset": batch - 1},), ({"logOffset": batch},))


def test_notes_go_with_what_they_are_for(control: Path, checkpoint: Path, store: PlanStore) -> None:
    note_left_unsettled(control, GATE, QUERY, str(checkpoint))
    Ledger(control, GATE, QUERY).append(record(2))  # it ran again, and was reported
    store.unpin(3)  # too old to be settled
    note_left_unsettled(control, GATE, QUERY, str(checkpoint))
    assert noted_batches(store.folder) == set()


def test_the_first_batch_and_what_cannot_be_known(control: Path, checkpoint: Path) -> None:
    plans = PlanStore(control, GATE, QUERY)
    for batch in (0, 9):  # Spark has no offsets of the ninth
        plans.pin_to(batch, PinnedPlan(KEPT, "plan"))
    note_left_unsettled(control, GATE, QUERY, str(checkpoint))
    assert begun_offsets(plans.folder, 0) == ((None,), ({"logOffset": 0},))
    assert noted_batches(plans.folder) == {0}
    note_left_unsettled(control, GATE, QUERY, "hdfs://node/checkpoint")  # not to be read here


@pytest.mark.parametrize("spoiled", ["", "{", "[]", '{"starts": [1]}', '{"starts": [1], "ends": []}'])
def test_a_spoiled_note_says_nothing(control: Path, spoiled: str) -> None:
    folder = PlanStore(control, GATE, QUERY).folder
    (folder / "begun").mkdir(parents=True)
    (folder / "begun" / f"{4:012d}.json").write_text(spoiled)
    assert begun_offsets(folder, 4) is None
