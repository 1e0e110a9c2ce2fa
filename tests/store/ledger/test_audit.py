"""Each kind of fault is found; clean books pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli import main
from headgate.core.plan import KEEP_ALL, Plan
from headgate.store.ledger.audit import MOST_NAMED, UNDER_WAY, Audit, audit
from headgate.store.ledger.records import Evidence, Ledger, Record
from headgate.store.plans import PinnedPlan, PlanStore

PLAN = Plan(0.4)


@pytest.fixture
def books(control: Path) -> Path:
    """Ten clean batches: pinned, and recorded as pinned."""
    store = PlanStore(control, "g", "q")
    store.beat()
    store.publish(PLAN)
    for batch in range(10):
        store.pin(batch, PinnedPlan(KEEP_ALL, "fail-open"))
        write(control, batch)
    return control


def write(control: Path, batch: int, **other: object) -> None:
    given = {"arrived": 10_000, "kept": 4_010, "shed": 5_990, "plan": PLAN}
    record = Record(gate="g", query="q", batch=batch, **{**given, **other})  # type: ignore[arg-type]
    Ledger(control, "g", "q").append(record)


def only(control: Path) -> Audit:
    (found,) = audit(control)
    return found


def test_clean_books_balance(books: Path) -> None:
    found = only(books)
    assert found.balanced
    assert found.complete
    assert (found.batches, found.arrived, found.kept, found.shed) == (10, 100_000, 40_100, 59_900)
    assert found.unlikely == []
    assert json.loads(json.dumps(found.to_json()))["complete"] is True


def test_a_row_that_is_neither_kept_nor_shed_is_found(books: Path) -> None:
    write(books, 10, kept=4_009)
    found = only(books)
    assert found.unbalanced == [10]
    assert not found.balanced
    assert not found.complete


def test_two_records_that_disagree_are_found_and_two_that_agree_are_not(books: Path) -> None:
    write(books, 3)
    assert only(books).complete
    write(books, 4, kept=4_011, shed=5_989)
    assert only(books).contradicted == [4]
    write(books, 5, plan=Plan(0.41))
    assert only(books).contradicted == [4, 5]
    assert not only(books).balanced


def test_another_plan_than_the_pinned_one_is_found(books: Path) -> None:
    PlanStore(books, "g", "q").pin(10, PinnedPlan(KEEP_ALL, "fail-open"))
    write(books, 10, plan=Plan(0.39))
    found = only(books)
    assert found.other_plan == [10]
    assert not found.balanced


@pytest.mark.parametrize(
    ("plan", "kept"), [(Plan(1.0), 9_999), (Plan(0.0), 1), (PLAN, 10_001), (PLAN, -1)]
)
def test_a_count_that_the_plan_makes_impossible_is_out_of_balance(
    books: Path, plan: Plan, kept: int
) -> None:
    write(books, 10, plan=plan, kept=kept, shed=10_000 - kept)
    assert only(books).unbalanced == [10]
    assert not only(books).balanced


@pytest.mark.parametrize("kept", [4_400, 3_600])
def test_a_share_that_the_plan_makes_all_but_impossible_is_found(books: Path, kept: int) -> None:
    write(books, 10, plan=PLAN, kept=kept, shed=10_000 - kept)
    found = only(books)
    assert found.unlikely == [10]
    assert found.balanced  # suspect, but every row is accounted for


def test_a_share_of_groups_is_not_judged(books: Path) -> None:
    write(books, 10, plan=Plan(0.1, {1: 1.0}), kept=9_000, shed=1_000)
    assert only(books).unlikely == []


def test_a_batch_that_began_and_has_no_record_is_found_once_a_later_one_has(books: Path) -> None:
    store = PlanStore(books, "g", "q")
    fallback = PinnedPlan(KEEP_ALL, "fail-open")
    store.pin(10, fallback)
    assert (only(books).unsettled, only(books).begun) == ([], [10])  # still at it
    assert only(books).complete
    store.pin(11, fallback)
    write(books, 11)
    found = only(books)
    assert found.begun == []
    assert found.unsettled == [10]
    assert found.balanced
    assert not found.complete


def test_batches_that_nobody_records_any_more_are_missed(books: Path) -> None:
    """A loop that is gone, or books that cannot be written: batches begin and are not heard of again."""
    store = PlanStore(books, "g", "q")
    for batch in range(10, 10 + UNDER_WAY):
        store.pin_to(batch, PinnedPlan(PLAN, "plan"))
    assert only(books).complete, "one may be running, and the loop be behind"
    for batch in range(10 + UNDER_WAY, 60):
        store.pin_to(batch, PinnedPlan(PLAN, "plan"))
    found = only(books)
    assert found.unsettled == list(range(10, 60 - UNDER_WAY))
    assert found.begun == list(range(60 - UNDER_WAY, 60))
    assert found.verdict == "missing"
    assert audit(books, last=15)[0].unsettled == list(range(10, 16)), "of a span, too"
    assert CliRunner().invoke(main, ["ledger", "verify", str(books)]).exit_code == 4


def test_every_gate_and_query_has_its_own_findings(books: Path) -> None:
    other = Record("h", "r", 0, arrived=5, kept=2, shed=2, plan=PLAN)
    Ledger(books, "h", "r").append(other)
    assert [(a.gate, a.query, a.balanced) for a in audit(books)] == [
        ("g", "q", True), ("h", "r", False),
    ]  # fmt: skip
    assert [a.gate for a in audit(books, gate="h")] == ["h"]
    assert audit(books, gate="g", query="q")[0].batches == 10


def test_batches_with_neither_pin_nor_record_are_missed(control: Path) -> None:
    for batch in (3, 4, 499, 500):
        write(control, batch)
    found = only(control)
    assert found.missing == list(range(5, 499))
    assert found.balanced
    assert not found.complete
    assert found.verdict == "missing"


def test_a_span_is_judged_alone(control: Path) -> None:
    for batch in (3, 4, 8, 9, 12):
        write(control, batch)
    (found,) = audit(control, first=8, last=9)
    assert (found.batches, found.missing) == (2, [])
    (found,) = audit(control, first=4, last=9)
    assert (found.batches, found.missing) == (3, [5, 6, 7])


def test_numbers_without_rows_are_not_missed(control: Path) -> None:
    """Spark numbers batches that only let state go; the offsets do not move over them."""
    ends = [{"startOffset": 1, "endOffset": 2}]
    write(control, 3, offsets=ends)
    write(control, 5, offsets=[{"startOffset": "2", "endOffset": "3"}])
    assert only(control).complete
    write(control, 7, offsets=[{"startOffset": 9, "endOffset": 10}])
    assert only(control).missing == [6]


def test_a_doubtful_batch_is_not_balanced_until_it_is_repaired(books: Path) -> None:
    write(
        books, 10, arrived=7, kept=5, shed=2, evidence=Evidence(doubt="the source handed out 2,000 rows")
    )
    found = only(books)
    assert (found.doubtful, found.verdict) == ([10], "doubtful")
    assert not found.balanced
    write(books, 10, evidence=Evidence(repaired=True))
    found = only(books)
    assert (found.doubtful, found.contradicted, found.repaired) == ([], [], [10])
    assert found.complete
    assert found.verdict == "repaired"


def test_a_replay_that_kept_other_rows_is_a_contradiction(books: Path) -> None:
    write(books, 3, evidence=Evidence("a"))
    assert only(books).complete, "0.1.0 wrote no fingerprints"
    write(books, 3, evidence=Evidence("a"))
    assert only(books).complete
    write(books, 3, evidence=Evidence("b"))
    assert only(books).contradicted == [3]


def test_a_spoilt_number_makes_no_list_that_fills_the_memory(books: Path) -> None:
    write(books, 2**53)
    found = only(books)
    assert found.verdict == "missing"
    assert found.missing == list(range(10, 10 + MOST_NAMED))
