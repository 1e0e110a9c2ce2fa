"""A ledger in an object store: chunks, parts, sums; bounded, whatever happens to its writers."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.core.plan import Plan
from headgate.settings import RETENTION_S
from headgate.store import file_age
from headgate.store.keeping.upkeep import Upkeep, ended_queries, remove_query
from headgate.store.ledger import carried, chunks
from headgate.store.ledger import records as ledger_module
from headgate.store.ledger.audit import audit
from headgate.store.ledger.bookkeeper import Bookkeeper
from headgate.store.ledger.records import Ledger, Record
from headgate.store.places.object_turns import ObjectTurns
from headgate.store.places.objects import Objects
from headgate.store.places.place import ObjectPath
from headgate.store.places.stores import store_of
from headgate.store.plans import KEPT_PINS, PinnedPlan, PlanStore
from tests.harness.virtual_store_time import StoreTime

BEGAN = 1_700_000_000.0


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreTime]:
    """The store's clock: it stands still until the test moves it."""
    with StoreTime(monkeypatch) as found:
        yield found


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of twenty batches and chunks of five, so that a test has many."""
    for module in (ledger_module, carried):
        monkeypatch.setattr(module, "SEGMENT", 20)
    monkeypatch.setattr(chunks, "_LINES", 5)


def record(batch: int, **other: object) -> Record:
    given = {"arrived": 100, "kept": 40, "shed": 60, "plan": Plan(0.4), "started_at": BEGAN + batch}
    return Record(gate="g", query="q", batch=batch, **{**given, **other})  # type: ignore[arg-type]


def filled(control: ObjectPath, batches: range, ledger: Ledger | None = None) -> Ledger:
    found = ledger or Ledger(control, "g", "q")
    for batch in batches:
        found.append(record(batch))
    return found


def names(control: ObjectPath) -> list[str]:
    folder = control / "gates" / "g" / "queries" / "q" / "ledger"
    return [entry.name for entry in store_of(folder).entries(folder)]


def closed_all(ledger: Ledger) -> int:
    count = 0
    while ledger.close_one(BEGAN):
        count += 1
    return count


def test_records_are_read_as_they_were_written(memory: ObjectPath) -> None:
    ledger = filled(memory, range(33))
    for reader in (ledger, Ledger(memory, "g", "q")):
        assert list(reader.records()) == list(range(33))
        assert [r.batch for r in reader.tail(7)] == list(range(26, 33))
        assert reader.record(17) == record(17)
        assert reader.record(99) is None
        assert reader.last_batch() == 32
        assert reader.totals().all.batches == 33
        assert reader.settled({3, 30, 50}) == {3, 30}
        assert reader.span(BEGAN + 5, BEGAN + 25) == (5, 25)
    assert len(names(memory)) == 7, "no object for each record"


def test_a_record_is_one_put(memory: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = filled(memory, range(1))
    asked: list[str] = []

    def noted(name: str) -> None:
        real = getattr(Objects, name)

        def act(*given: object, **named: object) -> object:
            asked.append(name)
            return real(*given, **named)

        monkeypatch.setattr(Objects, name, act)

    for name in ("get", "put", "create", "entries", "delete"):
        noted(name)
    filled(memory, range(1, 20), ledger)
    assert asked == ["put"] * 19


def test_what_is_over_becomes_one_part_and_nothing_is_lost_or_doubled(
    memory: ObjectPath, hours: StoreTime
) -> None:
    ledger = filled(memory, range(50))
    before, all_records = ledger.totals(), ledger.records()
    assert closed_all(ledger) == 0, "a line may still be under way"
    hours.pass_s(700)
    assert closed_all(ledger) == 2
    found = names(memory)
    assert sum(name.endswith(".jsonl.gz") for name in found) == 2
    assert sum(name.endswith(".open.gz") for name in found) == 2, "the latest segment stays open"
    for reader in (ledger, Ledger(memory, "g", "q")):
        assert reader.totals() == before
        assert reader.records() == all_records
        assert reader.span(BEGAN + 15, BEGAN + 45) == (15, 45)
    [found_audit] = audit(memory, "g", "q")
    assert found_audit.batches == 50
    assert found_audit.balanced


def test_late_lines_become_one_more_part_and_count_once(memory: ObjectPath, hours: StoreTime) -> None:
    ledger = filled(memory, range(50))
    hours.pass_s(700)
    closed_all(ledger)
    other = Ledger(memory, "g", "q")  # a recount, by another process
    other.append(record(3, kept=30, shed=70))
    other.append(record(4))
    assert Ledger(memory, "g", "q").record(3) == record(3, kept=30, shed=70)
    assert ledger.totals().all.kept == 50 * 40 - 10
    hours.pass_s(700)
    assert closed_all(ledger) == 1
    assert ledger.totals().all.kept == 50 * 40 - 10
    assert ledger.totals().all.batches == 50
    assert ledger.record(3) == record(3, kept=30, shed=70)


@pytest.mark.parametrize("dies_at", range(1, 9))
def test_a_crash_while_it_is_closed_costs_nothing(
    memory: ObjectPath, hours: StoreTime, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    ledger = filled(memory, range(50))
    before, all_records = ledger.totals(), ledger.records()
    hours.pass_s(700)
    left = [dies_at]

    def dying(name: str) -> None:
        real = getattr(Objects, name)

        def act(self: Objects, at: ObjectPath, *given: object, **named: object) -> object:
            if "look" not in at.name:
                left[0] -= 1
                if left[0] < 0:
                    raise OSError("killed here")
            return real(self, at, *given, **named)

        monkeypatch.setattr(Objects, name, act)

    with monkeypatch.context():
        for name in ("put", "delete"):
            dying(name)
        with pytest.raises(OSError, match="killed"):
            closed_all(ledger)
        left[0] = 1 << 30
        again = Ledger(memory, "g", "q")
        assert again.totals() == before
        assert again.records() == all_records
        hours.pass_s(700)
        closed_all(again)
        assert again.totals() == before
        assert again.records() == all_records


def test_records_expire_and_their_sums_stay(memory: ObjectPath, hours: StoreTime) -> None:
    ledger = filled(memory, range(100))
    hours.pass_s(700)
    closed_all(ledger)
    assert ledger.expire(BEGAN + 65) == 3
    assert ledger.begins() == 60
    assert list(ledger.records()) == list(range(60, 100))
    totals = Ledger(memory, "g", "q").totals()
    assert (totals.all.batches, totals.expired.batches) == (100, 60)
    assert not [name for name in names(memory) if name.startswith(("00000000", "00000001", "00000002"))]


def test_a_driver_that_starts_again_and_again_leaves_a_bounded_heap(
    memory: ObjectPath, hours: StoreTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "SEGMENT", 5000)
    monkeypatch.setattr(carried, "SEGMENT", 5000)
    monkeypatch.setattr(chunks, "_MANY", 10)
    for batch in range(60):
        filled(memory, range(batch, batch + 1))  # a process of its own, and then it is killed
        hours.pass_s(700)
        closed_all(Ledger(memory, "g", "q"))
    assert len(names(memory)) < 30
    ledger = Ledger(memory, "g", "q")
    assert list(ledger.records()) == list(range(60))
    assert ledger.totals().all.batches == 60


def test_what_a_recount_repaired_stays_repaired_when_its_chunk_is_closed_before_an_older_one(
    memory: ObjectPath, hours: StoreTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's own chunk is the oldest, and still grows; recounts left theirs behind it."""
    monkeypatch.setattr(chunks, "_MANY", 2)
    monkeypatch.setattr(chunks, "_LINES", 250)
    driver = filled(memory, range(5))
    Ledger(memory, "g", "q").append(record(3, kept=30, shed=70))
    for late in (0, 1, 2):
        filled(memory, range(late, late + 1))
        hours.pass_s(700)
        driver.append(record(5 + late))
        closed_all(Ledger(memory, "g", "q"))
        again = Ledger(memory, "g", "q")
        assert again.record(3) == record(3, kept=30, shed=70)
        assert again.totals().all.kept == (6 + late) * 40 - 10
    hours.pass_s(700)
    filled(memory, range(8, 9))
    closed_all(Ledger(memory, "g", "q"))
    again = Ledger(memory, "g", "q")
    assert sum(name.endswith(".open.gz") for name in names(memory)) <= 2
    assert again.record(3) == record(3, kept=30, shed=70)
    assert again.totals().all.kept == 9 * 40 - 10


