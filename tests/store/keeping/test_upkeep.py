"""What keeps a control folder small: done aside, in small steps, and never to a query that lives."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headgate.cli import main
from headgate.core.load import LoadSample
from headgate.core.plan import KEEP_ALL, Plan
from headgate.errors import BadArgument
from headgate.policies import Uniform
from headgate.run.gate_report import BatchReport
from headgate.run.gate_run import GateRun
from headgate.run.gate_spec import GateSpec
from headgate.settings import GateSettings
from headgate.store.keeping import upkeep as upkeep_module
from headgate.store.keeping.crew import Crew
from headgate.store.keeping.pruning import pruned
from headgate.store.keeping.upkeep import Upkeep, ended_queries
from headgate.store.ledger.records import Ledger, Record, queries_of
from headgate.store.ledger.segments import SEGMENT, Segments
from headgate.store.places.place import ObjectPath
from headgate.store.places.stores import store_of
from headgate.store.plans import KEPT_PINS, PinnedPlan, PlanStore
from headgate.store.settings_file import SettingsFile
from headgate.testing.clock import ManualClock
from headgate_lab.bench.year.books import write_books
from tests.harness.object_stores import memory as memory

OPEN = PinnedPlan(KEEP_ALL, "fail-open")
DAY = 86_400.0


def _pin(control: Path, batches: range, query: str = "q") -> PlanStore:
    store = PlanStore(control, "g", query)
    for batch in batches:
        store.pin_to(batch, OPEN)
    return store


def test_pins_are_pruned_by_what_the_run_knows_and_no_record_is_read(
    control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _pin(control, range(KEPT_PINS + 40))
    found = Upkeep(control, "g", "q")
    monkeypatch.setattr(Crew, "ask", lambda self, control=None: None)
    for batch in range(KEPT_PINS + 40):
        if batch != 3:
            found.after(batch, math.inf)
    read: list[int] = []
    real = Segments.lines
    monkeypatch.setattr(Segments, "lines", lambda self, n, *o: (read.append(n), real(self, n, *o))[1])
    found.run()
    assert store.pinned_batches() == [3, *range(40, KEPT_PINS + 40)]
    assert read == [], "the ledger has no file: batch 3 has no record"


def test_pins_of_an_earlier_run_are_looked_up_once(
    control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_books(control, "g", "q", 2 * SEGMENT + 100, began=1e9)
    store = _pin(control, range(SEGMENT, SEGMENT + 20))
    _pin(control, range(2 * SEGMENT + 50, 2 * SEGMENT + 50 + KEPT_PINS))
    lost = 3 * SEGMENT - 1  # no record of it, nor of those behind 2 * SEGMENT + 100
    _pin(control, range(lost, lost + 1))
    found = Upkeep(control, "g", "q")
    found.retention_s = math.inf
    read: list[int] = []
    real = Segments.lines
    monkeypatch.setattr(Segments, "lines", lambda self, n, *o: (read.append(n), real(self, n, *o))[1])
    found.run()
    assert store.pinned_batches()[0] == 2 * SEGMENT + 51
    assert set(read) <= {1, 2}
    read.clear()
    found.run()
    assert read == []


def test_pins_without_a_record_are_kept_up_to_a_bound(
    control: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upkeep_module, "MOST_UNSETTLED", 5)
    store = _pin(control, range(KEPT_PINS + 30))
    Upkeep(control, "g", "q").run()
    assert store.pinned_batches() == list(range(25, KEPT_PINS + 30))
    assert "have no record" in caplog.text


def test_pins_without_a_record_go_when_the_records_around_them_expire(control: Path) -> None:
    clock = ManualClock()
    write_books(control, "g", "q", 3 * SEGMENT + 10, began=clock() - 3 * SEGMENT)
    path = Segments(control / "gates" / "g" / "queries" / "q" / "ledger").plain(3)
    path.write_text("".join(line for line in path.read_text().splitlines(True)[:5]))
    store = _pin(control, range(3 * SEGMENT, 3 * SEGMENT + KEPT_PINS))
    store.pin_to(SEGMENT // 2, OPEN)  # has a record, which expires first
    found = Upkeep(control, "g", "q", clock)
    found.retention_s = 2.5 * SEGMENT
    found.run()
    assert Ledger(control, "g", "q").begins() == 0
    clock.sleep(DAY)
    found.run()
    assert Ledger(control, "g", "q").begins() == 3 * SEGMENT
    assert store.pinned_batches()[0] == 3 * SEGMENT


def test_the_loops_thread_does_none_of_it(control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handling a batch never lists, reads or removes what is old: another thread does."""
    seen: list[str] = []
    real = Upkeep.step

    def step(self: Upkeep) -> bool:
        seen.append(threading.current_thread().name)
        return real(self)

    monkeypatch.setattr(Upkeep, "step", step)
    monkeypatch.setattr(Ledger, "records", lambda *_: pytest.fail("the whole ledger was read"))
    settings = GateSettings(rate=0.5)
    SettingsFile(control, "g").declare(settings)
    run = GateRun(GateSpec("g", control, settings, Uniform()), "q")
    store = PlanStore(control, "g", "q")
    store.beat()
    for batch in range(KEPT_PINS + 51):
        store.pin(batch, OPEN)
        run.handle(BatchReport(query="q", sample=LoadSample(batch, 1e9, 1.0, 10, 5), weight=2.0))
    done = threading.Event()
    for _ in range(600):
        if len(store.pinned_batches()) <= KEPT_PINS + 1:
            break
        done.wait(0.05)
    assert len(store.pinned_batches()) <= KEPT_PINS + 1
    assert set(seen) == {"headgate-upkeep"}


