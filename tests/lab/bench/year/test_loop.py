"""The bench of the loop's year: all of it happens, every batch meets a plan, nothing grows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli import main


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder that no disk is behind, where there is one: the disk is not what is tested."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        yield Path(folder)


@pytest.mark.slow
def test_a_year_of_the_loop_ends_as_it_began(in_memory: Path) -> None:
    """In a process of its own: what other tests leave to their threads would be counted, too."""
    command = ["bench", "loop-year", "--batches", "1000", "--folder", str(in_memory), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "headgate", *command], capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr
    [(start, _, end)] = json.loads(done.stdout)["context"]["tables"].values()
    assert end["batches"] == 1000, "every batch is in the books"
    assert end["not_by_plan"] == 0, "every batch met a plan of the loop"
    assert end["expired"] >= 500
    assert 0.2 < end["shed"] < 0.6
    assert end["queries"] <= 5, "those that ended within the retention, a quarter of this year"
    assert end["files"] <= 300 + 60 * (end["queries"] - 1), "50 pins of each of the others"
    assert end["python_blocks"] <= 1.05 * start["python_blocks"]
    assert end["open_files"] <= start["open_files"] + 2


def test_its_command_prints_every_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def run(**given: object) -> dict[str, object]:
        asked.update(given)
        return {"bench": "loop-year", "ratios": {}}

    monkeypatch.setattr("headgate_lab.bench.year.loop.run", run)
    command = ["bench", "loop-year", "--batches", "5000", "--folder", str(tmp_path), "--json"]
    result = CliRunner().invoke(main, command)
    assert json.loads(result.output)["bench"] == "loop-year"
    assert asked == {"batches": 5000, "folder": tmp_path}
