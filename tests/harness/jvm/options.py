"""How every JVM of a run is started, also those of Sparks that tests start as processes of their own."""

from __future__ import annotations

import os

__all__ = ["add_options", "pytest_configure"]

#: The simple compiler and the simple collector: a run is thousands of short queries on small data, and
#: on two cores it is the optimising compiler and the collector's threads that it would wait for.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def add_options(options: str) -> None:
    """To be given to each JVM from now on; once, though every process of the run asks for it."""
    given = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if options not in given:
        os.environ["SPARK_SUBMIT_OPTS"] = f"{given} {options}".strip()


def pytest_configure() -> None:
    add_options(_QUICK)
