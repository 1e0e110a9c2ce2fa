"""A hang has a name: runs of pytest inside of a test, with tests that hang."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

_WITH_A_JVM = """
import subprocess, time
from pathlib import Path
import pyspark, pytest

@pytest.fixture(scope="module")
def jvm():
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    command = ["java", "-Xmx64m", "-cp", str(jars), "py4j.GatewayServer", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    process.stdout.readline()  # it serves
    yield process
    process.kill()

def waits_for_ever():
    time.sleep(600)

def test_that_hangs(jvm):
    waits_for_ever()

def test_behind_it():
    pass
"""

_THAT_CANNOT_BE_FAILED = """
import signal, time

def test_that_no_signal_reaches():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    time.sleep(600)
"""

_THAT_FAILS_WHILE_SPARK_COMPLAINS = """
import os
from pathlib import Path

def test_that_fails():
    log = Path(os.environ["HEADGATE_TEST_RUN"], "spark.log")
    log.write_text("12:00:00.000 1 WARN TaskSetManager: Lost task 0.0 in stage 1.0\\n")
    assert False
"""


def _run(
    tmp_path: Path, code: str, *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:

    (tmp_path / "test_inner.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    command += [
        "-c",
        "/dev/null",
        "-p",
        "tests.harness.hangs",
        "-p",
        "tests.harness.spark_log",
        *options,
    ]
    told = {
        **{k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        "HEADGATE_TEST_RUN": str(tmp_path / "run"),
    }
    told |= environment
    return subprocess.run(
        [*command, str(tmp_path / "test_inner.py")],
        cwd=tmp_path, env=told, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


def test_a_hanging_test_fails_with_the_stacks_of_python_and_java_and_the_run_goes_on(
    tmp_path: Path,
) -> None:
    done = _run(tmp_path, _WITH_A_JVM, "--timeout=12", "--timeout-method=signal")
    assert done.returncode == 1, done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert "test_that_hangs" in done.stdout
    assert "waits_for_ever" in done.stdout, "Python's stack"
    assert "Java's threads at the time limit" in done.stdout
    assert "Full thread dump" in done.stdout or "no jcmd on this machine" in done.stdout


def test_a_test_that_cannot_be_failed_ends_the_run_and_is_named(tmp_path: Path) -> None:
    done = _run(tmp_path, _THAT_CANNOT_BE_FAILED, "--timeout=2", HEADGATE_TEST_GRACE_S="3")
    assert done.returncode == 3, done.stdout
    assert "test_that_no_signal_reaches did not end" in done.stderr
    assert "time.sleep" not in done.stderr, "stacks are of lines, not of sources"
    assert "test_inner.py" in done.stderr
    assert "test_that_no_signal_reaches" in (tmp_path / "run" / "hang.txt").read_text()


def test_a_failing_test_shows_what_spark_said_meanwhile(tmp_path: Path) -> None:
    done = _run(tmp_path, _THAT_FAILS_WHILE_SPARK_COMPLAINS)
    assert done.returncode == 1, done.stdout
    assert "Spark, WARN and above" in done.stdout
    assert "Lost task 0.0 in stage 1.0" in done.stdout


@pytest.mark.parametrize("level", ["warn", "error"])
def test_the_runs_spark_writes_warnings_to_the_runs_file(spark: object, level: str) -> None:
    from tests.harness.folder import run_folder

    said = f"a sentence at {level}"
    getattr(spark._jvm.org.slf4j.LoggerFactory.getLogger("headgate"), level)(said)  # type: ignore[attr-defined]
    assert said in (run_folder() / "spark.log").read_text()
