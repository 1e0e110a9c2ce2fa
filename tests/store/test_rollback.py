"""A checkpoint rolled back far: batches meet again what they met, as long as the ledger knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.core.load import LoadSample
from headgate.core.plan import KEEP_ALL, Plan
from headgate.policies import Uniform
from headgate.run.gate_report import BatchReport
from headgate.run.gate_run import GateRun
from headgate.run.gate_spec import GateSpec
from headgate.settings import GateSettings
from headgate.store.ledger.records import Ledger, Record
from headgate.store.ledger.segments import SEGMENT
from headgate.store.plans import KEPT_PINS, PinnedPlan, PlanStore
from headgate.store.settings_file import SettingsFile
from headgate.testing.clock import ManualClock
from headgate_lab.bench.year.books import write_books

OPEN = PinnedPlan(KEEP_ALL, "fail-open")


def _run(control: Path, clock: ManualClock, rate: float) -> GateRun:
    settings = GateSettings(rate=rate)
    SettingsFile(control, "g").declare(settings)
    return GateRun(GateSpec("g", control, settings, Uniform(), shape="today"), "q", clock)


def test_more_than_the_kept_pins_back_the_ledger_has_the_plans(control: Path) -> None:
    clock = ManualClock()
    run, store = _run(control, clock, 0.25), PlanStore(control, "g", "q", clock)
    store.beat()
    last = KEPT_PINS + 60
    for batch in range(last):
        pin = store.pin(batch, OPEN, "old-shape")
        report = BatchReport(
            query="q",
            sample=LoadSample(batch, clock(), 1.0, 1000, 250),
            weight=pin.plan.default_weight,
        )
        run.handle(report)
    run.upkeep.run()
    assert store.pinned(3) is None, "pruned"
    # Stopped, rolled back to batch 3, and deployed again with another rate.
    again = _run(control, clock, 0.75)
    again.refresh()
    assert PlanStore(control, "g", "q").current() == Plan(0.75)
    for batch in (3, 40):
        assert store.pin(batch, OPEN, "today") == PinnedPlan(Plan(0.25), "plan", "old-shape")
    assert store.pin(last, OPEN, "today") == PinnedPlan(Plan(0.75), "plan", "today"), "this one is new"


def test_it_is_so_while_the_loop_is_gone_too(control: Path) -> None:
    clock = ManualClock()
    store = PlanStore(control, "g", "q", clock)
    Ledger(control, "g", "q").append(Record("g", "q", 5, 10, 3, 7, Plan(0.3), "s", "fail-closed"))
    store.publish(Plan(0.9), after=5)
    assert store.pin(5, OPEN) == PinnedPlan(Plan(0.3), "fail-closed", "s")
    assert store.pin(6, OPEN) == OPEN, "no loop has said a word"


@pytest.mark.parametrize("alive", [True, False])
def test_where_the_record_has_expired_the_origin_says_so(control: Path, alive: bool) -> None:
    clock = ManualClock()
    write_books(control, "g", "q", 3 * SEGMENT, began=clock() - 1e6)
    assert Ledger(control, "g", "q").expire(clock()) == 2
    store = PlanStore(control, "g", "q", clock)
    store.publish(Plan(0.9))
    if alive:
        store.beat()
    lost = store.pin(17, OPEN, "today")
    assert (lost.origin, lost.plan) == ("lost-plan", Plan(0.9) if alive else KEEP_ALL)
    assert store.pinned(17) == lost, "and the next attempt meets the same"
    assert store.pin(2 * SEGMENT + 7, OPEN).plan == Plan(0.4)


def test_a_record_tells_of_a_lost_plan(control: Path) -> None:
    clock = ManualClock()
    write_books(control, "g", "q", 2 * SEGMENT, began=clock() - 1e6)
    Ledger(control, "g", "q").expire(clock())
    run, store = _run(control, clock, 0.5), PlanStore(control, "g", "q", clock)
    store.beat()
    pin = store.pin(17, OPEN)
    report = BatchReport(
        query="q", sample=LoadSample(17, clock(), 1.0, 1000, 500), weight=pin.plan.default_weight
    )
    record = run.handle(report)
    assert record is not None
    assert (record.origin, record.plan) == ("lost-plan", Plan(0.5))
    assert Ledger(control, "g", "q").record(17) == record


def test_a_plan_file_of_0_1_0_is_read(control: Path) -> None:
    """It had `after`, and no `handled`."""
    store = PlanStore(control, "g", "q")
    store.publish(Plan(0.9), after=8)
    text = (store.folder / "plan.json").read_text().replace('"handled":8,', "")
    assert "handled" not in text
    (store.folder / "plan.json").write_text(text)
    Ledger(control, "g", "q").append(Record("g", "q", 5, 10, 3, 7, Plan(0.3)))
    assert PlanStore(control, "g", "q").pin(5, OPEN).plan == Plan(0.3)