def test_a_year_of_segments_is_worked_off_one_a_step(control: Path) -> None:
    clock = ManualClock()
    write_books(control, "g", "q", 12 * SEGMENT, began=clock() - 12 * SEGMENT)
    found = Upkeep(control, "g", "q", clock)
    found.retention_s = 5.5 * SEGMENT
    ledger = Ledger(control, "g", "q")
    before = ledger.totals().all
    begins = []
    while found.step():
        begins.append(ledger.begins())
    assert begins[:6] == [n * SEGMENT for n in range(1, 7)]
    assert ledger.totals().all == before


def test_two_processes_do_not_work_at_one_ledger(control: Path) -> None:
    write_books(control, "g", "q", 3 * SEGMENT, began=1e9)
    found = Upkeep(control, "g", "q")
    found.retention_s = DAY
    with found._turns.taken() as taken:
        assert taken
        assert not Upkeep(control, "g", "q").step()
    assert found.step()


# ----------------------------------------------------------------------------------- ended queries


def _query(control: Path, query: str, age_s: float, now: float) -> Path:
    _pin(control, range(2), query)
    Ledger(control, "g", query).append(Record("g", query, 0, 1, 1, 0, KEEP_ALL))
    folder = control / "gates" / "g" / "queries" / query
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (now - age_s, now - age_s))
    return folder


def test_folders_of_ended_queries_go_after_the_retention_and_no_others(control: Path) -> None:
    clock = ManualClock()
    old = _query(control, "ended-long-ago", 8 * DAY, clock())
    _query(control, "ended-lately", 6 * DAY, clock())
    own = _query(control, "own", 30 * DAY, clock())
    idle = _query(control, "idle", 30 * DAY, clock())
    writing = _query(control, "writing", 30 * DAY, clock())
    os.utime(next((writing / "ledger").iterdir()), (clock(), clock()))
    (control / "gates" / "g" / "lessons" / "ended-long-ago").mkdir(parents=True)
    lives = Upkeep.of_run(control, "g", "idle", 7 * DAY, clock)
    mine = Upkeep(control, "g", "own", clock)
    mine.retention_s = 7 * DAY
    mine.run()
    assert not old.exists()
    assert not (control / "gates" / "g" / "lessons" / "ended-long-ago").exists()
    assert own.is_dir()
    assert idle.is_dir(), "it runs in this process, and waits for rows"
    assert queries_of(control, "g") == ["ended-lately", "idle", "own", "writing"]
    assert not list((control / "gates" / "g" / "queries").glob(".*"))
    assert lives.owner[2] == "idle"


