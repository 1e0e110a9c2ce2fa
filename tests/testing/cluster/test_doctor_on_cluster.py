"""A doctor on a cluster that is well, and on clusters that are not, each in its own way."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headgate
from tests.testing.cluster.bench import Machines, Trial

pytestmark = pytest.mark.spark


def findings(found: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {one["check"]: one for one in found["doctor"]["findings"]}


def check_report(report: dict[str, Any], machines: Machines) -> None:
    """What it finds on the cluster as it was started."""
    assert [f["check"] for f in report["findings"] if f["level"] == "problem"] == []
    assert len(report["executors"]) == 2
    assert {e["headgate"] for e in report["executors"]} == {headgate.__version__}
    assert all("headgate.zip" in e["headgate_from"] for e in report["executors"])
    assert all(e["store"]["sees_driver"] and e["java"] for e in report["executors"])
    folders = [worker.folder for worker in machines.cluster.workers]
    assert {Path(e["executable"]) for e in report["executors"]} == {
        f / "env/bin/python3" for f in folders
    }
    # Each is off by at least so much: the job took its time.
    behind, ahead = sorted(e["clock_off_s"] for e in report["executors"])
    assert -300.0 <= behind < -100.0
    assert 100.0 < ahead <= 301.0
    [said] = [f for f in report["findings"] if f["check"] == "clocks"]
    assert said["level"] == "warning"


@pytest.mark.long  # test_cluster.py has what it finds; this is the command as it is typed
def test_the_command_on_a_cluster_that_is_well(trial: Callable[[], Trial], tmp_path: Path) -> None:
    one = trial()
    machines = one.machines
    command = [sys.executable, "-m", "headgate", "doctor", "--control", one.control, "--json"]
    command += ["--master", machines.cluster.master, "--py-files", str(machines.archive)]
    command += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m"]
    environment = {**os.environ, **machines.environment, "PYSPARK_PYTHON": "python3"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, (done.stdout, done.stderr[-3000:])
    check_report(json.loads(done.stdout), machines)
    assert one.names("control/") == [], "it leaves nothing behind"


@pytest.mark.long
def test_workers_without_headgate(trial: Callable[[], Trial]) -> None:
    one = trial()
    installed = Path(headgate.__file__).parent
    found = one.submit("doctor", py_files=[], headgate=installed).result()
    said = findings(found)["headgate"]
    assert said["level"] == "problem"
    assert "Every executor (2) cannot import Headgate: ModuleNotFoundError" in said["found"]
    assert "docs/clusters.md" in said["next_step"]
    assert found["doctor"]["verdict"] == "problem"


@pytest.mark.long
def test_a_worker_with_another_version_and_one_that_lacks_a_package(
    trial: Callable[[], Trial], tmp_path: Path
) -> None:
    one = trial()
    other = tmp_path / "headgate"
    shutil.copytree(Path(headgate.__file__).parent, other, ignore=shutil.ignore_patterns("__pycache__"))
    init = other / "__init__.py"
    init.write_text(init.read_text().replace(headgate.__version__, "0.0.9"))
    cluster = one.machines.cluster
    worker = cluster.add_worker(headgate=other, without=["numba"])
    try:
        found = one.submit("doctor", py_files=[], headgate=Path(headgate.__file__).parent).result()
    finally:
        cluster.remove_worker(worker)
    executors = found["doctor"]["executors"]
    assert sorted(str(e["headgate"]) for e in executors) == ["0.0.9", "None", "None"]
    assert "2 of 3 executors" in findings(found)["headgate"]["found"]
    assert "numba" in findings(found)["join packages"]["found"]


@pytest.mark.long
def test_an_unreachable_store(trial: Callable[[], Trial]) -> None:
    one = trial()
    nowhere = {"spark.executorEnv.AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    found = one.submit("doctor", conf=nowhere).result()
    said = findings(found)["store on executors"]
    assert said["level"] == "problem"
    assert "2 of 2 executors cannot use the control store" in said["found"]
    assert "spark.executorEnv" in said["next_step"]
    assert findings(found)["store"]["level"] == "ok", "the driver can"


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/cwd is another folder in each process")
def test_a_folder_that_executors_do_not_share(trial: Callable[[], Trial]) -> None:
    one = trial()
    own = {"DOCTOR_CONTROL": "/proc/self/cwd/control"}
    found = one.submit("doctor", environment=own).result()
    said = findings(found)["store on executors"]
    assert said["level"] == "problem"
    assert "do not find what the driver wrote" in said["found"]
    assert "object store" in said["next_step"]
