"""The plan of a frame as Spark has analysed it: objects in a classic session, text in any.

Both are Spark's own, and may change: whoever asks must be able to do without.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from headgate.spark.session import is_connect

__all__ = ["analysed", "printed"]

_FIELDS = "spark.sql.debug.maxToStringFields"


def analysed(frame: DataFrame) -> Any:
    """The plan's uppermost operator; a classic session's alone."""
    return frame._jdf.queryExecution().analyzed()


def printed(frame: DataFrame) -> list[str]:
    """Its lines, an operator each, as a tree."""
    if not is_connect(frame.sparkSession):
        return str(analysed(frame).toString()).splitlines()
    settings = frame.sparkSession.conf
    before = settings.get(_FIELDS)
    settings.set(_FIELDS, "100000")  # else wide rows are printed in part
    try:
        text: str = frame._explain_string(extended=True)  # type: ignore[operator]
    finally:
        settings.set(_FIELDS, before or "25")
    text = text.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]
    return [line for line in text.splitlines()[2:] if line.strip()]  # the first one is the schema
