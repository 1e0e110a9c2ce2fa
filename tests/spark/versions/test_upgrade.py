"""A query that moves from the oldest Spark to the newest goes on with its checkpoint and its plans."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headgate.spark.versions.supported import NEWEST, OLDEST, SparkVersion, installed

ROOT = Path(__file__).parents[3]
OLD_PYTHON = ROOT / f".venv-spark-{OLDEST}" / "bin" / "python"


def _run(python: str, folder: Path, run: str) -> dict[str, Any]:
    script = Path(__file__).with_name("upgrade_script.py")
    environment = {**os.environ, "PYSPARK_PYTHON": python}
    command = [python, str(script), str(folder), run]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=250, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _add(folder: Path, number: int) -> None:
    rows = [{"id": 1000 * number + i, "route": f"r{i % 5}"} for i in range(1000)]
    (folder / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))


@pytest.mark.matrix
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_replay_on_the_newest_spark_keeps_what_the_oldest_kept(tmp_path: Path) -> None:
    if installed() != NEWEST or not OLD_PYTHON.exists():
        pytest.skip(f"runs on Spark {NEWEST}, beside {OLD_PYTHON.parents[1].name} (make matrix)")
    (tmp_path / "in").mkdir()
    for number in range(3):
        _add(tmp_path / "in", number)
    before = _run(str(OLD_PYTHON), tmp_path, "before")
    assert SparkVersion.read(before["spark"]) == OLDEST
    # As if that Spark had been killed before its last batch was committed.
    commits = tmp_path / "checkpoint" / "commits"
    (commits / "2").unlink()
    (commits / ".2.crc").unlink(missing_ok=True)
    _add(tmp_path / "in", 3)
    after = _run(sys.executable, tmp_path, "after")
    assert SparkVersion.read(after["spark"]) == NEWEST
    replayed = json.loads((tmp_path / "after" / "2.json").read_text())
    assert replayed == json.loads((tmp_path / "before" / "2.json").read_text())
    assert 150 < len(replayed) < 350
    assert sorted(path.name for path in (tmp_path / "after").iterdir()) == ["2.json", "3.json"]
    for gate in after["audits"]:
        assert gate["complete"], gate
        assert gate["batches"] == 4
