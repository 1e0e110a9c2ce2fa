"""How a gate stands is what its ledger says, also when records had to wait for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.store.ledger.parts import SEGMENT
from headgate.store.ledger.records import Ledger
from headgate.store.ledger.standing import Standing
from tests.view.virtual_gate import VirtualGate


def _by_the_ledger(gate: VirtualGate) -> dict[str, Any]:
    return Standing(Ledger(gate.control, gate.name, gate.query)).to_json(None)


def _sums(found: dict[str, Any] | None) -> dict[str, Any]:
    assert found is not None
    return {name: found[name] for name in ("batches", "arrived", "kept", "shed", "last_batch")}


@pytest.mark.parametrize("between", [False, True], ids=["with the next batch", "between batches"])
def test_records_that_had_to_wait_are_counted_when_they_are_written(
    control: Path, monkeypatch: pytest.MonkeyPatch, between: bool
) -> None:
    gate = VirtualGate(control)
    gate.batches(3, 1000)
    assert gate.run.standing(), "read once"
    with monkeypatch.context() as away:
        away.setattr(Ledger, "append", _no_space)
        gate.batches(2, 1000)
        assert _sums(gate.run.standing())["batches"] == 3
    if between:
        gate.run.refresh()
    else:
        gate.batch(1000)
    assert _sums(gate.run.standing()) == _sums(_by_the_ledger(gate))


def _no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_records_that_expired_are_known_after_a_segment(control: Path) -> None:
    gate = VirtualGate(control)
    gate.batch(1000)
    assert gate.run.standing()
    gate.number = SEGMENT
    gate.batch(1000)
    ledger = Ledger(control, gate.name, gate.query)
    ledger.close_one(gate.clock())
    gate.number = 2 * SEGMENT
    gate.batch(1000)
    assert ledger.expire(gate.clock())
    gate.number = 3 * SEGMENT
    gate.batch(1000)
    found = gate.run.standing()
    assert found is not None
    assert found["records_from"] == ledger.begins() > 0
