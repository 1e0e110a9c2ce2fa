"""One gate in one query, without Spark: reports in, plans and records out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headgate import Budget, FixedRate, GroupRates, GroupStats, LoadSample, Policy, Uniform, ValueClasses
from headgate.core.cold_start import COLD_BATCHES
from headgate.core.load import ReadLimit
from headgate.core.offer import Offer
from headgate.core.plan import KEEP_ALL, Plan
from headgate.core.witness import Witness
from headgate.run.gate_report import BatchReport
from headgate.run.gate_run import GateRun
from headgate.run.gate_spec import GateSpec
from headgate.settings import GateSettings
from headgate.store.ledger.records import Ledger, Record
from headgate.store.plans import PinnedPlan, PlanStore
from headgate.store.settings_file import SettingsFile
from headgate.testing.clock import ManualClock

OPEN = PinnedPlan(KEEP_ALL, "fail-open")


class Job:
    """A query behind a gate: 0.25 s a batch and 75 microseconds a kept row, 50,000 rows a batch."""

    def __init__(
        self, control: Path, settings: GateSettings, policy: Policy | None = None, **spec: Any
    ) -> None:
        self.clock = ManualClock()
        self.control = control
        SettingsFile(control, "g").declare(settings)
        self.spec = GateSpec("g", control, settings, policy or Uniform(), **spec)
        self.store = PlanStore(control, "g", "q", self.clock)
        self.run = GateRun(self.spec, "q", self.clock)
        self.batch = 0

    def restart(self) -> None:
        self.run = GateRun(self.spec, "q", self.clock)

    def step(self, arrived: int = 50_000, counts: Mapping[int, int] | None = None) -> Record | None:
        """One batch as Spark would run it: pin, filter, report."""
        self.store.beat()
        plan = self.store.pin(self.batch, OPEN).plan
        kept = round(arrived * plan.default)
        sample = LoadSample(self.batch, self.clock(), 0.25 + 0.75e-4 * kept, arrived, kept)
        report = BatchReport(query="q", sample=sample, weight=plan.default_weight, counts=counts or {})
        self.clock.sleep(max(1.0, sample.duration_s))
        self.batch += 1
        return self.run.handle(report)

    def steps(self, count: int, arrived: int = 50_000) -> list[Record]:
        records = [self.step(arrived) for _ in range(count)]
        assert None not in records
        return records  # type: ignore[return-value]

    @property
    def current(self) -> Plan:
        plan = self.store.current()
        assert plan is not None
        return plan


def test_shed_mode_holds_the_target_and_keeps_the_books(control: Path) -> None:
    job = Job(control, GateSettings(hold=1))
    records = job.steps(60)
    assert records[0].kept == 50_000
    assert all(r.duration_s <= 1.0 for r in records[5:])
    assert all(r.balanced and r.origin == "plan" for r in records)
    assert records[-1].state == "shedding"
    assert Ledger(control, "g", "q").records() == {r.batch: r for r in records}


def test_off_mode_keeps_all_and_measures(control: Path) -> None:
    records = Job(control, GateSettings(hold=1, mode="off")).steps(10)
    assert all(r.shed == r.would_shed == 0 and r.mode == "off" for r in records)
    assert all(r.duration_s > 3.9 for r in records)


def test_monitor_mode_keeps_all_and_says_what_it_would_shed(control: Path) -> None:
    job = Job(control, GateSettings(hold=1, mode="monitor"))
    records = job.steps(30)
    assert all(r.shed == 0 and r.kept == 50_000 for r in records)
    assert job.current == KEEP_ALL
    last = records[-1]
    # 10,000 of the 50,000 rows fit. Batches of one size do not tell the fixed price from the rows'.
    assert 0.75 * 50_000 < last.would_shed < 0.98 * 50_000
    assert last.state == "shedding"


def test_what_would_be_shed_is_summed_up_by_class(control: Path) -> None:
    settings = GateSettings(rate=0.4, mode="monitor")
    job = Job(control, settings, ValueClasses(("priority = 'high'",)))
    record = job.step(1000, counts={1: 100})
    assert record is not None
    assert record.would_shed == 600  # 100 of 100, and 300 of 900
    assert record.found.groups == {"1": 100}


def test_a_live_change_holds_from_the_next_batch_on(control: Path) -> None:
    job = Job(control, GateSettings(hold=1))
    job.steps(30)
    people = SettingsFile(control, "g")
    people.change(mode="off")
    job.run.refresh()
    assert job.current == KEEP_ALL
    people.change(mode="shed", rate=0.25)
    job.run.refresh()
    assert job.current == Plan(0.25)
    people.change(hold="2 s")
    records = job.steps(40)
    assert all(r.duration_s <= 2.0 for r in records[10:])
    assert records[-1].duration_s > 1.5
    people.reset()
    assert job.steps(40)[-1].duration_s <= 1.0


def test_a_tighter_target_goes_on_from_what_was_learned(control: Path) -> None:
    job = Job(control, GateSettings(hold=2))
    job.steps(30)
    SettingsFile(control, "g").change(hold=1)
    assert all(r.duration_s <= 1.0 for r in job.steps(20)[1:])


def test_a_change_of_settings_is_no_start(control: Path) -> None:
    job = Job(control, GateSettings(hold=2))
    job.steps(5)
    SettingsFile(control, "g").change(hold=1)
    job.step()
    learned = json.loads((job.store.folder / "controller.json").read_text())
    assert learned["controller"]["start_up"]["batches"] > COLD_BATCHES


@pytest.mark.parametrize("between_batches", [True, False])
@pytest.mark.parametrize("arrived", [50_000, 34_000])
def test_a_target_takes_over_from_the_rate_that_was_held(
    control: Path, arrived: int, between_batches: bool
) -> None:
    job = Job(control, GateSettings(rate=0.25))
    job.steps(5, arrived)
    SettingsFile(control, "g").change(hold=2)
    if between_batches:
        job.run.refresh()
        assert job.current == Plan(0.25)
    assert all(r.duration_s <= 2.0 for r in job.steps(30, arrived)), "no batch went through whole"
    assert all(r.shed == 0 for r in job.steps(30, 1000)[10:]), "and it lets go when all fits"


def test_a_target_takes_over_a_delay_and_its_floor_holds(control: Path) -> None:
    settings = GateSettings(rate=0.01)
    job = Job(control, settings)
    SettingsFile(control, "g").declare(settings, arrival=True)
    job.step()
    SettingsFile(control, "g").change(delay=4, min_keep=0.1)
    job.run.refresh()
    assert job.current == Plan(0.1)


def test_a_rate_that_was_only_watched_was_not_held(control: Path) -> None:
    job = Job(control, GateSettings(rate=0.25, mode="monitor"))
    job.steps(2, 1000)
    SettingsFile(control, "g").change(hold=2, mode="shed")
    job.run.refresh()
    assert job.current == KEEP_ALL


def test_settings_that_cannot_be_read_change_nothing(control: Path) -> None:
    job = Job(control, GateSettings(rate=0.3))
    (control / "gates" / "g" / "overrides.json").write_text("{")
    job.steps(2)
    assert job.current == Plan(0.3)
    (control / "gates" / "g" / "overrides.json").write_text('{"rate": 7}')
    job.steps(2)
    assert job.current == Plan(0.3)


def test_a_restart_goes_on_from_the_snapshot(control: Path) -> None:
    job = Job(control, GateSettings(hold=1), start=0.9)
    before = job.steps(40)[-1]
    job.clock.sleep(5)
    job.restart()
    assert job.current.default < 0.1  # what came meanwhile must fit too
    first, *rest = job.steps(20)
    assert first.duration_s <= 1.0
    assert all(r.duration_s <= 1.0 for r in rest)
    assert rest[5].kept == pytest.approx(before.kept, rel=0.1)


@pytest.mark.parametrize("limit", [ReadLimit(rows=8_000), ReadLimit(files=2)], ids=["rows", "files"])
@pytest.mark.parametrize(
    "settings", [GateSettings(hold=1), GateSettings(delay=4)], ids=["hold", "delay"]
)
def test_a_capped_source_loses_nothing_after_downtime(
    control: Path, settings: GateSettings, limit: ReadLimit
) -> None:
    job = Job(control, settings, limit=limit)
    for number in range(20):
        job.step(1_000 + 1_000 * (number % 4))
    job.clock.sleep(3600)
    job.restart()
    record = job.step(8_000)
    assert record is not None
    assert record.shed == 0


def test_a_snapshot_of_0_1_0_says_nothing_of_caps_and_is_read(control: Path) -> None:
    job = Job(control, GateSettings(hold=1))
    before = job.steps(40)[-1]
    path = job.store.folder / "controller.json"
    learned = json.loads(path.read_text())
    for name in ("ever", "capped"):
        del learned["controller"]["arrivals"][name]
    path.write_text(json.dumps(learned))
    job.restart()
    assert job.steps(10)[-1].kept == pytest.approx(before.kept, rel=0.1)


def test_the_first_batch_of_a_query_without_history_keeps_start(control: Path) -> None:
    job = Job(control, GateSettings(hold=1), start=0.2)
    assert job.current == Plan(0.2)
    first, second = job.steps(2)
    assert first.kept == 10_000
    assert second.state in ("idle", "shedding")


@pytest.mark.parametrize("bad", ["{", "[]", '{"fit": 3}', '{"fit": {}}', "null", '"x"'])
def test_a_corrupt_snapshot_is_a_fresh_start(control: Path, bad: str) -> None:
    job = Job(control, GateSettings(hold=1), start=0.7)
    job.steps(20)
    (job.store.folder / "controller.json").write_text(bad)
    job.restart()
    assert job.current == Plan(0.7)
    assert job.steps(20)[-1].duration_s <= 1.0


HIGH = ValueClasses(("priority = 'high'",))


def test_a_restart_knows_the_shares_of_the_classes(control: Path) -> None:
    job = Job(control, GateSettings(rate=0.4), HIGH)
    job.step(1000, counts={1: 100})
    before = job.current
    assert before.rate_of(1) == 1.0
    assert before.default == pytest.approx(300 / 900)
    job.restart()
    assert job.current == before


@pytest.mark.parametrize(
    "concept", [None, 3, {}, {"classes": ["vip"], "counts": [[1, 100]], "total": 1000}, {"counts": "x"}]
)
def test_shares_that_are_missing_or_of_other_classes_are_passed_over(
    control: Path, concept: object
) -> None:
    job = Job(control, GateSettings(rate=0.4), HIGH)
    fresh = job.current
    job.step(1000, counts={1: 100})
    path = job.store.folder / "controller.json"
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({**stored, "concept": concept}))
    job.restart()
    assert job.current == fresh


def test_the_snapshot_of_an_older_headgate_is_read(control: Path) -> None:
    job = Job(control, GateSettings(hold=1), start=0.9)
    job.steps(40)
    path = job.store.folder / "controller.json"
    path.write_text(json.dumps(json.loads(path.read_text())["controller"]))
    job.restart()
    assert job.current.default < 0.5, "it is no fresh start"


def test_a_persons_own_controller_is_used(control: Path) -> None:
    job = Job(control, GateSettings(hold=1), controller=FixedRate(0.123))
    assert job.steps(2)[-1].plan == Plan(0.123)


@pytest.mark.parametrize("how", ["gone", "a file", "gone for good"])
def test_a_folder_that_vanishes_does_not_stop_the_query(control: Path, how: str) -> None:
    job = Job(control, GateSettings(hold=1))
    job.steps(5)
    shutil.rmtree(control)
    if how == "a file":
        control.write_text("in the way")
    for batch in range(5, 8):
        if how == "gone for good":
            shutil.rmtree(control, ignore_errors=True)
        sample = LoadSample(batch, job.clock(), 4.0, 50_000, 50_000)
        record = job.run.handle(BatchReport(query="q", sample=sample, weight=1.0))
        job.run.refresh()
        job.clock.sleep(4)
        assert record is not None
        assert (record.origin, record.plan) == ("fail-open", KEEP_ALL)


@pytest.mark.parametrize("junk", ["{", "{}", "[]", '{"plan": 3, "origin": "plan"}'])
def test_a_pin_that_cannot_be_read_does_not_stop_the_query(control: Path, junk: str) -> None:
    job = Job(control, GateSettings(rate=0.5))
    job.step()
    (pin,) = (job.store.folder / "pins").glob("*.json")
    pin.with_name(f"{1:012d}.json").write_text(junk)
    sample = LoadSample(1, job.clock(), 1.0, 1000, 10)
    record = job.run.handle(BatchReport(query="q", sample=sample, weight=100.0))
    assert record is not None
    assert record.origin == "fail-closed"
    assert record.plan.default == pytest.approx(0.01)


def test_a_batch_is_handled_once(control: Path) -> None:
    job = Job(control, GateSettings(hold=1))
    job.steps(3)
    sample = LoadSample(1, job.clock(), 1.0, 10, 10)
    assert job.run.handle(BatchReport(query="q", sample=sample, weight=1.0)) is None
    assert [r.batch for r in Ledger(control, "g", "q").lines()] == [0, 1, 2]


def test_rows_that_met_another_plan_than_the_pinned_are_booked_as_they_were(control: Path) -> None:
    """The worker lost the folder after the pin was written, and failed open."""
    job = Job(control, GateSettings(rate=0.5))
    job.store.beat()
    job.store.pin(0, OPEN)
    sample = LoadSample(0, job.clock(), 1.0, 1000, 1000)
    record = job.run.handle(BatchReport(query="q", sample=sample, weight=1.0))
    assert record is not None
    assert (record.plan, record.origin) == (KEEP_ALL, "fail-open")


def test_an_empty_batch_has_no_weight_and_its_pin_is_believed(control: Path) -> None:
    job = Job(control, GateSettings(rate=0.5))
    job.store.beat()
    job.store.pin(0, OPEN)
    record = job.run.handle(BatchReport(query="q", sample=LoadSample(0, job.clock(), 0.1, 0, 0)))
    assert record is not None
    assert (record.plan, record.origin) == (Plan(0.5), "plan")


def test_old_pins_are_pruned_on_the_way_but_not_of_batches_without_a_record(control: Path) -> None:
    job = Job(control, GateSettings(rate=0.5))
    job.store.beat()
    for batch in range(251):
        job.store.pin(batch, OPEN)
        if batch != 3:
            sample = LoadSample(batch, job.clock(), 1.0, 10, 10)
            job.run.handle(BatchReport(query="q", sample=sample, weight=1.0))
    job.run.upkeep.run()
    assert job.store.pinned_batches() == [3, *range(51, 251)]


def test_what_a_policy_would_never_keep_is_no_load(control: Path) -> None:
    policy = GroupRates("level", {"DEBUG": 0.01}, default=0.5)
    job = Job(control, GateSettings(hold=1), policy, keys={"DEBUG": 9})
    # 400,000 rows would take 30 s whole; the policy's own maxima leave 4,000 of them.
    for batch in range(30):
        sample = LoadSample(batch, job.clock(), 0.55, 400_000, 4_000)
        report = BatchReport(query="q", sample=sample, counts={9: 400_000})
        job.run.handle(report)
        job.clock.sleep(1.0)
    assert job.current == policy.plan(Budget(1.0, "idle"), GroupStats(keys={"DEBUG": 9}))


def test_the_snapshot_on_disk_is_the_controllers(control: Path) -> None:
    job = Job(control, GateSettings(hold=1))
    job.steps(5)
    stored = json.loads((job.store.folder / "controller.json").read_text())
    assert stored["controller"]["cost"]["samples"] == 5


def test_empty_batches_do_not_use_up_the_opening(control: Path) -> None:
    job = Job(control, GateSettings(hold=1), start=0.1)
    assert job.current == Plan(0.1)
    job.step(arrived=0)
    assert job.current == Plan(0.1), "no rows have come yet"
    job.step(arrived=100)
    assert job.current == Plan(1.0), "they fit"


def _count(job: Job, arrived: int, kept: int, **report: Any) -> Record:
    """One batch of which Spark reports these counts."""
    job.store.beat()
    plan = job.store.pin(job.batch, OPEN).plan
    sample = LoadSample(job.batch, job.clock(), 4.0, arrived, kept)
    job.clock.sleep(4.0)
    job.batch += 1
    record = job.run.handle(BatchReport(query="q", sample=sample, weight=plan.default_weight, **report))
    assert record is not None
    return record


def test_a_count_that_the_source_contradicts_is_doubtful_and_teaches_nothing(control: Path) -> None:
    job = Job(control, GateSettings(hold=1), relation="equal")
    before = job.steps(10)[-1]
    plan, learned = job.current, (job.store.folder / "controller.json").read_text()
    record = _count(job, 1, 1, witness=Witness(handed_out=50_001, rereads=True))
    assert "handed out 50,001" in record.evidence.doubt
    assert record.evidence.handed_out == 50_001
    assert job.current == plan
    assert (job.store.folder / "controller.json").read_text() == learned
    assert record.state == before.state
    true = _count(job, 50_000, before.kept, witness=Witness(handed_out=50_000))
    assert (true.evidence.doubt, true.evidence.witness) == ("", "rows")
    assert (job.store.folder / "controller.json").read_text() != learned


def test_a_replay_that_keeps_other_rows_says_so(control: Path) -> None:
    job = Job(control, GateSettings(rate=0.5))
    for batch, fingerprint in enumerate("abc"):
        assert job.batch == batch
        assert _count(job, 100, 50, fingerprint=fingerprint).evidence.doubt == ""
    job.restart()
    job.batch = 1
    assert _count(job, 100, 50, fingerprint="b").evidence.doubt == ""
    assert "kept other rows" in _count(job, 100, 50, fingerprint="x").evidence.doubt
    assert _count(job, 100, 50, fingerprint="d").evidence.doubt == "", "a batch that is new"


def _offered(job: Job) -> Offer:
    value = json.loads((job.store.folder / "plan.json").read_text())
    return Offer.from_json(value["offer"])


def test_a_budget_is_for_the_rows_that_the_policy_wants_also_after_a_lull_and_a_restart(
    control: Path,
) -> None:
    """A policy that keeps a tenth at any budget: nine tenths of what comes is no load."""
    job = Job(control, GateSettings(hold=1), policy=GroupRates("level", {}, default=0.1))
    job.steps(5, 20_000)
    assert _offered(job).wanted == pytest.approx(0.1, rel=0.01)
    job.step(0)
    assert _offered(job).wanted == pytest.approx(0.1, rel=0.01)
    job.restart()
    assert _offered(job).wanted == pytest.approx(0.1, rel=0.01)


def test_in_monitor_mode_sizes_are_told_and_advice_is_for_the_batch_that_came(control: Path) -> None:
    job = Job(control, GateSettings(hold=1, mode="monitor"))
    job.steps(20)
    assert not _offered(job).cuts
    small = job.step(1_000)
    assert small is not None
    assert small.would_shed == 0, "it fits, whatever came before it"
