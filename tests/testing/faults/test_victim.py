"""A victim dies with what it started, and its workers die alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.testing.faults.victim import Victim
from tests.eventually import eventually

#: A driver with a "JVM" in its group and a "daemon" in a group of its own, which has a worker.
_DRIVER = """
import os, subprocess, sys, time
sleep = "import time; time.sleep(300)"
jvm = subprocess.Popen([sys.executable, "-c", sleep])
code = "import os, time; os.setpgid(0, 0); os.fork() and print(flush=True); time.sleep(300)"
daemon = subprocess.Popen([sys.executable, "-c", code, "pyspark" + ".daemon"], stdout=subprocess.PIPE)
daemon.stdout.readline()
print(jvm.pid, daemon.pid, flush=True)
time.sleep(300)
"""


def _alive(pid: int) -> bool:
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(found.stdout.strip()) and not found.stdout.startswith("Z")


def _started(folder: Path) -> tuple[Victim, list[int]]:
    log = folder / "log"
    victim = Victim([sys.executable, "-c", _DRIVER], log)
    eventually(lambda: log.exists() and log.read_text().endswith("\n"), "that all have started")
    return victim, [int(pid) for pid in log.read_text().split()]


def test_its_group_dies_at_once(tmp_path: Path) -> None:
    victim, (jvm, daemon) = _started(tmp_path)
    try:
        victim.kill()
        assert victim.code == -signal.SIGKILL
        eventually(lambda: not _alive(jvm), "that the JVM is gone")
    finally:
        os.killpg(daemon, signal.SIGKILL)


def test_its_workers_die_alone(tmp_path: Path) -> None:
    victim, (jvm, daemon) = _started(tmp_path)
    with victim:
        assert victim.kill_workers() == 2, "the daemon and its worker"
        eventually(lambda: not _alive(daemon), "that they are gone")
        assert _alive(jvm)
        assert victim.code is None


def test_it_does_not_outlive_its_block(tmp_path: Path) -> None:
    victim, (jvm, daemon) = _started(tmp_path)
    try:
        with pytest.raises(KeyboardInterrupt), victim:
            raise KeyboardInterrupt
        assert victim.code == -signal.SIGKILL
        eventually(lambda: not _alive(jvm), "that the JVM is gone")
    finally:
        os.killpg(daemon, signal.SIGKILL)
