"""A Spark session that says nothing: for a command whose output people and programs read."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from headgate.errors import UnsupportedSpark
from headgate.spark.session import check_session  # first: it says which extra is missing
from headgate.spark.versions.checkpoint_files import by_file_system

# isort: split
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

__all__ = ["LOCAL_CHECKPOINTS", "quiet_session"]

_Settings = dict[str, bool | float | int | str | None]

#: Where Hadoop's native library is not to be had, its local file system starts processes to look at a
#: file's mode and to change it: twenty for each file of a stream's checkpoint, and a batch writes two or
#: more. With this setting it is four. On a cluster, checkpoints are not on local disks.
LOCAL_CHECKPOINTS: _Settings = {**by_file_system()}


@contextlib.contextmanager
def quiet_session(
    scratch: Path,
    memory: str = "2g",
    *,
    master: str = "local[2]",
    name: str = "headgate-demo",
    more: _Settings | None = None,
    log: Path | None = None,
    prints: int | None = None,
) -> Iterator[SparkSession]:
    """A session, stopped at the end: local on two cores unless told; what the JVM prints goes to a file.

    The JVM and the Python workers that it starts inherit this process's standard output and error
    for good, so both point at `log` (``scratch/spark.log``) while it starts, and back again afterwards.
    On a cluster the workers' Python is the one that PYSPARK_PYTHON names, if it is set. `more` are
    settings of Spark's that go before these. `prints` is a file's number, for what a console sink writes
    to the JVM's standard output.
    """
    here = master.startswith("local")
    if here or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    scratch.mkdir(parents=True, exist_ok=True)
    log = log or scratch / "spark.log"
    settings = _quiet(scratch, memory) | (_this_machine(scratch) if here else {}) | (more or {})
    try:
        with _output_to(log, prints):
            spark = SparkSession.builder.master(master).appName(name).config(map=settings).getOrCreate()
    except (Py4JJavaError, PySparkException, OSError, RuntimeError) as error:
        raise UnsupportedSpark(
            f"Spark did not start on master={master!r} ({_reason(error)}): it needs Java 17 or newer, "
            "found through JAVA_HOME or PATH, and a master that answers, such as local[2] or "
            f"spark://HOST:PORT. The last it said: {_tail(log)}"
        ) from error
    try:
        check_session(spark)
        spark.sparkContext.setLogLevel("WARN")
        yield spark
    finally:
        with contextlib.suppress(Exception):  # the JVM may have gone with the same Ctrl-C
            spark.stop()


def _quiet(scratch: Path, memory: str) -> _Settings:
    return {
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }


def _this_machine(scratch: Path) -> _Settings:
    """What would be wrong on a cluster: the loopback interface, and folders of this machine."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch / "local"),
        # Workers that answer over a socket file instead of TCP read the plan 30 ms sooner.
        "spark.python.unix.domain.socket.enabled": "true",
        **LOCAL_CHECKPOINTS,
    }


@contextlib.contextmanager
def _output_to(path: Path, prints: int | None = None) -> Iterator[None]:
    """Point standard output and error, of this process and those it starts, at a file.

    Standard output at another one, `prints`, where that is given.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(file if prints is None else prints, 1)
        os.dup2(file, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, before in zip((1, 2), saved, strict=True):
            os.dup2(before, number)
            os.close(before)
        os.close(file)


def _reason(error: Exception) -> str:
    """One line; what came out of the JVM is long."""
    text = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else str(error)
    return str(text).strip().partition("\n")[0]


def _tail(log: Path, lines: int = 3) -> str:
    """The last lines, but for warnings and for those that only say where in Java."""
    try:
        found = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    except OSError:
        found = []
    said = [s for s in found if s and not s.startswith(("at ", "... ")) and " WARN " not in s]
    return " / ".join(said[-lines:]) or "nothing"
