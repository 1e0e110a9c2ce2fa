"""What a gate logs while it works: a line for a change of its state, and none for a batch."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path

import pytest

from headgate.settings import GateSettings
from headgate.store.settings_file import SettingsFile
from tests.view.virtual_gate import CAPACITY, VirtualGate


def test_a_line_for_a_change_of_state_and_none_for_a_batch(
    control: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate")
    gate = VirtualGate(control, settings=GateSettings(hold=1))
    records = gate.batches(15, CAPACITY // 2)
    assert caplog.messages == [], "a gate that has nothing to shed says nothing"
    records += gate.batches(25, 5 * CAPACITY)
    records += gate.batches(30, CAPACITY // 2)
    states = [state for state, _ in itertools.groupby(record.state for record in records)]
    assert "shedding" in states
    assert states[0] == states[-1] == "idle"
    told = [one for one in caplog.messages if " -> " in one]
    assert [one.split(": ", 1)[1].split(" (")[0] for one in told] == [
        f"{was} -> {now}" for was, now in itertools.pairwise(states)
    ]
    assert len(caplog.messages) == len(told), "70 batches, and nothing else was logged"
    assert all(one.startswith("gate 'rides' of query 0f3a6c51") for one in told)


def test_a_change_of_settings_is_a_line(control: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "headgate")
    gate = VirtualGate(control)
    gate.batches(3, 1000)
    SettingsFile(control, "rides").change(hold="3 seconds")
    gate.batches(3, 1000)
    assert [one for one in caplog.messages if "settings changed" in one] == caplog.messages
    assert len(caplog.messages) == 1
