"""What a machine of the cluster has installed, and how Headgate is packed for it; without a cluster."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import headgate
from headgate.errors import BadArgument
from headgate.testing.cluster.packed import pack_headgate
from headgate.testing.cluster.python_env import make_environment
from headgate.testing.cluster.standalone import StandaloneCluster

pytestmark = pytest.mark.slow  # processes that are waited for


def _says(python: Path, code: str, path: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(python), "-c", code],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_an_environment_has_this_ones_packages_but_no_headgate(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env")
    assert _says(python, "import click").returncode == 0
    told = _says(python, "import headgate")
    assert "ModuleNotFoundError: No module named 'headgate'" in told.stderr
    archive = pack_headgate(tmp_path / "headgate.zip")
    told = _says(python, "import headgate; print(headgate.__file__)", str(archive))
    assert told.stdout.strip() == f"{archive}/headgate/__init__.py"


def test_an_environment_may_lack_a_package_and_have_another_headgate(tmp_path: Path) -> None:
    other = tmp_path / "other" / "headgate"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("__version__ = '0.0.9'\n")
    python = make_environment(tmp_path / "env", without=("headgate", "click"), headgate=other)
    assert "No module named 'click'" in _says(python, "import click").stderr
    told = _says(python, "import headgate; print(headgate.__version__)")
    assert told.stdout.strip() == "0.0.9"


def test_an_environment_may_have_a_clock_that_is_off(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env", clock_off_s=-300.0)
    before = time.time()
    told = _says(python, "import time; print(time.time(), time.time_ns() / 1e9)").stdout.split()
    after = time.time()
    assert len(told) == 2
    assert all(before <= float(one) + 300.0 <= after for one in told)


def test_the_same_sources_make_the_same_archive(tmp_path: Path) -> None:
    first, second = (pack_headgate(tmp_path / name) for name in ("a.zip", "b.zip"))
    assert first.read_bytes() == second.read_bytes()
    told = _says(Path(sys.executable), "import headgate; print(headgate.__version__)", str(first))
    assert told.stdout.strip() == headgate.__version__


def test_a_cluster_without_workers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match="workers=0"):
        StandaloneCluster.start(tmp_path, workers=0)
