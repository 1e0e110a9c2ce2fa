"""A first batch that runs: `headgate status` and the page's words say so, and stop saying so."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headgate.cli import main
from headgate.core.batch_size import RowsExpected
from headgate.core.plan import KEEP_ALL, Plan
from headgate.core.plan_parts import DrawLevel
from headgate.store.lease import this_process
from headgate.store.plans import PinnedPlan
from headgate.view.observer import Observer
from tests.view.virtual_gate import VirtualGate


def _status(control: Path, *options: str) -> str:
    done = CliRunner().invoke(main, ["status", str(control), *options])
    assert done.exit_code == 0, done.output
    return done.stdout


def _query(control: Path) -> dict[str, Any]:
    (gate,) = json.loads(_status(control, "--json"))["gates"]
    (query,) = gate["queries"]
    return dict(query)


def _begin(gate: VirtualGate, plan: Plan, rows: float | None = None) -> None:
    gate.store.lease.claim(this_process(), "gate")
    expected = None if rows is None else RowsExpected(rows, "offsets")
    gate.store.pin_to(0, PinnedPlan(plan, "start", expected=expected))


def test_a_whole_first_batch_is_said_until_it_ends(control: Path) -> None:
    gate = VirtualGate(control)
    _begin(gate, KEEP_ALL, 60_000)
    first = _query(control)["first_batch"]
    assert first == {
        "batch": 0,
        "since": pytest.approx(time.time(), abs=60),
        "keep_rate": 1.0,
        "expected_rows": 60_000.0,
    }
    said = _status(control)
    assert "first batch" in said
    assert "has been running whole for" in said
    assert "all of its 60,000 rows are kept" in said
    assert "To bound a first batch: start=0.05" in said, "the way out"
    (job,) = Observer(control).look().jobs
    assert job.verdict.level == "waiting"
    assert "running whole" in job.verdict.sentence
    gate.batch(60_000)
    assert _query(control)["first_batch"] is None
    assert "first batch" not in _status(control)


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (Plan(0.2), "20.0 % of its rows are kept"),
        (Plan(0.2, {1: 1.0}), "some of its rows are kept"),
        (Plan(1.0, draw=DrawLevel(2.0, rule="senate")), "some of its rows are kept"),
        (Plan(1.0, {1: 1.0}), "all of its rows are kept"),
    ],
)
def test_one_that_is_bounded_says_what_it_keeps(plan: Plan, says: str, control: Path) -> None:
    _begin(VirtualGate(control), plan)
    assert says in _status(control)


def test_nobody_is_told_of_a_batch_that_nobody_runs(control: Path) -> None:
    """It was begun, and its driver ended or never gave a sign of life."""
    gate = VirtualGate(control)
    gate.store.pin_to(0, PinnedPlan(KEEP_ALL, "start"))
    assert _query(control)["first_batch"] is None
    gate.store.lease.claim(this_process(), "gate")
    assert _query(control)["first_batch"] is not None
    gate.store.lease.release(this_process())
    assert _query(control)["first_batch"] is None


def test_two_pins_are_no_first_batch(control: Path) -> None:
    """The first has ended, and its record is on the way."""
    gate = VirtualGate(control)
    _begin(gate, KEEP_ALL)
    gate.store.pin_to(1, PinnedPlan(KEEP_ALL, "plan"))
    assert _query(control)["first_batch"] is None
