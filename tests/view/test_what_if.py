"""What a target would have done: against runs of the shipped loop that know the truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.errors import BadArgument
from headgate.settings import GateSettings
from headgate.store.ledger.record import Record
from headgate.view.what_if import what_if
from tests.view.virtual_gate import CAPACITY, VirtualGate


def _hour(control: Path, target_s: float, name: str = "rides") -> list[Record]:
    """Two and a half minutes with bursts at three times the capacity of a second."""
    gate = VirtualGate(control, name, GateSettings(hold=target_s))
    return [
        gate.batch((3 * CAPACITY if number % 50 < 25 else CAPACITY // 2) + 37 * (number % 11))
        for number in range(150)
    ]


def test_it_foretells_what_another_target_does(control: Path) -> None:
    seen, truth = _hour(control, 1.0), _hour(control, 0.6, "twin")
    found = what_if(seen, GateSettings(hold=1.0), 0.6)
    kept = sum(r.kept for r in truth) / sum(r.arrived for r in truth)
    assert found.asked.kept == pytest.approx(kept, abs=0.06)
    assert found.held.kept == pytest.approx(found.recorded.kept, abs=0.06)
    assert found.asked.kept < found.held.kept - 0.1
    assert found.asked.inside > 0.8
    assert "would have kept about" in found.sentence
    assert "150 batches" in found.sentence


def test_what_was_kept_in_fact_is_held_against_the_target_of_its_time(control: Path) -> None:
    seen = _hour(control, 1.0)
    found = what_if(seen, GateSettings(hold=3.0), 0.6)  # people have changed it since
    assert found.target_s == 1.0
    assert found.held.kept == pytest.approx(found.recorded.kept, abs=0.06)
    assert found.changed == ""
    mixed = [*seen, *_hour(control, 2.0, "later")]
    found = what_if(mixed, GateSettings(hold=2.0), 0.6)
    assert found.sentence.endswith(
        "in fact, where the target was changed while these batches ran (1 s, then 2 s)."
    )


def test_a_monitored_hour_says_what_would_be_shed(control: Path) -> None:
    gate = VirtualGate(control, settings=GateSettings(hold=4, mode="monitor"))
    seen = [gate.batch(3 * CAPACITY + 500 * (number % 7)) for number in range(60)]
    found = what_if(seen, gate.spec.settings, 2.0)
    assert found.recorded.kept == 1.0
    assert 0.3 < found.asked.kept < 0.95


def test_too_little_to_say_anything(control: Path) -> None:
    seen = VirtualGate(control).batches(5, 1000)
    with pytest.raises(
        BadArgument, match="5 batches were recorded then: choose a time with at least 20"
    ):
        what_if(seen, GateSettings(hold=1), 0.5)
    with pytest.raises(BadArgument, match="fixed share has no target"):
        what_if(seen * 10, GateSettings(rate=0.5), 0.5)
