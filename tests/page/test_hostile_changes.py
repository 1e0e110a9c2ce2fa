"""Changes of settings that hold anything: they are refused in words, or hold and are read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headgate.errors import HeadgateError
from headgate.page.changes import CHANGEABLE, apply_change, read_change
from headgate.settings import GateSettings
from headgate.store.settings_file import SettingsFile
from tests.hostile import TEXTS, texts, values
from tests.page.conftest import TOKEN
from tests.page.test_over_http import Serve, ask
from tests.view.virtual_gate import VirtualGate

_UNHURRIED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)


def _asked(control: Path, body: bytes, gate: str = "rides") -> None:
    """As the page does it; what is not refused holds, and whoever reads it next finds it so."""
    before = SettingsFile(control, "rides").overrides()
    try:
        after = apply_change(control, gate, read_change(body), "somebody")
    except HeadgateError as error:
        str(error).encode("utf-8", "backslashreplace")
        assert SettingsFile(control, "rides").overrides() == before, "nothing changed"
        return
    assert isinstance(after, GateSettings)
    assert SettingsFile(control, "rides").effective() == after
    json.dumps(after.to_json(), allow_nan=False)


@pytest.fixture
def rides(control: Path) -> Path:
    SettingsFile(control, "rides").declare(GateSettings(hold="2 seconds"))
    return control


@_UNHURRIED
@given(st.dictionaries(st.sampled_from(CHANGEABLE), values(), min_size=1))
@example({"hold": 10**400})
def test_any_value_is_refused_in_words_or_holds(rides: Path, change: dict[str, Any]) -> None:
    _asked(rides, json.dumps(change).encode())


@_UNHURRIED
@given(st.binary(max_size=60) | values().map(lambda value: json.dumps(value).encode()))
def test_so_is_any_body(rides: Path, body: bytes) -> None:
    _asked(rides, body)


@_UNHURRIED
@given(texts())
def test_a_name_that_is_no_gate_is_no_path_either(rides: Path, gate: str) -> None:
    _asked(rides, b'{"mode": "off"}', gate)
    assert [path.name for path in rides.iterdir()] == ["gates"]
    assert [path.name for path in (rides / "gates").iterdir()] == ["rides"]


def test_a_number_beyond_all_floats_is_refused_over_http(serve: Serve, control: Path) -> None:
    """With a few others: each must be answered, and none by "something broke"."""
    VirtualGate(control).batches(1, 1000)
    url = serve(control, secret=TOKEN).url
    for body in (
        {"rate": 10**400},
        {"hold": 10**400},
        {"mode": []},
        {"hold": {}},
        {"min_keep": TEXTS[6]},
    ):
        status, text, _ = ask(url, "/v1/gates/rides", body=body, token=TOKEN)
        assert (status, body) == (400, body), text
    assert SettingsFile(control, "rides").overrides() == {}
