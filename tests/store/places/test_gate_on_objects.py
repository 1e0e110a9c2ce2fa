"""One gate in one query, without Spark, with its control store in an object store."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate import LoadSample, Uniform
from headgate.core.plan import KEEP_ALL, Plan
from headgate.errors import BadArgument, OwnedElsewhere
from headgate.run.gate_report import BatchReport
from headgate.run.gate_run import GateRun
from headgate.run.gate_spec import GateSpec
from headgate.settings import GateSettings
from headgate.spark.loop import heart as heart_module
from headgate.spark.loop.heart import Heart
from headgate.store.beats import heard_of
from headgate.store.folder import write_json
from headgate.store.guards import declare_guard
from headgate.store.keeping.crew import Crew
from headgate.store.lease import GONE_S, Holder, Lease, Watch, this_process
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger, Record, gates_in, queries_of
from headgate.store.places.objects import Objects
from headgate.store.places.place import ObjectPath, Place, control_place
from headgate.store.plans import PinnedPlan, PlanStore
from headgate.store.query_facts import checkpoint_of, forget_query, tell_checkpoint
from headgate.store.settings_file import SettingsFile
from headgate.testing.s3_toll import S3Toll
from tests.eventually import eventually

OPEN = PinnedPlan(KEEP_ALL, "fail-open")
ME = replace(this_process(), run="11111111-2222-3333-4444-555555555555")


class Job:
    """A query behind a gate; its workers are told apart from its driver by what they remember."""

    def __init__(self, control: Place, settings: GateSettings) -> None:
        self.control = control
        SettingsFile(control, "g").declare(settings)
        self.spec = GateSpec("g", control, settings, Uniform())
        self.run = GateRun(self.spec, "q")
        self.watch = Watch()
        self.batch = 0

    def pin(self, me: Holder = ME) -> PinnedPlan:
        """As a task of the batch does; a task knows nothing but what its process has seen."""
        return PlanStore(self.control, "g", "q", watch=self.watch).pin(self.batch, OPEN, "s", me)

    def step(self, arrived: int = 50_000, counts: Mapping[int, int] | None = None) -> Record | None:
        plan = self.pin().plan
        kept = round(arrived * plan.default)
        sample = LoadSample(self.batch, 1e9 + self.batch, 0.25 + 0.75e-4 * kept, arrived, kept)
        self.batch += 1
        return self.run.handle(
            BatchReport(query="q", sample=sample, weight=plan.default_weight, counts=counts or {})
        )


@pytest.fixture(autouse=True)
def no_upkeep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upkeep is asked for by tests that want it."""
    monkeypatch.setattr(Crew, "ask", lambda self, control=None: None)


def test_a_gate_holds_its_target_and_keeps_the_books(memory: ObjectPath) -> None:
    job = Job(memory, GateSettings(hold=1))
    records = [job.step() for _ in range(40)]
    assert all(r is not None and r.balanced for r in records)
    assert all(r.duration_s <= 1.0 for r in records[5:] if r is not None)
    assert gates_in(memory) == ["g"]
    assert queries_of(memory, "g") == ["q"]
    [found] = audit(memory)
    assert (found.batches, found.complete) == (40, True)
    learned = GateRun(job.spec, "q").load_learned()
    assert learned["controller"], "a restart finds what was learned"


def test_a_batch_that_runs_again_meets_its_pin(memory: ObjectPath) -> None:
    job = Job(memory, GateSettings(rate=0.5))
    job.step()
    first = job.pin()
    SettingsFile(memory, "g").change(rate=0.1)
    job.run._asked = None
    job.run.refresh()
    assert job.pin() == first
    store = PlanStore(memory, "g", "q")
    assert store.pinned_batches() == [0, 1]
    store.repin(1, PinnedPlan(Plan(0.25), "plan"))
    assert store.pinned(1) == PinnedPlan(Plan(0.25), "plan")
    store.unpin(1)
    assert store.pinned(1) is None
    assert job.pin().plan.default == pytest.approx(0.1)


