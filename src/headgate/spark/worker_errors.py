"""What Spark says when a Python worker cannot run something, in one line."""

from __future__ import annotations

import re
import shlex
import shutil
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headgate.spark.session import is_connect

__all__ = ["pythons_text", "said_by_spark", "said_by_worker", "workers_python"]

#: What a person can do something about, in the pages that Java and Python print.
_CAUSE = re.compile(
    r"(Cannot run program .*|ModuleNotFoundError: .*|ImportError: .*|PermissionError: .*"
    r"|OSError: control folder .*)"
)


def said_by_spark(error: Exception) -> str | None:
    """The cause, as far as Spark tells; None if the error is not Spark's.

    >>> said_by_spark(ValueError("cannot pickle that")) is None
    True
    """
    # Before a worker runs at all Spark raises py4j's own error, which Connect does not know.
    from_java = type(error).__module__.partition(".")[0] == "py4j"
    if not from_java and not isinstance(error, PySparkException):
        return None
    text = str(error).strip()
    found = _CAUSE.search(text)
    return found[1].strip() if found else (text.splitlines() or [type(error).__name__])[0]


def workers_python(spark: SparkSession) -> str | None:
    """The Python that a session's workers are started with; None where only a server knows it."""
    return None if is_connect(spark) else str(spark.sparkContext.pythonExec)


def pythons_text(workers: str | None, driver: str = sys.executable) -> str:
    """Which Python is whose, and what to type so that both are one: a sentence, and a space.

    A virtual environment's Python is often a link to the system's: paths are compared, not files.

    >>> pythons_text("/nosuch/python3", "/app/.venv/bin/python").partition(": ")[2]
    'export PYSPARK_PYTHON=/app/.venv/bin/python (on a cluster, the path that executors have it at). '
    """
    if workers is None:  # a Connect server's, which it alone knows
        return ""
    found = shutil.which(workers) or workers
    if found == driver:
        return f"The workers' Python is {found!r}, as this program's is. "
    here = "" if found == workers else f" (here {found!r})"
    return (
        f"The workers' Python is {workers!r}{here}, and this program's is {driver!r}. If the workers "
        f"should have that one, before Spark starts: export PYSPARK_PYTHON={shlex.quote(driver)} "
        "(on a cluster, the path that executors have it at). "
    )


_REFUSED = re.compile(r"(?:ShapeChanged|OwnedElsewhere|NamedTwice|RescueRefused): ((?:gate|guard) .*)")


def said_by_worker(error: BaseException | None) -> str | None:
    """What a worker said that would not run a batch; None if it ended of something else.

    That is `ShapeChanged`, `OwnedElsewhere`, `NamedTwice` or `RescueRefused`. Spark says only that a
    stream's subquery failed; why is in the causes.
    """
    while error is not None:
        found = _REFUSED.search(str(error))
        if found is not None:
            return found[1]
        error = getattr(error, "_cause", None)
    return None
