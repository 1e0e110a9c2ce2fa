"""A Spark session that says nothing: for a command whose output people and programs read."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from headgate.errors import UnsupportedSpark
from headgate.spark.session import check_spark_version  # first: it says which extra is missing

# isort: split
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

__all__ = ["quiet_session"]


@contextlib.contextmanager
def quiet_session(scratch: Path, memory: str = "2g") -> Iterator[SparkSession]:
    """A local session on two cores, stopped at the end; what the JVM prints goes to a file.

    The JVM and the Python workers that it starts inherit this process's standard output and error
    for good, so both point at ``scratch/spark.log`` while it starts, and back again afterwards.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    scratch.mkdir(parents=True, exist_ok=True)
    log = scratch / "spark.log"
    try:
        with _output_to(log):
            spark = _builder(scratch, memory).getOrCreate()
    except (PySparkException, OSError, RuntimeError) as error:
        raise UnsupportedSpark(
            f"Spark did not start ({error}): it needs Java 17 or newer, found through JAVA_HOME or "
            f"PATH. The last it said: {_tail(log)}"
        ) from error
    try:
        check_spark_version(spark.version)
        spark.sparkContext.setLogLevel("OFF")
        yield spark
    finally:
        with contextlib.suppress(Exception):  # the JVM may have gone with the same Ctrl-C
            spark.stop()


def _builder(scratch: Path, memory: str) -> SparkSession.Builder:
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        # Workers that answer over a socket file instead of TCP read the plan 30 ms sooner.
        "spark.python.unix.domain.socket.enabled": "true",
    }
    return SparkSession.builder.master("local[2]").appName("headgate-demo").config(map=settings)


@contextlib.contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Point standard output and error, of this process and those it starts, at a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(file, 1)
        os.dup2(file, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, before in zip((1, 2), saved, strict=True):
            os.dup2(before, number)
            os.close(before)
        os.close(file)


def _tail(log: Path, lines: int = 3) -> str:
    try:
        found = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        found = []
    return " / ".join(found[-lines:]) or "nothing"