def test_a_chunk_that_is_put_again_after_it_was_closed_changes_no_sum(
    memory: ObjectPath, hours: StoreTime
) -> None:
    """Its writer was stopped for an hour, and its clock with it, as a machine that is suspended does."""
    driver = filled(memory, range(18))
    filled(memory, range(20, 22))
    hours.pass_s(700)
    assert closed_all(Ledger(memory, "g", "q")) == 1
    Ledger(memory, "g", "q").append(record(16, kept=30, shed=70))
    hours.pass_s(700)
    assert closed_all(Ledger(memory, "g", "q")) == 1
    driver.append(record(18))  # with the lines before it, 16 among them
    for _ in range(2):
        again = Ledger(memory, "g", "q")
        assert again.record(16) == record(16, kept=30, shed=70)
        assert again.totals().all.kept == 21 * 40 - 10
        assert again.totals().all.batches == 21
        hours.pass_s(700)
        closed_all(again)
    assert not [name for name in names(memory) if name.startswith("00000000.") and "open" in name]


def test_a_chunk_is_left_alone_after_a_while_if_its_segment_is_not_the_latest(
    memory: ObjectPath,
) -> None:
    clock = [0.0]
    folder = memory / "gates" / "g" / "queries" / "q" / "ledger"
    writer = chunks.Chunks(folder, lambda: clock[0])
    writer.append(0, '{"batch":1}')
    clock[0] = 400.0
    writer.append(0, '{"batch":2}')  # still the latest segment: the chunk goes on
    assert len(names(memory)) == 1
    chunks.Chunks(folder).append(3, '{"batch":70}')
    clock[0] = 800.0
    writer.append(0, '{"batch":3}')  # somebody may be closing the other one by now
    assert len(names(memory)) == 3
    assert [v["batch"] for v in writer.values(0)] == [1, 2, 3]