def test_a_clock_that_is_a_month_ahead_removes_no_query_that_lives(control: Path) -> None:
    """Files have their times from whoever keeps them, and that is not the clock that is wrong."""
    SettingsFile(control, "g").declare(GateSettings(hold=2))
    store_time, ahead = time.time(), ManualClock(time.time() + 30 * DAY)
    living = _query(control, "living", 0.0, store_time)
    ended = _query(control, "ended", 8 * DAY, store_time)
    _query(control, "own", 0.0, store_time)
    mine = Upkeep(control, "g", "own", ahead)
    mine.retention_s = 7 * DAY
    mine.run()
    assert living.is_dir()
    assert not ended.exists()
    assert pruned(control, "g", dry_run=False, clock=ahead)["ended"] == []
    assert living.is_dir()


def test_a_query_that_begins_again_while_folders_are_looked_at_keeps_its_own(
    control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    back = _query(control, "back", 30 * DAY, clock())
    begun: list[Upkeep] = []

    def look(*given: Any) -> list[str]:
        found = ended_queries(*given)
        begun.append(Upkeep.of_run(control, "g", "back", 7 * DAY, clock))
        return found

    monkeypatch.setattr(upkeep_module, "ended_queries", look)
    mine = Upkeep(control, "g", "own", clock)
    mine.retention_s = 7 * DAY
    _query(control, "own", 0.0, clock())
    mine.run()
    assert begun
    assert back.is_dir()


def test_an_idle_query_leaves_word_that_it_lives(control: Path) -> None:
    clock = ManualClock()
    _query(control, "idle", 30 * DAY, clock())
    before = clock() - 7 * DAY
    assert ended_queries(control, "g", before, set()) == ["idle"]
    Upkeep(control, "g", "idle", clock).mark_alive()
    assert ended_queries(control, "g", before, set()) == []


def test_what_killed_processes_left_unfinished_is_removed(control: Path) -> None:
    folder = _query(control, "q", 0.0, 1e9)
    pins = folder / "pins"
    left = [pins / ".000000000007.json.0a1b", folder / ".plan.json.77", folder / "ledger" / ".x.gz.1"]
    for path in left:
        path.write_text("half")
        os.utime(path, (1e9, 1e9))
    (pins / ".000000000001.json.claim").mkdir()
    (pins / ".000000000001.json.claim" / "value.json").write_text("1")
    os.utime(pins / ".000000000001.json.claim", (1e9, 1e9))
    young = pins / ".000000000008.json.ab"
    young.write_text("somebody is at it")
    Upkeep(control, "g", "q", ManualClock(1e9)).run()
    assert not any(path.exists() for path in left)
    assert young.exists()
    assert (pins / ".000000000001.json.claim").is_dir(), "its pin is there"


# ---------------------------------------------------------------------------------------- settings


def test_retention_is_a_setting_that_can_change_live(control: Path) -> None:
    SettingsFile(control, "g").declare(GateSettings(hold=2))
    run = CliRunner().invoke
    assert GateSettings(hold=2).retention_s == 7 * DAY
    assert "records kept 7 days" in run(main, ["status", str(control)]).output
    result = run(main, ["set", str(control), "g", "--retention", "30 days"])
    assert (result.exit_code, "records kept 30 days" in result.output) == (0, True)
    assert SettingsFile(control, "g").effective().retention_s == 30 * DAY
    run(main, ["set", str(control), "g", "--retention", "forever"])
    assert SettingsFile(control, "g").effective().retention_s == math.inf
    shown = json.loads(run(main, ["status", str(control), "--json"]).output)
    assert shown["gates"][0]["retention"] == "forever"
    run(main, ["set", str(control), "g", "--reset"])
    assert SettingsFile(control, "g").effective() == GateSettings(hold=2.0)


@pytest.mark.parametrize("value", ["a week", 0, -1, "10 minutes", None, True])
def test_what_is_no_retention_is_refused(value: object) -> None:
    with pytest.raises(BadArgument, match=r"retention=.*hour"):
        GateSettings(hold=2, retention=value)  # type: ignore[arg-type]


def test_a_settings_file_of_0_1_0_has_the_default(control: Path) -> None:
    value = GateSettings(hold=2).to_json()
    del value["retention"]
    assert GateSettings.from_json(value).retention_s == 7 * DAY


def test_a_run_takes_up_a_changed_retention(control: Path) -> None:
    settings = GateSettings(rate=0.5)
    SettingsFile(control, "g").declare(settings)
    run = GateRun(GateSpec("g", control, settings, Uniform()), "q")
    SettingsFile(control, "g").change(retention="2 days")
    run.handle(BatchReport(query="q", sample=LoadSample(1, 1e9, 1.0, 10, 5), weight=2.0))
    assert run.upkeep.retention_s == 2 * DAY


def test_a_run_that_waits_for_its_first_batch_keeps_what_it_was_told_to(control: Path) -> None:
    write_books(control, "g", "q", 2 * SEGMENT, began=1e9)
    ended = _query(control, "ended", 30 * DAY, 1e9 + 30 * DAY)
    settings = GateSettings(rate=0.5, retention="forever")
    run = GateRun(GateSpec("g", control, settings, Uniform()), "q", ManualClock(1e9 + 30 * DAY))
    run.upkeep.run()
    assert Ledger(control, "g", "q").begins() == 0
    assert ended.is_dir()


def test_what_people_set_holds_before_anybody_looks_at_the_records(
    control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, given = GateSettings(rate=0.5), []
    SettingsFile(control, "g").declare(settings)
    SettingsFile(control, "g").change(retention="forever")
    of_run = Upkeep.of_run
    monkeypatch.setattr(Upkeep, "of_run", lambda *a, **k: given.append(a[3]) or of_run(*a, **k))
    GateRun(GateSpec("g", control, settings, Uniform()), "q")
    assert given == [math.inf]


def test_a_retention_that_changes_between_batches_holds_at_once(control: Path) -> None:
    settings = GateSettings(rate=0.5)
    SettingsFile(control, "g").declare(settings)
    run = GateRun(GateSpec("g", control, settings, Uniform()), "q")
    SettingsFile(control, "g").change(retention="forever")
    run.refresh()
    assert run.upkeep.retention_s == math.inf


# --------------------------------------------------------------------------------------- commands


def test_prune_by_hand_says_what_it_would_do_and_does_it(control: Path) -> None:
    clock = ManualClock()
    SettingsFile(control, "g").declare(GateSettings(hold=2, retention="1 day"))
    write_books(control, "g", "q", 4 * SEGMENT, began=clock() - DAY - 2.5 * SEGMENT)
    ended = _query(control, "ended", 2 * DAY, clock())
    would = pruned(control, "g", dry_run=True, clock=clock)
    assert would == {"gate": "g", "compressed": 0, "expired": 2, "pins": 0, "ended": ["ended"]}
    assert ended.is_dir()
    assert Ledger(control, "g", "q").begins() == 0
    assert pruned(control, "g", dry_run=False, clock=clock) == would
    assert not ended.exists()
    assert Ledger(control, "g", "q").begins() == 2 * SEGMENT
    totals = Ledger(control, "g", "q").totals()
    assert (totals.all.batches, totals.expired.batches) == (4 * SEGMENT, 2 * SEGMENT)


def test_the_commands_tell_of_what_expired(control: Path) -> None:
    SettingsFile(control, "g").declare(GateSettings(hold=2, retention="1 day"))
    write_books(control, "g", "q", 3 * SEGMENT, began=1e9)
    run = CliRunner().invoke
    result = run(main, ["ledger", "prune", str(control), "--dry-run"])
    assert (result.exit_code, "2 expired" in result.output) == (0, True), result.output
    assert "nothing was changed" in result.output
    result = run(main, ["ledger", "prune", str(control), "--json"])
    assert json.loads(result.output)["gates"][0]["expired"] == 2
    result = run(main, ["ledger", "verify", str(control)])
    assert result.exit_code == 0
    assert "records from batch 10,000 on; 10,000 batches before have expired" in result.output
    assert "10,000,000 arrived = 4,000,000 kept + 6,000,000 shed" in result.output
    result = run(main, ["status", str(control)])
    assert "in all 15,000 batches, 15,000,000 arrived" in result.output
    assert "records from batch 10,000 on" in result.output
    result = run(main, ["ledger", "show", str(control), "--last", "2"])
    assert "2 of 15000 batches" in result.output


def test_a_span_is_verified_by_number_and_by_time(control: Path) -> None:
    write_books(control, "g", "q", 2 * SEGMENT + 100, began=1e9)

    def batches(*options: str) -> int:
        result = CliRunner().invoke(main, ["ledger", "verify", str(control), "--json", *options])
        assert result.exit_code == 0, result.output
        return int(json.loads(result.output)["audits"][0]["batches"])

    assert batches("--first", "100", "--last", "299") == 200
    assert batches("--since", "2001-09-09T01:46:40+00:00", "--until", "2001-09-09T01:47:39+00:00") == 60
    assert batches("--since", "1 hour") == 0
    result = CliRunner().invoke(main, ["ledger", "verify", str(control), "--since", "soon"])
    assert (result.exit_code, "--since 'soon' is no time" in result.output) == (2, True)


def test_a_plan_that_was_lost_is_shown(control: Path) -> None:
    SettingsFile(control, "g").declare(GateSettings(hold=2))
    record = Record("g", "q", 3, 10, 5, 5, Plan(0.5), origin="lost-plan")
    Ledger(control, "g", "q").append(record)
    assert "(lost-plan)" in CliRunner().invoke(main, ["ledger", "show", str(control)]).output


def test_in_an_object_store_a_look_waits_for_fifty_batches_or_an_hour(
    memory: ObjectPath, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look there is some twenty requests, and hundreds of gates would look every minute."""
    now = [1e9]
    asked: list[object] = []
    monkeypatch.setattr(Crew, "take_on", lambda self, upkeep: None)
    monkeypatch.setattr(Crew, "ask", lambda self, control=None: asked.append(control))
    found = Upkeep.of_run(memory, "g", "q", math.inf, lambda: now[0])
    for batch in range(49):
        found.after(batch, math.inf)
        assert not found.begin_pass(asked=False)
    assert not asked
    found.after(49, math.inf)
    assert asked == [memory]
    assert found.begin_pass(asked=True)
    assert not found.begin_pass(asked=True), "it was looked at"
    found.pass_failed()
    assert found.begin_pass(asked=True), "again, if that failed"
    now[0] += 3601.0
    assert found.begin_pass(asked=False)
    folder = Upkeep.of_run(control, "g", "q", math.inf, lambda: now[0])
    assert folder.begin_pass(asked=False), "a look into a folder costs nothing"
    assert not folder.begin_pass(asked=True), "but nobody has asked for this one"


def test_a_gate_whose_batches_say_that_it_lives_leaves_no_mark_of_it(memory: ObjectPath) -> None:
    found = Upkeep(memory, "g", "q")
    mark = memory / "gates" / "g" / "queries" / "q" / "alive.json"
    found.after(0, math.inf)
    found.mark_alive()
    assert store_of(mark).get(mark) is None
    found.mark_alive()
    assert store_of(mark).get(mark) is not None, "no batch since"
