"""Records that were there and are gone: an audit misses them, and nothing that ended in order."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli import main
from headgate.core.plan import Plan
from headgate.store.ledger.audit import Audit, audit
from headgate.store.ledger.bookkeeper import Bookkeeper
from headgate.store.ledger.parts import SEGMENT
from headgate.store.ledger.records import Ledger, Record
from headgate.testing.faults.folders import away, gone

PLAN = Plan(0.4)


def record(batch: int) -> Record:
    offsets = [{"startOffset": batch, "endOffset": batch + 1}]
    return Record("g", "q", batch, 100, 40, 60, PLAN, started_at=1000.0 + batch, offsets=offsets)


def writer(control: Path) -> Bookkeeper:
    return Bookkeeper(Ledger(control, "g", "q"), "gate 'g'")


def only(control: Path, **given: int) -> Audit:
    (found,) = audit(control, **given)
    return found


def verify(control: Path, *more: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["ledger", "verify", str(control), *more])
    return done.exit_code, " ".join(done.output.split())


def test_a_folder_deleted_while_its_query_runs_is_missed(control: Path) -> None:
    one = writer(control)
    for batch in range(7):
        one.add(record(batch))
    assert only(control).complete
    with gone(control):
        pass
    for batch in range(7, 12):
        one.add(record(batch))
    found = only(control)
    assert found.deleted == [(0, 6)]
    assert found.begins_late is None
    assert (found.balanced, found.complete, found.verdict) == (True, False, "missing")
    code, said = verify(control)
    assert code == 4
    assert "records of batch 0 to 6 were there and are gone" in said


def test_so_is_what_was_written_while_another_folder_stood_in_its_place(control: Path) -> None:
    one = writer(control)
    for batch in range(3):
        one.add(record(batch))
    with away(control):
        for batch in range(3, 6):
            one.add(record(batch))
    one.add(record(6))
    found = only(control)
    assert found.deleted == [(3, 5)]
    assert found.missing == [], "each batch is named once"
    assert found.verdict == "missing"


def test_a_second_loss_is_told_beside_the_first_while_its_trace_is_there(control: Path) -> None:
    one = writer(control)
    one.add(record(0))
    with gone(control):
        pass
    one.add(record(1))
    with away(control):
        one.add(record(2))
    one.add(record(3))
    assert only(control).deleted == [(0, 0), (2, 2)]


@pytest.mark.parametrize("first", [0, 1, 40])
def test_a_gate_that_was_added_late_is_no_error_and_is_said(control: Path, first: int) -> None:
    one = writer(control)
    for batch in range(first, first + 3):
        one.add(record(batch))
    found = only(control)
    assert (found.complete, found.deleted) == (True, [])
    assert found.begins_late == (first or None)
    code, said = verify(control)
    assert code == 0
    assert (f"nothing is known of batches before {first}" in said) == (first > 0)


def test_a_restart_and_records_from_before_there_was_such_a_word_are_no_error(control: Path) -> None:
    for batch in range(3):
        Ledger(control, "g", "q").append(record(batch))  # as 0.1.0 wrote it
    for start in (3, 6):  # a process each
        one = writer(control)
        for batch in range(start, start + 3):
            one.add(record(batch))
    assert only(control).complete
    assert [r.after for r in Ledger(control, "g", "q").lines()] == [None] * 4 + [3, 4, None, 6, 7]


def test_what_expired_in_order_is_not_missed(control: Path) -> None:
    one, ledger = writer(control), Ledger(control, "g", "q")
    for batch in (*range(SEGMENT - 2, SEGMENT + 2), *range(2 * SEGMENT - 1, 2 * SEGMENT + 2)):
        one.add(record(batch))
    before = only(control)
    while ledger.close_one(now=1e9):
        pass
    assert ledger.expire(older_than=1000.0 + SEGMENT) == 1
    found = only(control)
    assert (found.records_from, found.deleted, found.begins_late) == (SEGMENT, [], None)
    assert before.deleted == []
    shutil.rmtree(control / "gates" / "g" / "queries" / "q" / "ledger")
    one.add(record(2 * SEGMENT + 2))
    assert only(control).deleted == [(0, 2 * SEGMENT + 1)], "the sums of what expired are gone, too"


def test_a_span_judges_itself_alone(control: Path) -> None:
    one = writer(control)
    for batch in range(4):
        one.add(record(batch))
    with gone(control):
        pass
    for batch in range(4, 9):
        one.add(record(batch))
    assert only(control, first=5).complete
    assert only(control, first=5).begins_late is None
    assert only(control, first=2).deleted == [(2, 3)]


def test_a_record_that_names_a_later_one_proves_nothing(control: Path) -> None:
    """Whoever may write to the ledger may write this, too; and no list of it may be endless."""
    ledger = Ledger(control, "g", "q")
    ledger.append(Record("g", "q", 0, 1, 1, 0, Plan(1.0), after=10**17))
    assert only(control).complete