def test_a_damaged_object_is_told_and_the_rest_is_read(memory: ObjectPath, hours: StoreTime) -> None:
    ledger = filled(memory, range(50))
    hours.pass_s(700)
    closed_all(ledger)
    folder = memory / "gates" / "g" / "queries" / "q" / "ledger"
    [first, *_] = [name for name in names(memory) if name.endswith(".jsonl.gz")]
    store = store_of(folder)
    held = store.get(folder / first)
    assert held is not None
    store.put(folder / first, held.data[:-60])
    [found] = audit(memory, "g", "q")
    assert first in found.damaged
    assert not found.balanced
    assert found.batches >= 30


def test_a_damaged_chunk_stays_and_hinders_nobody(memory: ObjectPath, hours: StoreTime) -> None:
    ledger = filled(memory, range(70))
    folder = memory / "gates" / "g" / "queries" / "q" / "ledger"
    first, second, *_ = names(memory)
    for name in (first, second):
        store_of(folder).put(folder / name, gzip.compress(b"x")[:5])
    hours.pass_s(700)
    assert closed_all(ledger) == 3
    assert [name for name in names(memory) if name.startswith("00000000.") and "open" in name] == [
        first,
        second,
    ]
    [found] = audit(memory, "g", "q")
    assert {first, second} <= found.damaged.keys()
    assert found.batches == 60


# ------------------------------------------------------------------------------------------ upkeep


def test_upkeep_keeps_the_store_small(memory: ObjectPath, hours: StoreTime) -> None:
    store, ledger = PlanStore(memory, "g", "q"), Ledger(memory, "g", "q")
    upkeep = Upkeep(memory, "g", "q", clock=lambda: BEGAN + 1000.0)
    upkeep.retention_s = 600.0
    store.beat()
    for batch in range(1000):
        store.pin_to(batch, PinnedPlan(Plan(0.4), "plan"))
        ledger.append(record(batch))
        if batch % 100 == 99:
            hours.pass_s(700)
            upkeep.run()
    assert len(store.pinned_batches()) == KEPT_PINS
    assert ledger.begins() >= 380
    assert ledger.totals().all.batches == 1000
    objects = sum(1 for page in store_of(memory)._obstore.list(store_of(memory)._store) for _ in page)  # type: ignore[attr-defined]
    assert objects < KEPT_PINS + 200


