"""A JVM that dies under a run: a run of pytest inside of a test, with a real session that is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.spark]

ROOT = Path(__file__).resolve().parents[2]

_SESSION = """
import pytest

@pytest.fixture(scope="session")
def spark():
    from pyspark.sql import SparkSession
    from tests.harness.jvm.death import java_has_ended

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.memory", "512m").getOrCreate()
    yield session
    if not java_has_ended():
        session.stop()
"""
_TESTS = """
import os
import pytest

@pytest.fixture(scope="module")
def rows(spark):
    return spark.range(5)

def _columns(rows):
    return rows._jdf.schema().size()  # asks the JVM each time, and starts no job

def _kill():
    from pyspark import SparkContext
    SparkContext._gateway.proc.kill()

def _times(path):
    with open(path, "a") as file:
        file.write(".")
    return os.path.getsize(path)

def test_before(rows):
    assert _columns(rows) == 1

def test_that_it_dies_under(rows, pytestconfig):
    if _times(pytestconfig.rootpath / "first") == 1:
        _kill()
    assert _columns(rows) == 1

def test_between(rows):
    assert _columns(rows) == 1

def test_that_it_dies_under_again(rows, pytestconfig):
    if _times(pytestconfig.rootpath / "second") == 1:
        _kill()
    assert _columns(rows) == 1

def test_after(rows, spark):
    assert _columns(rows) == _columns(spark.range(5))

def test_that_is_wrong(rows):
    assert _columns(rows) == 2
"""


def test_one_death_is_told_and_survived_and_a_second_one_fails_its_test_alone(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(_SESSION)
    (tmp_path / "test_inner.py").write_text(_TESTS)
    options = ["-q", "-rA", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-c", "/dev/null"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        "HEADGATE_TEST_RUN": str(tmp_path / "run"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-p", "tests.harness.jvm.death"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert "2 failed, 4 passed" in done.stdout, done.stdout + done.stderr
    assert "FAILED test_inner.py::test_that_it_dies_under_again" in done.stdout
    assert "FAILED test_inner.py::test_that_is_wrong" in done.stdout
    told = done.stdout.partition("its session was made again")[2]
    assert "SIGKILL) under test_inner.py::test_that_it_dies_under\n" in told
    assert "SIGKILL) under test_inner.py::test_that_it_dies_under_again\n" in told
    assert "MiB are free" in told
