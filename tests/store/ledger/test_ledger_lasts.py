"""A ledger that is years old: compressed, expired, read while that happens, and cheap to ask."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path

import pytest

from headgate.core.plan import Plan
from headgate.store import durable
from headgate.store.ledger import carried, segments
from headgate.store.ledger import records as ledger_module
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger, Record
from headgate.store.ledger.segments import Segments
from headgate_lab.bench.year.books import write_books
from tests.killed import killed_at

BEGAN = 1_700_000_000.0


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Segments of ten batches, so that a test has many."""
    if "real_size" not in request.keywords:
        for module in (ledger_module, carried):
            monkeypatch.setattr(module, "SEGMENT", 10)


def record(batch: int, **other: object) -> Record:
    given = {"arrived": 100, "kept": 40, "shed": 60, "plan": Plan(0.4), "started_at": BEGAN + batch}
    return Record(gate="g", query="q", batch=batch, **{**given, **other})  # type: ignore[arg-type]


def filled(control: Path, batches: int) -> Ledger:
    found = Ledger(control, "g", "q")
    for batch in range(batches):
        found.append(record(batch))
    return found


def close_all(found: Ledger, now: float = BEGAN + 10_000) -> int:
    count = 0
    while found.close_one(now):
        count += 1
    return count


def files(control: Path) -> list[str]:
    folder = control / "gates" / "g" / "queries" / "q" / "ledger"
    return sorted(p.name.split("-")[0] + "".join(p.suffixes[1:]) for p in folder.iterdir())


def test_closed_segments_are_compressed_and_say_the_same(control: Path) -> None:
    found = filled(control, 35)
    before, totals = list(found.lines()), found.totals()
    assert close_all(found) == 3
    assert len(list(control.rglob("*.jsonl.gz"))) == 3
    assert [p.name for p in control.rglob("*.jsonl")] == ["00000003.jsonl"]
    assert list(found.lines()) == before
    assert found.totals() == totals
    assert (totals.all.batches, totals.all.arrived, totals.all.kept, totals.all.shed) == (
        35,
        3500,
        1400,
        2100,
    )
    assert totals.all.kinds == {"gate": 35}
    assert (totals.all.first_at, totals.all.last_at) == (BEGAN, BEGAN + 34)
    assert close_all(found) == 0


def test_a_ledger_of_0_1_0_is_read_as_it_is_and_can_be_closed(control: Path) -> None:
    """Plain files of one JSON object a line, with no summary, no totals."""
    folder = control / "gates" / "g" / "queries" / "q" / "ledger"
    folder.mkdir(parents=True)
    for segment in range(3):
        lines = [json.dumps(record(b).to_json()) for b in range(10 * segment, 10 * segment + 10)]
        (folder / f"{segment:08d}.jsonl").write_text("\n".join(lines) + "\n")
    found = Ledger(control, "g", "q")
    before = found.records()
    assert list(before) == list(range(30))
    assert found.last() == record(29)
    assert close_all(found) == 2
    assert found.records() == before
    assert found.totals().all.batches == 30


def test_late_lines_go_to_a_part_of_their_own_and_count_once(control: Path) -> None:
    found = filled(control, 25)
    close_all(found)
    found.append(record(3, kept=50, shed=50))  # recounted
    assert found.records()[3].kept == 50
    assert found.record(3) == record(3, kept=50, shed=50)
    assert (found.totals().all.batches, found.totals().all.kept) == (25, 25 * 40 + 10)
    now = next(control.rglob("00000000.jsonl")).stat().st_mtime
    assert not found.close_one(now + 60.0), "it may get more"
    assert found.close_one(now + 3600.0)
    assert [r.batch for r in found.lines(0, 9)] == [*range(10), 3]
    assert found.records()[3].kept == 50
    assert (found.totals().all.batches, found.totals().all.kept) == (25, 25 * 40 + 10)


def test_records_expire_and_their_sums_stay(control: Path) -> None:
    found = filled(control, 45)
    close_all(found)
    all_time = found.totals().all
    assert found.expire(BEGAN + 25) == 2, "the third segment's last batch began at 29"
    assert list(found.records()) == list(range(20, 45))
    assert found.record(19) is None
    totals = found.totals()
    assert totals.all == all_time
    assert (totals.expired.batches, totals.expired.shed, totals.begins) == (20, 1200, 20)
    assert found.begins() == 20
    assert found.expire(BEGAN + 1e9) == 2, "the open segment never expires"
    assert list(found.records()) == list(range(40, 45))
    assert found.totals().all == all_time
    (verdict,) = audit(control)
    assert (verdict.batches, verdict.records_from, verdict.expired["batches"]) == (5, 40, 40)


