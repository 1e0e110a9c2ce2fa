"""A driver's clock that jumps: the target is held all the same, and every batch is in the books."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.settings import GateSettings
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Ledger
from tests.run.test_gate_run import Job

HOUR, DAY = 3600.0, 86_400.0


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 30 * DAY, -30 * DAY], ids=str)
def test_a_gate_under_overload_does_not_notice(control: Path, jump: float) -> None:
    job = Job(control, GateSettings(hold=1))
    job.steps(20)
    held = job.current
    job.clock.jump(jump)
    during = job.steps(5)
    assert all(r.origin == "plan" and r.balanced for r in during)
    assert all(r.duration_s <= 1.1 for r in during), [r.duration_s for r in during]
    job.clock.jump(-jump)  # and it is set right
    after = job.steps(10)
    assert all(r.duration_s <= 1.1 for r in after)
    assert job.current.default == pytest.approx(held.default, rel=0.25)
    assert list(Ledger(control, "g", "q").records()) == list(range(job.batch))
    (found,) = audit(control, "g")
    assert found.complete, found.to_json()


@pytest.mark.parametrize("jump", [DAY, -DAY], ids=str)
def test_nor_does_one_that_starts_again_meanwhile(control: Path, jump: float) -> None:
    job = Job(control, GateSettings(hold=1))
    job.steps(20)
    job.clock.jump(jump)
    job.restart()
    again = job.steps(6)
    assert all(r.kept < r.arrived for r in again), "it goes on shedding"
    assert all(r.duration_s <= 1.2 for r in again[1:])
    (found,) = audit(control, "g")
    assert found.complete, found.to_json()