@pytest.mark.slow
def test_after_a_year_there_are_no_more_objects_and_bytes_than_after_ten_weeks(
    memory: ObjectPath, hours: StoreTime
) -> None:
    """Of 2,000 batches with small segments; records are kept for a week, as by default."""
    year_s, batches = 365 * 86_400.0, 2000
    step_s, now = year_s / batches, BEGAN
    store, ledger = PlanStore(memory, "g", "q"), Ledger(memory, "g", "q")
    upkeep = Upkeep(memory, "g", "q", clock=lambda: now)
    upkeep.retention_s = RETENTION_S
    held: list[tuple[int, int]] = []
    for batch in range(batches):
        store.beat()
        store.pin_to(batch, PinnedPlan(Plan(0.4), "plan"))
        ledger.append(record(batch, started_at=now))
        hours.pass_s(step_s)
        now += step_s
        if batch % 50 == 49:
            upkeep.run()
        if batch % 400 == 399:
            held.append(_objects_and_bytes(memory))
    assert ledger.totals().all.batches == batches
    assert year_s * ledger.begins() / batches > year_s - 2 * upkeep.retention_s, "the old ones are gone"
    for objects, size in held[1:]:
        assert objects <= 1.1 * held[0][0], held
        assert size <= 1.1 * held[0][1], held


def _objects_and_bytes(control: ObjectPath) -> tuple[int, int]:
    store = store_of(control)
    listed = store._obstore.list(store._store)  # type: ignore[attr-defined]
    sizes = [meta["size"] for page in listed for meta in page]
    return len(sizes), sum(sizes)


def test_one_at_a_time_works_at_the_objects(memory: ObjectPath, hours: StoreTime) -> None:
    one, other = ObjectTurns(memory), ObjectTurns(memory)
    with one.taken() as mine, other.taken() as theirs:
        assert (mine, theirs) == (True, False)
    with one.taken() as mine, other.taken() as theirs:
        assert (mine, theirs) == (True, False), "a turn is kept until it is given back"
    one.end()
    with other.taken() as theirs, one.taken() as mine:
        assert (mine, theirs) == (False, True)
    hours.pass_s(200)
    with one.taken() as mine:
        assert not mine
    hours.pass_s(200)  # the other one has said nothing for too long
    with one.taken() as mine:
        assert mine
    other._beaten -= 100.0
    with other.taken() as theirs:
        assert not theirs, "it finds that it was taken for gone"
    assert len(store_of(memory).entries(memory / "turns")) == 1


def test_ended_queries_are_found_and_removed(memory: ObjectPath, hours: StoreTime) -> None:
    PlanStore(memory, "g", "old").pin_to(1, PinnedPlan(Plan(0.4), "plan"))
    hours.pass_s(1000)
    PlanStore(memory, "g", "new").pin_to(1, PinnedPlan(Plan(0.4), "plan"))
    assert ended_queries(memory, "g", hours.now() - 500, set()) == ["old"]
    remove_query(memory, "g", "old")
    assert ledger_module.queries_of(memory, "g") == ["new"]
    assert file_age.time_by_the_store(memory) == hours.now()


def test_a_local_ledger_is_still_files(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "g", "q")
    ledger.append(record(0))
    folder = tmp_path / "gates" / "g" / "queries" / "q" / "ledger"
    assert [p.name for p in folder.iterdir()] == ["00000000.jsonl"]


def test_objects_that_somebody_deleted_under_a_running_query_are_missed(memory: ObjectPath) -> None:
    """What its writer still holds of the latest chunk is put again, and all before it is gone."""
    books = Bookkeeper(Ledger(memory, "g", "q"), "gate 'g'")
    for batch in range(12):
        books.add(record(batch))
    assert audit(memory, "g")[0].complete
    store_of(memory).delete_all(memory)
    books.add(record(12))
    (found,) = audit(memory, "g")
    assert found.deleted == [(0, 9)]
    assert found.verdict == "missing"
