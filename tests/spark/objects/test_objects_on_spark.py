"""Real queries whose control store is on an S3 server, in a process with that server's environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.testing.s3_toll import S3Toll
from tests.spark.rescued_query import check_rescued

ROOT = Path(__file__).parents[3]
ROWS, FILES = 1000, 2


@pytest.mark.timeout(600)  # beside others
def test_gates_a_guard_a_join_a_rescue_and_a_backfill_with_control_on_s3(
    s3: str, toll: S3Toll, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    for file in range(FILES):
        ids = range(file * ROWS, (file + 1) * ROWS)
        lines = [json.dumps({"id": i, "route": f"r{i % 4}", "at": "2030-01-01"}) for i in ids]
        (tmp_path / "in" / f"{file}.json").write_text("\n".join(lines))
    script = Path(__file__).with_name("objects_script.py")
    command = [sys.executable, str(script), str(tmp_path), s3]
    paths = (str(ROOT), os.environ.get("PYTHONPATH", ""))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=560, check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    audits = found["audits"]
    assert sorted(audits) == ["fifth", "first", "fourth", "second", "third"]
    for name, audit in audits.items():
        assert audit["complete"], (name, audit)
    assert (audits["first"]["arrived"], audits["first"]["batches"]) == (FILES * ROWS, FILES)
    assert audits["second"]["arrived"] == audits["first"]["kept"]
    assert audits["third"]["arrived"] == audits["second"]["kept"]
    assert found["twice"] == 1, "the batch that ran again is recorded again, and keeps the same rows"
    assert found["joined"] == FILES * ROWS
    assert (found["site"]["site"], found["site"]["stopped"]) == ("here", True)
    assert audits["fifth"]["arrived"] == FILES * ROWS
    assert (found["missed"], found["both"]) == (audits["first"]["shed"], 0)
    assert found["set"]["settings"]["rate"] == 0.25
    assert found["status"]["first"]["queries"][0]["batches"] == FILES
    assert found["status"]["third"]["kind"] == "guard"
    assert found["verify"]["balanced"]
    assert len(found["shown"][0]["records"]) == FILES
    check_rescued(found["rescued"], FILES * ROWS)
    assert toll.counts["claim"] > 0
    assert not list(tmp_path.rglob("lease.json")), "nothing of it is on this disk"
    print(found["seconds"], toll.counts)


def test_without_credentials_in_the_environment_the_call_says_so(
    s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headgate.errors import ControlFolderError
    from headgate.store.folder import open_control_folder
    from headgate.store.places.objects import Objects

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(Objects, "_open", {})
    with pytest.raises(ControlFolderError, match="cannot be used"):
        open_control_folder(s3)
