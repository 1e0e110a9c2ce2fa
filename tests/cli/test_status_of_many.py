"""``headgate status`` of more gates than it looks up one by one: what their drivers wrote."""

from __future__ import annotations

import importlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headgate import LoadSample, Uniform
from headgate.cli import main
from headgate.run.gate_report import BatchReport
from headgate.run.gate_run import GateRun
from headgate.run.gate_spec import GateSpec
from headgate.settings import GateSettings
from headgate.store.beats import Beat, DriverFile, beats_place
from headgate.store.guards import declare_guard
from headgate.store.lease import this_process
from headgate.store.ledger.board import Board
from headgate.store.ledger.records import Ledger
from headgate.store.places.objects import Objects
from headgate.store.places.place import ObjectPath, Place
from headgate.store.plans import PlanStore
from headgate.store.settings_file import SettingsFile
from tests.harness.object_stores import memory as memory

GATES = 8


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Eight are many here."""
    for module in ("headgate.view.gate_status", "headgate.cli.status"):
        monkeypatch.setattr(importlib.import_module(module), "FEW", 4)
    return monkeypatch


class Application:
    """Gates, a query each, which have had some batches; and what their driver says of them."""

    def __init__(self, control: Place) -> None:
        self.runs: dict[tuple[str, str], GateRun] = {}
        for number in range(GATES):
            name, query = f"g{number:02d}", f"q{number}"
            settings = GateSettings(rate=0.5)
            SettingsFile(control, name).declare(settings)
            run = GateRun(GateSpec(name, control, settings, Uniform()), query)
            PlanStore(control, name, query).lease.claim(this_process(), "gate")
            for batch in range(2):
                sample = LoadSample(batch, 1e9 + batch, 0.5, 1000 + number, 500)
                run.handle(BatchReport(query=query, sample=sample, weight=2.0))
            self.runs[name, query] = run
        self.board, self.driver = Board(control), DriverFile(control, this_process().owner)
        self.tell()

    def tell(self) -> None:
        self.board.tell({key: run.standing() or {} for key, run in self.runs.items()})
        self.driver.say(1, {query: Beat(5) for _, query in self.runs}, {})


def _told(control: Place) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["status", str(control), "--json"])
    assert done.exit_code == 0, done.output
    return {gate["gate"]: gate for gate in json.loads(done.stdout)["gates"]}


def test_it_says_the_same_as_a_look_at_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Application(tmp_path)
    many = _told(tmp_path)
    monkeypatch.setattr(importlib.import_module("headgate.view.gate_status"), "FEW", 1000)
    looked_up = _told(tmp_path)
    assert len(many) == GATES
    for gates in (many, looked_up):
        for gate in gates.values():
            for one in (gate, *gate["queries"]):
                assert 0.0 <= one.pop("heartbeat_age_s") < 60.0
            repaid = {query.pop("repaid") for query in gate["queries"]}
            assert repaid == ({None} if gates is many else {0}), "their drivers do not know"
            changed = gate.pop("changed"), gate.pop("declared") is None
            assert changed == ((None, True) if gates is many else ({}, False)), "nor that"
    assert many == looked_up
    assert many["g07"]["queries"][0]["arrived"] == 2 * 1007


def test_it_asks_a_server_for_a_handful_of_objects(
    memory: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    Application(memory)
    asked: list[str] = []
    for name in ("get", "entries"):
        real = getattr(Objects, name)
        monkeypatch.setattr(
            Objects, name, lambda self, at, real=real: (asked.append(str(at)), real(self, at))[1]
        )
    assert len(_told(memory)) == GATES
    assert len(asked) == 4, asked  # the gates and the boards listed, a board, its driver's beats


def test_gates_that_no_driver_speaks_of_are_looked_up(tmp_path: Path) -> None:
    """A guard of batch frames, a gate that never ran, and one whose driver is of an earlier version."""
    Application(tmp_path)
    declare_guard(tmp_path, "guards", policy="balanced", target="average 1 s", target_s=1.0)
    SettingsFile(tmp_path, "never").declare(GateSettings(rate=0.25))
    board = next((tmp_path / "boards").iterdir())
    found = _told(tmp_path)
    assert (found["guards"]["kind"], found["never"]["settings"]["rate"]) == ("guard", 0.25)
    assert found["never"]["heartbeat_age_s"] is None
    board.write_bytes(b"no board")
    assert _told(tmp_path)["g07"]["queries"][0]["batches"] == 2, "what cannot be read is passed over"


def test_queries_that_ended_and_drivers_that_are_gone_are_told(tmp_path: Path) -> None:
    app = Application(tmp_path)
    key = ("g03", "q3")
    app.board.close(key, app.runs.pop(key).standing() or {})
    app.tell()
    old = time.time() - 600
    os.utime(str(beats_place(tmp_path, this_process().owner)), (old, old))
    SettingsFile(tmp_path, "never").declare(GateSettings(rate=0.25))
    lines = CliRunner().invoke(main, ["status", str(tmp_path)]).output.splitlines()
    assert [line.split()[:2] for line in lines[:1]] == [["gate", "asked"]]
    told = {line.split()[0]: line for line in lines[2:]}
    assert len(told) == GATES + 2
    assert "shed, rate 0.5   ended " in told["g03"]
    assert "shed, rate 0.25  none yet" in told["never"]
    assert sum("shed, rate 0.5   gone for 10 min  q" in line for line in lines) == GATES - 1
    assert lines[-1] == f"{GATES + 1} gates; --gate NAME says why one does what it does"


def test_one_of_many_is_told_in_full(tmp_path: Path) -> None:
    Application(tmp_path)
    text = CliRunner().invoke(main, ["status", str(tmp_path), "--gate", "g02"]).output
    assert "q2: fixed at 0.5" in text
    assert "g03" not in text
    wrong = CliRunner().invoke(main, ["status", str(tmp_path), "--gate", "g2"])
    assert wrong.exit_code == 2
    assert "no gate 'g2'" in wrong.stderr
    assert "g00, g01" in wrong.stderr


def test_a_batch_that_is_recorded_again_counts_once(tmp_path: Path) -> None:
    app = Application(tmp_path)
    run = app.runs["g05", "q5"]
    [last] = Ledger(tmp_path, "g05", "q5").tail(1)
    Ledger(tmp_path, "g05", "q5").append(last)
    run._shown.take(last)
    standing = run.standing() or {}
    assert (standing["batches"], standing["arrived"]) == (2, 2 * 1005)
