"""A child that is tied to its starter ends with it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headgate.testing.tied_process import kill_tied, start_tied

pytestmark = pytest.mark.slow  # processes that are waited for

#: A child that says who it is, and then stays; `deaf` to SIGTERM if asked.
CHILD = """
import os, signal, sys, time
if "deaf" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
time.sleep(600)
"""
STARTER = """
import sys, time
from headgate.testing.tied_process import start_tied
with open(sys.argv[1], "wb") as sink:
    start_tied([sys.executable, "-c", sys.argv[2], *sys.argv[3:]], sink)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits to be collected does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return not state.stdout.strip().startswith("Z") and state.returncode == 0


def pid_in(path: Path) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and path.read_text().endswith("\n"):
            return int(path.read_text())
        time.sleep(0.02)
    raise AssertionError(f"the child never spoke: {path.read_text()}")


def gone(pid: int, within_s: float = 30.0) -> bool:
    deadline = time.monotonic() + within_s
    while alive(pid):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("how", [[], ["deaf"]], ids=["willing", "deaf"])
def test_a_starter_that_is_killed_takes_its_child_with_it(tmp_path: Path, how: list[str]) -> None:
    said = tmp_path / "said"
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(said), CHILD, *how])
    child = pid_in(said)
    assert alive(child)
    starter.kill()
    starter.wait()
    assert gone(child)


def test_the_handle_stops_the_child_and_has_its_exit_code(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with said.open("wb") as sink:
        process = start_tied([sys.executable, "-c", CHILD], sink)
        ended = start_tied([sys.executable, "-c", "raise SystemExit(7)"], sink)
    assert ended.wait(60) == 7
    child = pid_in(said)
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGTERM
    assert gone(child)


def test_both_can_be_killed(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with said.open("wb") as sink:
        process = start_tied([sys.executable, "-c", CHILD, "deaf"], sink)
    child = pid_in(said)
    kill_tied(process)
    process.wait(60)
    assert gone(child)
    kill_tied(process)  # again: nothing to do
