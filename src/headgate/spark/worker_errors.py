"""What Spark says when a Python worker cannot run something, in one line."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException

__all__ = ["said_by_spark", "said_by_worker"]

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
