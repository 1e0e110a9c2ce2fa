"""Whatever stands in a store, commands, page and metrics show it as text and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from rich.table import Table

from headgate.cli import main
from headgate.cli.job.job_screen import Screen
from headgate.cli.tables import console
from headgate.core.plan import Plan
from headgate.page.metrics import exposition
from headgate.page.render import render_page
from headgate.settings import GateSettings
from headgate.store.ledger.record import Findings, Record
from headgate.store.ledger.records import Ledger
from headgate.store.plans import PlanStore
from headgate.store.settings_file import SettingsFile
from headgate.view.observer import Observer
from headgate.view.status import status
from headgate.view.wording import plain
from tests.hostile import TEXTS, texts

_OBEYED = ("\x1b", "\x07", "\x00", "\r", "\u202e", "\u2066", "\x85")


def _store(control: Path, text: str) -> None:
    """A gate of whose groups, reasons and states somebody else chose the words."""
    plan = Plan(0.5, {7: 1.0, 8: 0.25}, {7: text, 8: text[::-1]})
    SettingsFile(control, "rides").declare(GateSettings(hold="2 seconds"))
    PlanStore(control, "rides", "q").publish(plan)
    PlanStore(control, "rides", "q").beat()
    for batch in range(3):
        found = Findings({text: 3, "7": 5}, {text: 1.5})
        Ledger(control, "rides", "q").append(
            Record(
                "rides",
                "q",
                batch,
                10,
                5,
                5,
                plan,
                text,
                text,
                "shed",
                0,
                text,
                text,
                1000.0 + batch,
                1.0,
                {text: 1},
                1.0,
                5,
                [{"description": text, "endOffset": text}],
                found=found,
            )
        )


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_words_of_others_are_shown_as_words(tmp_path: Path, number: int) -> None:
    text = TEXTS[number]
    _store(tmp_path, text)
    for command in (["status"], ["ledger", "show"], ["ledger", "verify"]):
        done = CliRunner().invoke(main, [*command, str(tmp_path)])
        assert done.exit_code in (0, 3, 4), done.output
        assert not [one for one in _OBEYED if one in done.output], "no terminal obeys it"
        said = CliRunner().invoke(main, [*command, str(tmp_path), "--json"])
        json.loads(said.stdout)
    view = Observer(tmp_path).look()
    assert view.jobs
    for html in (render_page(view, read_only=False, refresh_s=2.0), status(tmp_path)._repr_html_()):
        html.encode()
        assert "<script>alert(1)" not in html
        assert "<img src=x" not in html
    if "{{7*7}}" in text:
        assert text in render_page(view, read_only=False, refresh_s=2.0), "no template runs in it"
    lines = exposition(view).decode().splitlines()
    assert not [line for line in lines if line.startswith("x ") or line.endswith("} 99")]
    assert any(line.startswith('headgate_rows_shed_total{gate="rides",query="q"} 15') for line in lines)


def test_a_message_of_an_error_is_plain_too(tmp_path: Path) -> None:
    _store(tmp_path, "x")
    done = CliRunner().invoke(main, ["status", str(tmp_path), "--gate", "\x1b]0;owned\x07"])
    assert done.exit_code == 2
    assert "\x1b" not in done.output
    assert "no gate" in done.output


@given(text=texts())
def test_plain_text_is_as_long_as_before_and_has_nothing_that_is_obeyed(text: str) -> None:
    found = plain(text)
    assert len(found) == len(text)
    assert plain(found) == found
    found.encode()
    assert not [one for one in _OBEYED if one in found]


def test_a_table_of_such_words_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    made = Table("group", "rows")
    made.add_row("a\x1b[2Jb", "1")
    console().print(made)
    assert "a\ufffd[2Jb" in capsys.readouterr().out


def test_rows_of_a_console_sink_do_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(as_json=False)._print("|\x1b]0;owned\x07|\u202e|\n")
    assert capsys.readouterr().out == "|\ufffd]0;owned\ufffd|\ufffd|\n"


def test_a_row_cannot_end_what_a_console_sink_shows(capsys: pytest.CaptureFixture[str]) -> None:
    rows = "that was all\n\nthat was all 0123456789abcdef0123456789abcdef\nthe last row, without its end"
    with Screen(as_json=False).printed() as stdout:
        os.write(stdout, rows.encode())
    assert capsys.readouterr().out == f"{rows}\n"
