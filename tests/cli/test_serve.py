"""``headgate serve`` and ``headgate top`` as people type them, and mistakes told in a line."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headgate.cli import main
from tests.view.virtual_gate import CAPACITY, VirtualGate


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def test_it_serves_what_it_prints_and_makes_its_token(control: Path, tmp_path: Path) -> None:
    VirtualGate(control).batches(3, 1000)
    token = tmp_path / "etc" / "token"
    command = [sys.executable, "-m", "headgate", "serve", "--control", str(control), "--port", "0"]
    with subprocess.Popen(
        [*command, "--token-file", str(token)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            with urllib.request.urlopen(f"{url}/metrics", timeout=20) as answer:
                assert b"headgate_rows_arrived_total" in answer.read()
            assert len(token.read_text().strip()) == 64
            assert token.stat().st_mode & 0o077 == 0
        finally:
            process.terminate()
            process.wait(20)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--port", "70000"), "port=70000: give a whole number"),
        (("--host", "0.0.0.0", "--port", "0"), "host='0.0.0.0' without a token"),
        (("--refresh", "1 ms"), "refresh=0.001: give 0.2 to 3600 seconds"),
        (("--refresh", "soon"), "refresh"),
    ],
)
def test_a_mistake_is_told_in_a_line(control: Path, arguments: tuple[str, ...], says: str) -> None:
    result = run("serve", "--control", control, *arguments)
    assert result.exit_code == 2
    assert says in result.output


def test_a_short_token_is_refused(control: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short")
    result = run("serve", "--control", control, "--token-file", tmp_path / "token")
    assert result.exit_code == 2
    assert "at least 16" in result.output
    assert "let `headgate serve` make one" in result.output


def test_top_shows_every_gate(control: Path) -> None:
    VirtualGate(control, "rides").batches(20, 5 * CAPACITY)
    VirtualGate(control, "clicks").batches(20, CAPACITY // 2)
    result = run("top", control, "--looks", 2, "--refresh", "10 ms")
    assert result.exit_code == 0, result.output
    assert "rides" in result.output
    assert "holding" in result.output
    assert "clicks" in result.output
    assert "healthy" in result.output


def test_top_of_a_folder_that_is_none(tmp_path: Path) -> None:
    result = run("top", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "there is no folder" in result.output
