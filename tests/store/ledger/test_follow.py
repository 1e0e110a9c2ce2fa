"""Following a ledger: the same as reading it, at the price of what came."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.core.plan import Plan
from headgate.errors import BadArgument
from headgate.store.ledger import carried
from headgate.store.ledger import records as ledger_module
from headgate.store.ledger.follow import LedgerFollower
from headgate.store.ledger.records import Ledger, Record
from headgate.store.places.place import Place
from tests.harness.object_stores import memory

__all__ = ["memory"]


def _record(batch: int, kept: int = 5) -> Record:
    return Record("g", "q", batch, 10, kept, 10 - kept, Plan(0.5), started_at=100.0 + batch)


def _look(follower: LedgerFollower, ledger: Ledger, most: int) -> None:
    """The follower knows what somebody knows who reads it all."""
    follower.look()
    assert list(follower.records) == ledger.tail(most)
    assert follower.totals == ledger.totals()


@pytest.fixture
def _short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ledger_module, carried):
        monkeypatch.setattr(module, "SEGMENT", 20)


def test_only_what_came_is_read(control: Path) -> None:
    ledger = Ledger(control, "g", "q")
    follower = LedgerFollower(Ledger(control, "g", "q"), most=50)
    _look(follower, ledger, 50)
    for batch in range(120):
        ledger.append(_record(batch))
        if batch % 7 == 0:
            _look(follower, ledger, 50)
    _look(follower, ledger, 50)
    _look(follower, ledger, 50)
    assert follower.full_reads == 1, "the first look alone reads what is there"


@pytest.mark.usefixtures("_short_segments")
def test_segments_come_are_closed_and_expire(control: Path) -> None:
    ledger = Ledger(control, "g", "q")
    follower = LedgerFollower(Ledger(control, "g", "q"), most=30)
    for batch in range(95):
        ledger.append(_record(batch))
        _look(follower, ledger, 30)
    reads = follower.full_reads
    while ledger.close_one(now=1e6):
        _look(follower, ledger, 30)
    assert ledger.expire(older_than=135.0) == 1
    _look(follower, ledger, 30)
    ledger.append(_record(95))
    _look(follower, ledger, 30)
    assert reads == 1
    assert reads < follower.full_reads <= 8


def test_a_batch_that_is_recorded_anew_counts_once(control: Path) -> None:
    ledger = Ledger(control, "g", "q")
    follower = LedgerFollower(Ledger(control, "g", "q"), most=5)
    for batch in range(20):
        ledger.append(_record(batch))
    _look(follower, ledger, 5)
    ledger.append(_record(19, kept=7))  # a recount
    _look(follower, ledger, 5)
    ledger.append(_record(3, kept=2))  # of one that is not shown
    _look(follower, ledger, 5)
    assert follower.totals.all.kept == 18 * 5 + 7 + 2
    ledger.append(_record(19, kept=7))  # the same once more
    _look(follower, ledger, 5)


def test_a_line_that_is_cut_off_is_taken_up_when_it_is_whole(control: Path) -> None:
    ledger = Ledger(control, "g", "q")
    follower = LedgerFollower(Ledger(control, "g", "q"))
    ledger.append(_record(0))
    (file,) = (control / "gates" / "g" / "queries" / "q" / "ledger").glob("*.jsonl")
    ledger.append(_record(1))
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    follower.look()
    assert [r.batch for r in follower.records] == [0]
    with file.open("ab") as out:
        out.write(whole[-40:])
    follower.look()
    assert [r.batch for r in follower.records] == [0, 1]
    ledger.append(_record(2))
    _look(follower, ledger, 240)


def test_on_objects(memory: Place) -> None:
    ledger = Ledger(memory, "g", "q")
    follower = LedgerFollower(Ledger(memory, "g", "q"), most=300)
    for batch in range(260):  # more than a chunk has
        ledger.append(_record(batch))
        if batch % 20 == 0:
            _look(follower, ledger, 300)
    _look(follower, ledger, 300)
    assert follower.full_reads <= 2
    Ledger(memory, "g", "q").append(_record(260))  # another driver, in a chunk of its own
    _look(follower, ledger, 300)
    assert follower.full_reads <= 2


def test_at_least_one_record_is_followed(control: Path) -> None:
    with pytest.raises(BadArgument, match="most=0: follow at least 1"):
        LedgerFollower(Ledger(control, "g", "q"), most=0)
