"""What a person decides, in code and while the query runs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from headgate import BadArgument, FixedRate, HoldDelay, HoldDuration
from headgate.settings import GateSettings
from headgate.store.folder import read_json, write_json
from headgate.store.settings_file import SettingsFile


@pytest.mark.parametrize(
    ("settings", "config", "target"),
    [
        (GateSettings(hold="2 s", min_keep=0.1), HoldDuration("2 s", min_keep=0.1), 2.0),
        (GateSettings(delay=3, min_keep=0.1), HoldDelay(3, min_keep=0.1), 3.0),
        (GateSettings(rate=0.2), FixedRate(0.2), None),
    ],
)
def test_settings_choose_the_controller(
    settings: GateSettings, config: object, target: float | None
) -> None:
    assert settings.controller_config() == config
    assert settings.target_s == target


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({}, "none of them"),
        ({"hold": 1, "rate": 0.5}, "hold and rate"),
        ({"hold": 1, "delay": 1, "rate": 0.5}, "hold and delay and rate"),
        ({"hold": "soon"}, "hold='soon'"),
        ({"delay": 0}, "delay=0"),
        ({"rate": 0.0}, r"rate=0.0 is outside \(0, 1\]"),
        ({"rate": 1.5}, "rate=1.5"),
        ({"hold": 1, "min_keep": 0}, "min_keep=0"),
        ({"hold": 1, "inside": 1.0}, "inside=1.0"),
        ({"hold": 1, "first_rows": 0}, "first_rows=0"),
        ({"hold": 1, "first_rows": True}, "first_rows=True"),
        ({"hold": 1, "min_keep": float("nan")}, "min_keep=nan"),
        ({"hold": 1, "mode": "shedding"}, "'off', 'monitor', 'shed'"),
        ({"hold": 1, "on_failure": "explode"}, "'open', 'closed'"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(BadArgument, match=says):
        GateSettings(**wrong)


def test_json_gives_equal_settings_back_and_passes_over_what_it_does_not_know() -> None:
    settings = GateSettings(hold="500 ms", mode="monitor", min_keep=0.2, on_failure="closed")
    value = json.loads(json.dumps(settings.to_json()))
    assert value["hold"] == 0.5
    assert GateSettings.from_json({**value, "of_a_later_version": 1}) == GateSettings(
        hold=0.5, mode="monitor", min_keep=0.2, on_failure="closed"
    )


def test_a_new_kind_of_target_replaces_the_old_one() -> None:
    settings = GateSettings(hold=1)
    assert settings.changed({"delay": "3 s"}) == GateSettings(delay="3 s")
    assert settings.changed({"rate": 0.5}) == GateSettings(rate=0.5)
    assert settings.changed({"mode": "off"}) == GateSettings(hold=1, mode="off")
    assert settings.changed({}) == settings


def test_what_is_fixed_for_good_cannot_be_changed() -> None:
    with pytest.raises(BadArgument, match=r"on_failure cannot be changed.*mode, hold, delay"):
        GateSettings(hold=1).changed({"on_failure": "closed"})


@pytest.fixture
def file(control: Path) -> SettingsFile:
    file = SettingsFile(control, "g")
    file.declare(GateSettings(hold=1, min_keep=0.05), arrival=True)
    return file


def test_a_live_change_lies_on_top_of_what_the_code_says(file: SettingsFile) -> None:
    assert file.effective() == GateSettings(hold=1.0, min_keep=0.05)
    assert file.change(mode="monitor") == GateSettings(hold=1.0, min_keep=0.05, mode="monitor")
    assert file.change(hold="2 s").target_s == 2.0
    assert file.effective() == GateSettings(hold="2 s", min_keep=0.05, mode="monitor")
    file.declare(GateSettings(hold=9, min_keep=0.5))  # the query is started anew with other code
    assert file.effective() == GateSettings(hold="2 s", min_keep=0.5, mode="monitor")


def test_kinds_of_target_follow_each_other(file: SettingsFile) -> None:
    file.change(hold=2)
    file.change(rate=0.5)
    assert file.effective() == GateSettings(rate=0.5, min_keep=0.05)
    file.change(delay="4 s")
    assert file.effective() == GateSettings(delay="4 s", min_keep=0.05)
    assert "rate" not in file.overrides()


@pytest.mark.parametrize(
    "illegal",
    [
        {"rate": 2.0}, {"hold": "soon"}, {"mode": "x"}, {"min_keep": 0}, {"on_failure": "closed"},
        {"hold": 1, "rate": 0.5}, {"nonsense": 1},
    ],
)  # fmt: skip
def test_an_illegal_change_changes_nothing(
    file: SettingsFile, control: Path, illegal: dict[str, Any]
) -> None:
    file.change(mode="monitor")
    before = file.effective()
    with pytest.raises(BadArgument):
        file.change(**illegal)
    assert file.effective() == before
    assert read_json(control / "gates" / "g" / "overrides.json") == {"mode": "monitor"}


def test_a_delay_that_cannot_be_measured_is_refused(control: Path) -> None:
    file = SettingsFile(control, "g")
    file.declare(GateSettings(hold=1), arrival=False)
    with pytest.raises(BadArgument, match=r"delay='5 s' .*'g' was made without arrival=.*set hold"):
        file.change(delay="5 s")
    assert file.overrides() == {}
    assert file.change(hold=2).target_s == 2.0


@pytest.mark.parametrize("change", [{"hold": 2}, {"delay": 2}, {"rate": 0.5}, {"min_keep": 0.5}])
def test_what_a_persons_own_controller_would_ignore_is_refused(
    control: Path, change: dict[str, Any]
) -> None:
    file = SettingsFile(control, "g")
    file.declare(GateSettings(hold=1), arrival=True, own_controller=True)
    ((name, value),) = change.items()
    with pytest.raises(BadArgument, match=f"{name}={value} would change nothing.*'g'.*controller="):
        file.change(mode="off", **change)
    assert file.overrides() == {}
    assert file.change(mode="off").mode == "off"


def test_a_gate_declared_by_an_older_headgate_takes_every_change(control: Path) -> None:
    write_json(control / "gates" / "g" / "gate.json", GateSettings(hold=1).to_json())
    assert SettingsFile(control, "g").change(delay="5 s", min_keep=0.5).target_s == 5.0


def test_a_change_afresh_forgets_those_before_it_unless_it_is_refused(file: SettingsFile) -> None:
    file.change(mode="off", rate=0.5)
    with pytest.raises(BadArgument):
        file.change(afresh=True, min_keep=7)
    assert file.overrides() == {"mode": "off", "rate": 0.5}
    file.change(afresh=True, min_keep=0.5)
    assert file.overrides() == {"min_keep": 0.5}


def test_reset_forgets_peoples_changes(file: SettingsFile) -> None:
    file.change(mode="off", rate=0.5)
    file.reset()
    file.reset()  # nothing to forget is no error
    assert file.effective() == GateSettings(hold=1.0, min_keep=0.05)


def test_an_unknown_gate_is_refused_with_those_that_are_known(file: SettingsFile, control: Path) -> None:
    with pytest.raises(BadArgument, match=r"no gate 'other'.*gates there: g"):
        SettingsFile(control, "other").change(mode="off")
    with pytest.raises(BadArgument, match="none yet"):
        SettingsFile(control / "elsewhere", "g").effective()


def test_settings_of_0_1_0_are_read_under_their_former_names(control: Path) -> None:
    folder = control / "gates" / "g"
    folder.mkdir(parents=True)
    (folder / "gate.json").write_text('{"hold": 2.0, "floor": 0.2, "mode": "shed"}')
    (folder / "overrides.json").write_text('{"floor": 0.05}')
    file = SettingsFile(control, "g")
    assert file.declared() == GateSettings(hold=2.0, min_keep=0.2)
    assert file.effective() == GateSettings(hold=2.0, min_keep=0.05)


def test_no_bound_on_a_first_batch_comes_back_from_json() -> None:
    settings = GateSettings(hold=1.0, first_rows=math.inf)
    assert GateSettings.from_json(json.loads(json.dumps(settings.to_json()))) == settings
