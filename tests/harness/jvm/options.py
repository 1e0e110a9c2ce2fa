"""How every JVM of a run is started, also those of Sparks that tests start as processes of their own."""

from __future__ import annotations

import os

__all__ = ["add_options", "pytest_configure"]

#: The simple compiler and the simple collector: a run is thousands of short queries on small data, and
#: on two cores it is the optimising compiler and the collector's threads that it would wait for.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: What each Spark of a run is set to, unless its session says otherwise. None of it changes a row.
_SPARK = {
    # At each operation on a column PySpark asks for the session and for a setting, and tells the JVM the
    # line of code that it stands on: ten calls instead of one, for the text of errors alone.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
}


def add_options(options: str, name: str = "SPARK_SUBMIT_OPTS") -> None:
    """To be given to each JVM from now on; once, though every process of the run asks for it."""
    given = os.environ.get(name, "")
    if options not in given:
        os.environ[name] = f"{given} {options}".strip()


def pytest_configure() -> None:
    add_options(_QUICK)
    # The JVM that does no more than put Spark's command together.
    add_options(_QUICK, "SPARK_LAUNCHER_OPTS")
    add_options(" ".join(f"-D{name}={value}" for name, value in _SPARK.items()))