def test_segments_expire_in_order_also_behind_a_batch_that_was_counted_again(control: Path) -> None:
    """A recount does not say when its batch began; what comes behind it is no hole in the books."""
    found = filled(control, 45)
    close_all(found)
    found.append(record(3, kept=50, shed=50, started_at=0.0))
    close_all(found, 4e9)  # long after the segments behind it have expired
    assert found.expire(BEGAN + 25) == 2
    assert found.begins() == 20
    found.append(record(21, started_at=BEGAN + 1e5))  # as in a query whose checkpoint was rolled back
    close_all(found, 4e9)
    assert found.expire(BEGAN + 39) == 0, "what is behind a younger segment waits for it"
    (verdict,) = audit(control)
    assert (verdict.records_from, verdict.missing) == (20, [])


def test_a_reader_misses_nothing_that_was_set_aside_behind_its_listing(control: Path) -> None:
    found = filled(control, 15)
    files = Segments(control / "gates" / "g" / "queries" / "q" / "ledger")
    listed = files.listing()
    files.set_aside(0, 1)
    found.append(record(3, kept=50, shed=50))  # a new file of the old name
    assert len(list(files.values(0, listed))) == 11


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True])
def test_a_kill_at_any_step_of_closing_loses_and_doubles_nothing(tmp_path: Path, late: bool) -> None:
    for number in range(1, 60):
        control = tmp_path / str(number)
        found = filled(control, 25)
        if late:
            close_all(found)
            found.append(record(3, kept=50, shed=50))
        before, totals = list(found.lines()), found.totals()
        killed = killed_at(number, lambda f=found: close_all(f, BEGAN * 2))  # type: ignore[misc]
        assert list(found.lines()) == before
        assert found.totals() == totals
        close_all(found, BEGAN * 2)
        assert list(found.lines()) == before
        assert found.totals() == totals
        assert not list(control.rglob("*.closing"))
        if not killed:
            break
    else:
        pytest.fail("it was always killed")


@pytest.mark.slow
def test_a_kill_at_any_step_of_expiring_counts_all_once(tmp_path: Path) -> None:
    for number in range(1, 60):
        control = tmp_path / str(number)
        found = filled(control, 35)
        close_all(found)
        all_time = found.totals().all
        killed = killed_at(number, lambda f=found: f.expire(BEGAN + 25))  # type: ignore[misc]
        assert found.totals().all == all_time
        found.expire(BEGAN + 25)
        assert list(found.records()) == list(range(20, 35))
        totals = found.totals()
        assert totals.all == all_time
        assert (totals.expired.batches, totals.expired.arrived) == (20, 2000)
        if not killed:
            break
    else:
        pytest.fail("it was always killed")


def test_readers_miss_and_double_nothing_while_segments_close(control: Path) -> None:
    found, reader = Ledger(control, "g", "q"), Ledger(control, "g", "q")
    done = threading.Event()
    written = -1

    def write() -> None:
        nonlocal written
        for batch in range(150):
            found.append(record(batch))
            written = batch
        done.set()

    def close() -> None:
        closing = Ledger(control, "g", "q")
        while not done.is_set():
            closing.close_one(BEGAN)

    threads = [threading.Thread(target=write), threading.Thread(target=close)]
    for thread in threads:
        thread.start()
    reads = 0
    while not done.is_set() or reads == 0:
        least = written
        batches = [r.batch for r in reader.lines()]
        assert batches == sorted(set(batches)), "none twice"
        assert batches[: least + 1] == list(range(least + 1)), "none missing"
        last = reader.last()
        assert last is None or last.batch >= least
        reads += 1
    for thread in threads:
        thread.join()
    assert list(reader.records()) == list(range(150))


