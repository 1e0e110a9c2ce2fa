"""`Driver`: a script that ``spark-submit`` runs on a cluster, in a folder and an environment of its own.

Headgate reaches the driver and its executors in the archive that ``--py-files`` names, as on a cluster
on which it is not installed: neither side sees this process's site-packages.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate.testing.artifacts import spark_home
from headgate.testing.cluster.python_env import make_environment
from headgate.testing.tied_server import ServerFailed, TiedServer, tail

__all__ = ["Driver", "DriverFailed"]


class DriverFailed(ServerFailed):
    """A driver ended with an error; the message ends with the tail of its log."""


class Driver(TiedServer):
    """One run of a script. What it prints as its last line, as JSON, is its `result`."""

    called = "the driver"
    failure = DriverFailed

    def __init__(
        self,
        folder: str | Path,
        script: str | Path,
        arguments: Sequence[str],
        *,
        master: str,
        conf: Mapping[str, str],
        py_files: Sequence[Path] = (),
        headgate: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start `script` in `folder`, with the packages of this process but for Headgate.

        `headgate` installs one in the driver's environment; else it comes in `py_files`, or not at all.
        """
        self.folder = Path(folder).absolute()
        for part in ("home", "tmp", "local", "conf"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        python = make_environment(self.folder / "env", headgate=headgate)
        own = {
            "SPARK_HOME": str(spark_home()),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "PYTHONPATH": "",
            "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)]),
            # By its name: each machine finds its own.
            "PYSPARK_PYTHON": "python3",
            "PYSPARK_DRIVER_PYTHON": str(python),
        }
        told = {
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            **conf,
        }
        command = [str(spark_home() / "bin" / "spark-submit"), "--master", master]
        for name, value in told.items():
            command += ["--conf", f"{name}={value}"]
        if py_files:
            command += ["--py-files", ",".join(str(path) for path in py_files)]
        command += [str(script), *arguments]
        log = self.folder / "log"
        super().__init__(command, log, folder=self.folder, environment=own | dict(environment or {}))

    def result(self, timeout: float = 270.0) -> Any:
        """What it found, when it has ended in order; `DriverFailed` if it did not."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise DriverFailed(
                f"the driver did not end in {timeout:g} s; the end of {self.log}:\n{tail(self.log, 60)}"
            ) from None
        if code != 0:
            raise DriverFailed(
                f"the driver ended with code {code}; the end of {self.log}:\n{tail(self.log, 60)}"
            )
        lines = [
            line for line in self.log.read_text(errors="replace").splitlines() if line.startswith("{")
        ]
        if not lines:
            raise DriverFailed(f"the driver printed no result; the end of {self.log}:\n{tail(self.log)}")
        return json.loads(lines[-1])
