"""The Java processes of this run: the tests' Spark, and the Sparks and brokers that tests start."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil

__all__ = ["java_stacks"]

#: Where a thread dump has said enough: a hang shows in its first lines.
_MOST = 60_000


def _java_below(pid: int) -> Iterator[psutil.Process]:
    for child in psutil.Process(pid).children(recursive=True):
        try:
            if Path(child.exe()).name == "java":
                yield child
        except psutil.Error:
            continue  # it has ended meanwhile


def _jcmd() -> str | None:
    home = os.environ.get("JAVA_HOME")
    beside = Path(home, "bin", "jcmd") if home else None
    return str(beside) if beside and beside.exists() else shutil.which("jcmd")


def java_stacks() -> str:
    """What every thread of every Java process below this one is doing."""
    jcmd = _jcmd()
    if jcmd is None:
        return "no jcmd on this machine (it comes with a JDK): the JVM's threads cannot be shown"
    found = []
    for process in _java_below(os.getpid()):
        command = [jcmd, str(process.pid), "Thread.print"]
        try:
            said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
            text = (said.stdout or said.stderr)[:_MOST]
        except (OSError, subprocess.TimeoutExpired) as error:
            text = f"jcmd failed: {error}"
        found.append(f"===== JVM {process.pid}\n{text}")
    return "\n".join(found) or "no Java process is running"
