"""`StandaloneCluster`: Spark's own master and workers, as processes that share no folder.

A worker stands for a machine: it has a folder with its work, its scratch, its home and its Python
environment, and finds its Python on its own ``PATH``. A driver that says ``PYSPARK_PYTHON=python3`` so
runs on each worker what that worker has installed, as on machines of their own. All listen on the
loopback interface only, and end with the process that started them. Where the whole of 127.0.0.0/8 is
loopback (Linux), each worker has an address of its own: Spark starts a second attempt at a slow task
(speculation) on another host only.

Spark itself is one installation that all of them run; nothing is ever written there.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from headgate.errors import BadArgument
from headgate.testing.artifacts import spark_home
from headgate.testing.cluster.python_env import HEADGATE, make_environment
from headgate.testing.tied_server import EndsWithBlock, TiedServer, free_ports

__all__ = ["StandaloneCluster", "Worker"]

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR = "CoarseGrainedExecutorBackend"


class _Daemon(TiedServer):
    """A process of the cluster, in its folder; `said` in its log means that it serves."""

    def __init__(
        self, name: str, folder: Path, host: str, words: list[str], environment: Mapping[str, str]
    ) -> None:
        self.called, self.folder, self.host = f"the {name}", folder, host
        for part in ("home", "tmp", "local", "conf"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        own = {
            "SPARK_HOME": str(spark_home()),
            "SPARK_CONF_DIR": str(folder / "conf"),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_DAEMON_MEMORY": "192m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "SPARK_LOCAL_IP": host,
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
        }
        command = [
            str(spark_home() / "bin" / "spark-class"),
            *words[:1],
            "--host",
            host,
            "--webui-port",
            "0",
        ]
        command += words[1:]
        super().__init__(command, folder / "log", folder=folder, environment=own | dict(environment))


class Worker(_Daemon):
    """One worker: a machine of its own, for all that Spark and Python can tell."""

    def __init__(
        self,
        number: int,
        folder: Path,
        master: str,
        size: tuple[int, str],
        environment: Mapping[str, str],
    ) -> None:
        [self._port] = free_ports(count=1)
        self.python = folder / "env" / "bin" / "python3"
        path = os.pathsep.join([str(self.python.parent), os.environ.get("PATH", os.defpath)])
        words = [_WORKER, "--port", str(self._port), "--cores", str(size[0]), "--memory", size[1]]
        words += ["--work-dir", str(folder / "work"), master]
        host = f"127.0.0.{number + 1}" if sys.platform == "linux" else "127.0.0.1"
        given = {"PATH": path, "PYTHONPATH": "", **environment}
        super().__init__(f"worker {number}", folder, host, words, given)

    @property
    def executors(self) -> list[int]:
        """The process ids of its executors, the oldest first."""
        listed = subprocess.run(
            ["ps", "-A", "-ww", "-o", "pid=,args="], capture_output=True, text=True, check=True
        )
        mine = re.compile(rf"^\s*(\d+)\s.*{_EXECUTOR}.*@{re.escape(self.host)}:{self._port}\b")
        found = [match[1] for line in listed.stdout.splitlines() if (match := mine.match(line))]
        return sorted(int(pid) for pid in found)

    def kill_executors(self) -> list[int]:
        """SIGKILL to each of them; those that were killed. The worker starts others in their place."""
        killed = []
        for pid in self.executors:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
        return killed


class StandaloneCluster(EndsWithBlock):
    """A master and workers; `master` is what a driver gives as ``--master``."""

    def __init__(self, folder: Path, memory: str, environment: Mapping[str, str]) -> None:
        self._folder, self._memory, self._environment = folder, memory, dict(environment)
        [port] = free_ports(count=1)
        self.master = f"spark://127.0.0.1:{port}"
        self.workers: list[Worker] = []
        words = [_MASTER, "--port", str(port)]
        self._master = _Daemon("master", folder / "master", "127.0.0.1", words, {})

    @classmethod
    def start(
        cls,
        folder: str | Path,
        *,
        workers: int = 2,
        cores: int = 1,
        memory: str = "1g",
        environment: Mapping[str, str] | None = None,
        clocks_off_s: Sequence[float] = (),
        timeout: float = 60.0,
    ) -> Self:
        """Start a master and `workers`, and return when all are registered.

        `environment` is what each worker, and so each executor, has in its environment besides.
        `clocks_off_s` is how far the clock of each worker's Python is ahead of this machine's.
        """
        if workers < 1 or cores < 1:
            raise BadArgument(f"workers={workers}, cores={cores}: give 1 or more of each")
        cluster = cls(Path(folder).absolute(), memory, environment or {})
        try:
            master = cluster._master
            master.await_ready(lambda: master.has_said("I have been elected leader"), timeout)
            for number in range(workers):
                off_s = clocks_off_s[number] if number < len(clocks_off_s) else 0.0
                cluster._add(cores, clock_off_s=off_s)
            for worker in cluster.workers:
                _await_registered(worker, timeout)
        except BaseException:
            cluster.stop()
            raise
        return cluster

    def add_worker(
        self, *, cores: int = 1, headgate: Path | None = None, without: Sequence[str] = (),
        timeout: float = 60.0,
    ) -> Worker:  # fmt: skip
        """One more machine: with a Headgate installed, or without a package that the others have."""
        worker = self._add(cores, headgate, without)
        _await_registered(worker, timeout)
        return worker

    def remove_worker(self, worker: Worker) -> None:
        """Switch the machine off, with its executors, and clear it away."""
        pids = worker.executors
        worker.kill()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.workers.remove(worker)
        shutil.rmtree(worker.folder, ignore_errors=True)

    def _add(
        self,
        cores: int,
        headgate: Path | None = None,
        without: Sequence[str] = (),
        clock_off_s: float = 0.0,
    ) -> Worker:
        number = 1 + max((int(w.folder.name.rpartition("-")[2]) for w in self.workers), default=0)
        folder = self._folder / f"worker-{number}"
        folder.mkdir(parents=True)
        make_environment(
            folder / "env",
            without=(*HEADGATE, *without),
            headgate=headgate,
            clock_off_s=clock_off_s,
        )
        size = cores, self._memory
        worker = Worker(number, folder, self.master, size, self._environment)
        self.workers.append(worker)
        return worker

    def stop(self) -> None:
        """Stop the workers with their executors, then the master."""
        for server in (*self.workers, self._master):
            server.stop()


def _await_registered(worker: Worker, timeout: float) -> None:
    worker.await_ready(lambda: worker.has_said("Successfully registered with master"), timeout)
