"""`Victim`: a driver in a process of its own, made to be killed.

Nothing in it is told beforehand: SIGKILL runs no handler, flushes no file and gives no lease back. The
driver's Python and its JVM go at once. Spark's Python workers are a group of their own, and end by
themselves when they notice; until then they may still write, as on a cluster.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from headgate.testing.tied_server import EndsWithBlock

__all__ = ["Victim"]


class Victim(EndsWithBlock):
    """`command`, started in a session of its own; what it says goes to `log`.

    Used in a ``with``, it does not outlive the block, however that ends.

    >>> import sys
    >>> with Victim([sys.executable, "-c", "input()"], Path("/dev/null")) as driver:
    ...     driver.kill()
    ...     driver.code
    -9
    """

    def __init__(
        self, command: list[str], log: Path, *, environment: Mapping[str, str] | None = None
    ) -> None:
        with open(log, "ab") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=None if environment is None else dict(environment),
            )

    @property
    def pid(self) -> int:
        """Of the process, and of its group."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    def wait(self, within_s: float) -> int:
        """Its exit code, as soon as it has one; after `within_s` seconds `subprocess.TimeoutExpired`."""
        return self._process.wait(within_s)

    def kill(self) -> None:
        """SIGKILL to all of its group: the driver, and the JVM that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_workers(self) -> int:
        """SIGKILL to Spark's Python workers alone; how many there were.

        Their tasks fail, and Spark runs them again where the master allows it: with ``local[2,4]`` a
        task may fail three times.
        """
        killed = 0
        for pid in _below(self._process.pid, "pyspark.daemon"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        return killed

    def stop(self) -> None:
        """Kill it, if it still runs; safe to call again."""
        self.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()


def _below(root: int, what: str) -> list[int]:
    """Processes that descend from one, whose command line has `what` in it."""
    found = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    )
    parents: dict[int, int] = {}
    named = []
    for line in found.stdout.splitlines():
        pid, parent, *words = line.split(None, 2)
        parents[int(pid)] = int(parent)
        if words and what in words[0]:
            named.append(int(pid))
    return [pid for pid in named if _descends(pid, root, parents)]


def _descends(pid: int, root: int, parents: Mapping[int, int]) -> bool:
    while pid in parents and pid != root:
        pid = parents[pid]
    return pid == root
