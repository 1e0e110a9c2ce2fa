"""How every JVM of a run is started, also those of Sparks that tests start as processes of their own."""

from __future__ import annotations

import os

from tests.harness.jvm.class_archive import option

__all__ = ["FOR_LONG", "add_options", "pytest_configure"]

#: The simple compiler and the simple collector: a run is thousands of short queries on small data, and
#: on two cores it is the optimising compiler and the collector's threads that it would wait for. The
#: simple compiler alone has 48 MiB for its code unless told: Spark fills that in minutes, and from then
#: on a JVM throws code away and compiles it again (after eight minutes of a run it had compiled 68,000
#: methods, and had 21,000). And a JVM that begins with little room for classes collects all of its
#: heap whenever it needs more.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=400m -XX:MetaspaceSize=400m -XX:+UseSerialGC"
#: The session of a run lives for ten minutes of a core and more, so that optimising what is called most
#: can pay: in a trial it cost some 40 core seconds at first, and saved a quarter of later modules'. The
#: thresholds are four times the usual ones, which cost less and saved as much.
FOR_LONG = " ".join(
    (
        "-XX:TieredStopAtLevel=4",
        *("-XX:Tier4InvocationThreshold=20000", "-XX:Tier4MinInvocationThreshold=4000"),
        *("-XX:Tier4CompileThreshold=60000", "-XX:Tier4BackEdgeThreshold=160000"),
    )
)
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
    add_options(option())
    add_options(_QUICK, "HEADGATE_SERVER_JAVA_OPTS")
    # The JVM that does no more than put Spark's command together.
    add_options(_QUICK, "SPARK_LAUNCHER_OPTS")
    add_options(" ".join(f"-D{name}={value}" for name, value in _SPARK.items()))
