"""Which batches are to be repaid; no session is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

import headgate as hg
from headgate.core.plan import Plan
from headgate.spark.backfill.wanted import Wanted, cut, wanted_batches
from headgate.spark.recipe.batches import recipe_of_batch
from headgate.store.gate_files.recipes import Followed
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Evidence, Ledger, Record
from headgate.store.repaid.slices import Given, Slices


@pytest.fixture
def ledger(control: Path) -> Ledger:
    """Ten batches, a minute apart: every third shed nothing, and the fifth is doubtful."""
    made = Ledger(control, "g", "q")
    for batch in range(10):
        kept = 10 if batch % 3 == 0 else 4
        plan = Plan(1.0) if kept == 10 else Plan(0.4)
        doubt = Evidence(doubt="one row was seen") if batch == 5 else Evidence()
        offsets = [{"startOffset": batch, "endOffset": batch + 1}]
        made.append(
            Record(
                "g", "q", batch, 10, kept, 10 - kept, plan, started_at=60.0 * (batch + 1),
                offsets=offsets, evidence=doubt,
            )
        )  # fmt: skip
    return made


def _wanted(control: Path, batches: list[int] | None = None, **times: float) -> Wanted:
    span = times.get("since"), times.get("until")
    return wanted_batches(control, "g", "q", Slices(control, "g", "q"), batches=batches, times=span)


def test_those_that_shed_and_can_be_trusted(control: Path, ledger: Ledger) -> None:
    found = _wanted(control)
    assert found.batches == dict.fromkeys((1, 2, 4, 7, 8), 10)
    assert list(found.bad) == [5]
    assert "recount settles it" in found.bad[5]
    assert _wanted(control, [2, 3]).batches == {2: 10}
    assert _wanted(control, since=60.0 * 5, until=60.0 * 8).batches == {4: 10, 7: 10}
    assert _wanted(control, since=1e9) == Wanted()
    with pytest.raises(hg.BadArgument, match=r"\[11\] are not in the ledger"):
        _wanted(control, [1, 11])


def test_what_is_repaid_is_not_wanted_and_verify_compares_it(control: Path, ledger: Ledger) -> None:
    for batch, rows in ((1, 6), (2, 6)):
        one = Slices(control, "g", "q").take([batch], Given("files"))
        assert one is not None
        assert one.begin({batch: rows})
        assert one.decide()
        one.mark({batch: rows}, 0.1, 1.0)
    found = _wanted(control)
    assert (found.before, list(found.batches)) == (2, [4, 7, 8])
    (books,) = audit(control, "g", "q")
    assert (books.repaid, books.repaid_rows, books.repaid_otherwise) == ([1, 2], 12, [])
    one = Slices(control, "g", "q").take([4], Given("files"))
    assert one is not None
    one.mark({4: 5}, 0.1, 1.0)  # as if a sink had lost a row
    (books,) = audit(control, "g", "q")
    assert (books.repaid_otherwise, books.verdict) == ([4], "not balanced")


def test_a_slice_is_bounded_and_no_batch_is_cut() -> None:
    batches = {b: 10 * (b % 4 + 1) for b in range(40)}
    slices = list(cut(batches, 60, 3))
    assert [b for one in slices for b in one] == list(range(40))
    assert all(len(one) <= 3 and sum(batches[b] for b in one) <= 60 for one in slices)
    assert list(cut({}, 1, 1)) == []


def test_a_batch_follows_the_recipe_of_its_time() -> None:
    followed = [Followed("a", -1), Followed("b", 19)]
    assert [recipe_of_batch(followed, b).recipe for b in (0, 19, 20, 99)] == ["a", "a", "b", "b"]  # type: ignore[union-attr]
    assert recipe_of_batch([Followed("b", 19)], 5) is None
