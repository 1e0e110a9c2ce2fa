"""SIC through sliding windows: a row in m windows gives each `_sic` / m (themis-2016, section 4).

The paper says that there is "a practical way", and not which. Without the division a result would be
worth size / slide times too much. Where the size is no multiple of the slide, m differs from row to row;
it is counted exactly, in whole microseconds. `headgate_lab.papers.themis.sic.window_sics` is the same in
plain code.
"""

from __future__ import annotations

from headgate.durations import Duration, seconds
from headgate.errors import BadArgument
from headgate.spark.gate.identity import require_timestamp
from headgate.spark.gate.shape import quoted
from headgate.spark.sic.column import SIC, require_sic, row_sic

# isort: split
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

__all__ = ["WINDOW", "windows", "windows_of"]

#: The column that `windows` adds, as Spark calls its own.
WINDOW = "window"


def windows_of(time: str | Column, size: Duration, slide: Duration | None = None) -> Column:
    """In how many windows a row is, for queries that use Spark's own `window`; tumbling by default.

    Divide `_sic` by it in front of the aggregate. With a slide above the size it is 0 for the rows
    between two windows.
    """
    size_us, slide_us = _durations(size, slide)
    return _count(F.col(time) if isinstance(time, str) else time, size_us, slide_us)


def windows(frame: DataFrame, time: str, size: Duration, slide: Duration | None = None) -> DataFrame:
    """Each row once for every window that it is in: the column `window`, and its part of `_sic`.

    Then ``groupBy("window", ...).agg(..., hg.sic.total())``. On a stream the watermark goes first. With
    a slide above the size the rows between two windows are dropped, and their SIC is lost;
    Spark knows no such windows, so `window.end` is then the start of the next one.
    """
    require_sic(frame)
    require_timestamp(frame, time, "time")
    if WINDOW in frame.columns:
        raise BadArgument(f"the DataFrame has a column {WINDOW!r} already: rename or drop it")
    size_us, slide_us = _durations(size, slide)
    at, each = F.col(time), row_sic()
    if slide_us > size_us:
        frame = frame.where(F.pmod(F.unix_micros(at), F.lit(slide_us)) < F.lit(size_us))
        size_us = slide_us
    elif slide_us < size_us:
        each = each / _count(at, size_us, slide_us)
    parts = [each.alias(SIC) if name == SIC else quoted(name) for name in frame.columns]
    window = F.window(at, f"{size_us} microseconds", f"{slide_us} microseconds")
    return frame.select(window.alias(WINDOW), *parts)


def _durations(size: Duration, slide: Duration | None) -> tuple[int, int]:
    size_us = round(seconds(size, "size") * 1e6)
    slide_us = size_us if slide is None else round(seconds(slide, "slide") * 1e6)
    if size_us < 1 or slide_us < 1:
        raise BadArgument(
            f"size={size!r}, slide={slide!r}: Spark's time has microseconds; give 1 or more"
        )
    return size_us, slide_us


def _count(time: Column, size_us: int, slide_us: int) -> Column:
    # Windows start at whole slides; those in (time - size, time] hold the row. The difference of the two
    # floors, with what divides evenly taken together, so that no rounding comes in.
    at, size, slide = F.unix_micros(time), F.lit(size_us), F.lit(slide_us)
    return (size - F.pmod(at, slide) + F.pmod(at - size, slide)) / slide
