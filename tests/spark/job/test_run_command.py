"""``headgate init`` and ``headgate run`` as people type them, on a Spark of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import gates_in
from tests.eventually import eventually


def _headgate(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "headgate", *arguments]


def test_what_init_writes_runs_until_it_is_told_to_end(tmp_path: Path) -> None:
    """And ctrl-C, which a terminal sends to Spark's JVM too, ends it in order."""
    source = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(_headgate("init"), cwd=tmp_path, env={**os.environ, **source}, check=True)
    assert done.returncode == 0
    with (tmp_path / "stdout").open("w") as out, (tmp_path / "stderr").open("w") as err:
        running = subprocess.Popen(
            _headgate("run", "job.toml", "--json", "--for", "4 minutes"),
            cwd=tmp_path,
            env={**os.environ, **source},
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            control = tmp_path / "out" / "job" / "control"

            def rows() -> bool:
                assert running.poll() is None, (tmp_path / "stderr").read_text()
                return control.exists() and "rides" in gates_in(control) and _arrived(control) > 2000

            eventually(rows, "two seconds' rows in the ledger", within_s=180.0)
            os.killpg(running.pid, signal.SIGINT)
            code = running.wait(120)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
    said = (tmp_path / "stderr").read_text()
    assert code == 0, said
    told = json.loads((tmp_path / "stdout").read_text())
    assert told["ok"]
    assert told["pipeline"]["target"] == "hold 2 seconds"
    run = told["run"]
    assert (run["ended"], run["verdict"], run["error"]) == ("stopped", "balanced", "")
    (one,) = audit(control, "rides")
    assert one.verdict == "balanced"
    assert (run["arrived"], run["kept"]) == (one.arrived, one.kept)
    assert run["arrived"] == run["kept"] + run["shed"] > 2000
    assert "route-3" in said, "what the console sink prints"
    assert "WARN" not in said, "Spark's own words are in the log"
    assert (tmp_path / "job.log").exists()


def _arrived(control: Path) -> int:
    return sum(one.arrived for one in audit(control, "rides"))
