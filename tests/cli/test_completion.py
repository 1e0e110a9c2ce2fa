"""A shell completes `headgate` lines, also where the laboratory or an extra is not installed."""

from __future__ import annotations

import importlib.metadata

import pytest
from click.shell_completion import ShellComplete

from headgate.cli import main
from headgate.errors import HeadgateError


def completed(*words: str) -> list[str]:
    """What the shell offers for the last word."""
    *before, last = words
    found = ShellComplete(main, {}, "headgate", "_HEADGATE_COMPLETE").get_completions(before, last)
    return [item.value for item in found]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No laboratory, and no package that `headgate kafka` needs."""
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [])
    for group in (main, main.commands["federation"]):
        monkeypatch.delitem(vars(group), "_found", raising=False)
    monkeypatch.setattr(main.commands["kafka"], "_where", "headgate.no_such_module:kafka")


def test_with_the_laboratory() -> None:
    assert completed("b") == ["backfill", "bench"]
    assert "gate" in completed("bench", "")
    assert completed("figures", "las-fig1") == ["las-fig10", "las-fig11"]
    assert completed("federation", "") == ["demo", "status"]
    assert completed("set", "folder", "rides", "--mode", "") == ["off", "monitor", "shed"]
    assert "--json" in completed("ledger", "show", "--j")


def test_without_the_laboratory_and_extras(alone: None) -> None:
    assert completed("b") == ["backfill"]
    assert "ledger" in completed("")
    assert completed("federation", "") == ["status"]
    for words in (("bench", ""), ("figures", "las"), ("federation", "demo", "--"), ("kafka", "")):
        completed(*words)  # offers nothing of use, and no traceback


def test_whoever_asks_for_it_is_still_told_what_to_install(alone: None) -> None:
    with pytest.raises(HeadgateError, match="pip install headgate-lab"):
        main.get_command(main.make_context("headgate", ["status", "x"]), "bench")
