"""Gates, guard, join, rescue and estimates over Connect, in a process that has one kind of session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.spark.versions.supported import OLDEST, installed
from tests.spark.rescued_query import check_rescued

pytest.importorskip("grpc", reason="pip install 'headgate[connect]'")

ROOT = Path(__file__).parents[3]
FILES = 2
ROWS = FILES * 1000


@pytest.mark.matrix
@pytest.mark.timeout(600)  # a minute by itself, and four beside others
def test_gates_a_guard_a_join_a_rescue_and_estimates_work_over_connect_and_the_process_ends(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").mkdir()
    for file in range(FILES):
        ids = range(file * 1000, (file + 1) * 1000)
        lines = [json.dumps({"id": i, "route": f"r{i % 4}", "at": "2030-01-01"}) for i in ids]
        (tmp_path / "in" / f"{file}.json").write_text("\n".join(lines))
    script = Path(__file__).with_name("connect_script.py")
    command = [sys.executable, str(script), str(tmp_path)]
    paths = (str(ROOT), os.environ.get("PYTHONPATH", ""))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=560, check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    fifth, first, fourth, second, *sixth, third = found["audits"]
    assert (first["arrived"], first["batches"]) == (ROWS, FILES)
    assert first["complete"]
    assert first["witnessed"] == FILES
    for name, text in zip(("again", "later"), found["refused"], strict=True):
        assert f" {name} is made by" in text
    assert second["complete"]
    assert second["arrived"] == first["kept"]
    assert third["complete"]
    assert third["arrived"] == second["kept"]
    assert fourth["complete"]
    assert fourth["arrived"] == third["kept"]
    assert fourth["kept"] == pytest.approx(0.5 * fourth["arrived"], rel=0.1)
    assert fifth["complete"]
    assert (fifth["arrived"], fifth["kept"]) == (fourth["kept"], found["rows"])
    assert found["counted"] == ROWS
    if installed() == OLDEST:
        assert not sixth
        assert "join 'sixth' over Connect needs Spark 4.1" in found["joined"]
    else:
        assert found["joined"] == ROWS
        assert sixth[0]["complete"]
        assert sixth[0]["arrived"] == sixth[0]["kept"] > 0
    assert "over Connect" in found["rescued"]["refused"]
    assert "checkpoint=" in found["rescued"]["refused"]
    check_rescued(found["rescued"], ROWS)
    assert found["batch"] == pytest.approx(0.5 * ROWS, rel=0.13)
    name, *estimates = found["estimates"]
    assert name == "mean(y)"
    assert estimates == [[0, 499.0, 0.0, 500.0, 499.0], [1, 500.0, 10.01, 1250.0, 500.0]]