@pytest.mark.parametrize("missed", [True, False])
def test_a_line_appended_while_its_file_is_set_aside_is_there_once(
    control: Path, monkeypatch: pytest.MonkeyPatch, missed: bool
) -> None:
    found = filled(control, 15)
    files = Segments(control / "gates" / "g" / "queries" / "q" / "ledger")
    real, calls = os.fsync, []

    def fsync(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 1:  # the line is written, and not yet said to be on disk
            aside = files.folder / files.set_aside(1, 1).closing
            if missed:  # whoever compresses it read it before the line came
                aside.write_bytes(b"".join(aside.read_bytes().splitlines(True)[:-1]))
        real(handle)

    with monkeypatch.context() as patched:
        patched.setattr(segments.os, "fsync", fsync)
        found.append(record(15))
    assert [r.batch for r in found.lines()] == list(range(16))
    close_all(found)
    assert [r.batch for r in found.lines()] == list(range(16))


def test_a_damaged_file_costs_what_is_in_it_and_is_told(control: Path) -> None:
    found = filled(control, 25)
    close_all(found)
    path = next(control.rglob("00000000.*.gz"))
    path.write_bytes(path.read_bytes()[:-40])
    read = Ledger(control, "g", "q")
    assert set(range(10, 25)) <= set(read.records())
    assert list(read.damaged) == [path.name]
    (verdict,) = audit(control)
    assert path.name in verdict.damaged
    assert not verdict.balanced


def test_damaged_sums_are_made_again_from_the_parts(control: Path) -> None:
    found = filled(control, 25)
    close_all(found)
    before = found.totals().all
    next(control.rglob("totals.json")).write_text('{"v":1,')
    assert Ledger(control, "g", "q").totals().all == before


def test_a_closed_file_begins_with_its_summary_and_is_text_inside(control: Path) -> None:
    close_all(filled(control, 15))
    with gzip.open(next(control.rglob("*.gz")), "rt") as file:
        head, *lines = map(json.loads, file)
    assert (head["own"]["batches"], head["own"]["first_batch"], head["own"]["last_batch"]) == (10, 0, 9)
    assert [line["batch"] for line in lines] == list(range(10))


def test_new_names_are_synced(control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(segments, "sync_folder", synced.append)
    monkeypatch.setattr(durable, "sync_folder", synced.append)
    found = Ledger(control, "g", "q")
    found.append(record(0))
    folder = control / "gates" / "g" / "queries" / "q" / "ledger"
    assert folder in synced
    assert folder.parent in synced, "the folder was made, too"
    synced.clear()
    found.append(record(1))
    assert not synced, "a line in a file that is there needs no more than the file"


# ------------------------------------------------------------------------------------ a long ledger


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300,000 batches, one a second."""
    folder = tmp_path_factory.mktemp("long")
    write_books(folder, "g", "q", 300_000, began=BEGAN)
    return folder


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Segments whose records are read."""
    numbers: list[int] = []
    real = Segments.lines

    def lines(self: Segments, segment: int, *given: object) -> list[bytes]:
        numbers.append(segment)
        return real(self, segment, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Segments, "lines", lines)
    return numbers


@pytest.mark.real_size
def test_what_is_asked_of_some_batches_reads_their_segments_alone(long: Path, read: list[int]) -> None:
    found = Ledger(long, "g", "q")
    last = found.last()
    assert last is not None
    assert last.batch == 299_999
    assert [r.batch for r in found.tail(3)] == [299_997, 299_998, 299_999]
    assert set(read) == {59}
    read.clear()
    one = found.record(123_456)
    assert one is not None
    assert (one.batch, one.started_at) == (123_456, BEGAN + 123_456)
    assert read == [24]
    read.clear()
    assert list(found.records(4_998, 5_001)) == [4_998, 4_999, 5_000, 5_001]
    assert read == [0, 1]
    read.clear()
    assert found.settled({7, 150_000, 400_000}) == {7, 150_000}
    assert sorted(read) == [0, 30]
    read.clear()
    totals = found.totals()
    assert (totals.all.batches, totals.all.arrived, totals.all.shed) == (
        300_000,
        300_000_000,
        180_000_000,
    )
    assert read == [59], "the open one"


@pytest.mark.real_size
def test_a_span_of_time_is_found_by_halving(long: Path, read: list[int]) -> None:
    found = Ledger(long, "g", "q")
    assert found.span(BEGAN + 1000.5, BEGAN + 2000.5) == (1001, 2000)
    assert found.span(None, BEGAN + 9_999.0) == (0, 9_999)
    assert found.span(BEGAN + 299_000.0, None) == (299_000, 299_999)
    first, last = found.span(BEGAN + 1e6, BEGAN + 2e6)
    assert first > last
    assert len(read) < 12


@pytest.mark.real_size
def test_an_audit_of_a_span_reads_that_span(long: Path, read: list[int]) -> None:
    (verdict,) = audit(long, first=100_100, last=100_199)
    assert (verdict.batches, verdict.arrived, verdict.complete) == (100, 100_000, True)
    assert set(read) == {20, 59}


def test_bytes_that_a_loss_of_power_left_cost_no_other_record(control: Path) -> None:
    found = filled(control, 5)
    path = next(control.rglob("*.jsonl"))
    path.write_bytes(path.read_bytes() + b"\x00" * 300 + b"\xff\xfe")
    found.append(record(5))
    assert [r.batch for r in found.lines()] == list(range(6))
    assert found.last() == record(5)
    assert found.totals().all.batches == 6
    assert found.settled({4, 5, 6}) == {4, 5}