def test_settings_are_changed_and_forgotten(memory: ObjectPath) -> None:
    file = SettingsFile(memory, "g")
    with pytest.raises(BadArgument, match="no gate 'g'"):
        file.effective()
    file.declare(GateSettings(rate=0.5))
    assert file.change(rate=0.2).rate == 0.2
    assert SettingsFile(memory, "g").effective().rate == 0.2
    file.reset()
    assert file.effective().rate == 0.5
    with pytest.raises(BadArgument, match="is a gate"):
        declare_guard(memory, "g", policy="balanced", target="average 1 s", target_s=1.0)


def test_a_second_driver_is_refused_while_the_first_lives(
    memory: ObjectPath,
) -> None:
    now = [0.0]
    lease = Lease(memory / "q", clock=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    other = Holder("other", host="elsewhere", boot="x", pid=1)
    lease.claim(other, "gate 'g'")

    def beating(seconds: float) -> None:
        now[0] += seconds
        Lease(memory / "q").beat(other)

    living = Lease(memory / "q", clock=lambda: now[0], sleep=beating)
    with pytest.raises(OwnedElsewhere, match="elsewhere"):
        living.claim(ME, "gate 'g'")
    assert lease.claim(ME, "gate 'g'"), "it stood still, and did not end well"
    assert now[0] >= GONE_S
    assert lease.holder() == ME


def test_a_checkpoint_is_told_and_forgotten(memory: ObjectPath) -> None:
    assert checkpoint_of(memory, "q") is None
    tell_checkpoint(memory, "q", "s3a://bucket/checkpoint")
    assert checkpoint_of(memory, "q") == "s3a://bucket/checkpoint"
    forget_query(memory, "q")
    assert checkpoint_of(memory, "q") is None


# ---------------------------------------------------------------------------------------- requests


@pytest.mark.spark
def test_a_batch_costs_few_requests(s3: str, toll: S3Toll) -> None:
    """Pin, loop and record; docs/control-store.md has these numbers."""
    job = Job(control_place(s3), GateSettings(hold=1))
    for _ in range(5):
        job.step()
    toll.reset()
    for _ in range(20):
        job.step()
    counts = toll.counts
    settings = counts["get"] - 20 * 5
    assert counts["claim"] == 20, "the pin"
    assert counts["put"] == 20 * 3, "the plan, the record, what was learned"
    assert 0 <= settings <= 15, "lease, driver, plan, the pin twice; the settings every two seconds"
    assert counts.keys() == {"get", "put", "claim"}
    assert sum(counts.values()) <= 20 * 9 + 15


@pytest.mark.spark
def test_a_heartbeat_is_one_request_for_all_gates_and_a_look_now_and_then(
    s3: str, toll: S3Toll, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heart_module, "BEAT_S", 3600.0)
    control = control_place(s3)
    heart = Heart(control, lambda: True)
    for number in range(20):
        PlanStore(control, f"g{number}", "q").lease.claim(ME, "gate")
        heart.meet((f"g{number}", "q"))
    heart.steer("q")
    eventually(lambda: heard_of(control, ME.owner), "the first beat, and its looks")
    eventually(lambda: heart._turn == 1, "its looks")
    toll.reset()
    for _ in range(10):
        heart._beat()
        heart._look()
    assert toll.counts == {"put": 10, "get": 20}, "each lease is looked at every ten turns"
    heart.leave(None, None).wait()
    assert heard_of(control, ME.owner) is None


@pytest.mark.spark
def test_a_hundred_pins_are_dropped_with_one_request(s3: str, toll: S3Toll) -> None:
    store = PlanStore(control_place(s3), "g", "q")
    for batch in range(100):
        store.pin_to(batch, OPEN)
    toll.reset()
    store.unpin(*range(99))
    assert toll.counts == {"delete": 1}
    assert store.pinned_batches() == [99]


def test_settings_of_many_gates_are_one_look_every_two_seconds(
    memory: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    jobs = []
    for number in range(50):
        SettingsFile(memory, f"g{number}").declare(GateSettings(rate=0.5))
        spec = GateSpec(f"g{number}", memory, GateSettings(rate=0.5), Uniform())
        jobs.append(GateRun(spec, "q"))
    looked: list[str] = []
    real = Objects.get
    monkeypatch.setattr(Objects, "get", lambda self, at: (looked.append(at.name), real(self, at))[1])
    for _ in range(10):  # a look around every second
        now[0] += 1.0
        for job in jobs:
            job.refresh()
    assert looked == ["changes.json"] * 5
    SettingsFile(memory, "g7").change(rate=0.25)
    now[0] += 2.0
    for job in jobs:
        job.refresh()
    assert [job.settings.rate for job in jobs].count(0.25) == 1
    assert jobs[7].settings.rate == 0.25
    write_json(memory / "gates" / "g9" / "overrides.json", {"rate": 0.125})  # by an earlier version
    now[0] += 60.0
    jobs[9].refresh()
    assert jobs[9].settings.rate == 0.125


# ------------------------------------------------------------------------------------------ clocks

_WORKER = """
import sys, time, datetime
off = float(sys.argv[2])
real = time.time
time.time = lambda: real() + off
from dataclasses import replace
from headgate.store.lease import Holder
from headgate.store.plans import PinnedPlan, PlanStore
from headgate.core.plan import KEEP_ALL
from headgate.store.places.place import control_place
me = Holder(sys.argv[3], run="11111111-2222-3333-4444-555555555555")
store = PlanStore(control_place(sys.argv[1]), "g", "q")
pin = store.pin(int(sys.argv[4]), PinnedPlan(KEEP_ALL, "fail-open"), "s", me)
print(pin.origin, pin.plan.default)
"""


def _pinned_by_a_worker(control: str, off_s: float, batch: int) -> str:
    command = [sys.executable, "-c", _WORKER, control, str(off_s), ME.owner, str(batch)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ.copy())
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _clocks_do_not_matter(control: str) -> None:
    job = Job(control_place(control), GateSettings(rate=0.5))
    for _ in range(3):
        job.step()
    store = PlanStore(job.control, "g", "q")
    for number, off_s in enumerate((-300.0, 300.0)):
        assert store.lease.beat(ME, store.lease.holder())
        assert _pinned_by_a_worker(control, off_s, 3 + number) == "plan 0.5"


def test_a_worker_whose_clock_is_five_minutes_off_meets_the_plan(tmp_path: Path) -> None:
    _clocks_do_not_matter(str(tmp_path))


@pytest.mark.spark
def test_a_worker_whose_clock_is_five_minutes_off_meets_the_plan_on_a_server(s3: str) -> None:
    _clocks_do_not_matter(s3)


def test_a_driver_that_is_gone_is_known_by_what_the_store_says(tmp_path: Path) -> None:
    """The other way round: a clock that is behind makes nobody believe in a driver that is gone."""
    job = Job(tmp_path, GateSettings(rate=0.5))
    for _ in range(3):
        job.step()
    lease = tmp_path / "gates" / "g" / "queries" / "q" / "lease.json"
    old = lease.stat().st_mtime - 60.0
    for number, off_s in enumerate((-300.0, 300.0)):
        os.utime(lease, (old, old))
        assert _pinned_by_a_worker(str(tmp_path), off_s, 3 + number) == "fail-open 1.0"


def test_what_people_see_of_a_ledger_is_the_same(memory: ObjectPath) -> None:
    job = Job(memory, GateSettings(rate=0.5))
    for _ in range(5):
        job.step()
    records: dict[int, Any] = Ledger(memory, "g", "q").records()
    assert list(records) == list(range(5))
    assert all(r.balanced for r in records.values())
