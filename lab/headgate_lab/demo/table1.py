"""The queries of the paper's Table 1 as Spark SQL: fragments that carry `_sic` (themis-2016, section 7).

A fragment is a function of DataFrames. Its own rows come from gates, and what other fragments made comes
over links; both go into one union, under one watermark, and through ONE aggregate by window. That makes
a micro-batch cheap: with a second aggregate (averages by node, then the top five) one took 470 instead
of 280 ms at 4,000 rows a second on two cores. So what a window needs beyond sums is collected in arrays,
and native functions work it out there: a window of a second has some hundred rows.

- AVG, MAX, COUNT: one fragment, one source.
- AVG-all, a tree: leaves send sum and count, the root adds its own and divides.
- TOP-5, a chain: a fragment joins its CPU and memory readings by node, takes the five with the most
  available CPU (100 - use, averaged) among those with 100,000 kB free, and merges the five that came.
- COV, a chain: additive moments of two nodes' readings of the same instant; the last one divides.

Where the paper says little: filter and join are inside of the window's operator, so they lose no SIC as
long as the window has a result (Eq. 3; the paper, too, finds an SIC near 1 for TOP-5 without shedding).
One memory reading of at least 100,000 is enough for a node. Of equal nodes the larger id goes first.

Time is what the union says: `watermark` is put on it, so a link that is later than that is not waited
for, and a dead one stops nothing. A fragment gives a window when its watermark has passed it, so the
next one's watermark has to be longer by the way there: a few triggers a hop. Several fragments in one
query need own rows with a watermark on them already, as Spark lets none be defined twice; then none is
added here, and Spark itself waits for the fragment before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from headgate.durations import Duration, seconds
from headgate.errors import BadArgument
from headgate.spark.gate.identity import require_own_column, require_timestamp
from headgate.spark.sic.column import SIC, require_sic, row_sic

# isort: split
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

__all__ = ["AT", "FREE", "aggregate", "avg_all", "cov", "top5"]

#: When a row was read, and on links and results the start of its window.
AT = "at"
#: The free memory that TOP-5 asks for, in kB.
FREE = 100_000.0
#: What Spark writes into the metadata of a column with a watermark.
_MARKED = "spark.watermarkDelayMs"

Frames = DataFrame | Sequence[DataFrame] | None

_AGGREGATES = {
    "avg": "avg(value)",
    "max": "max(value)",
    "count": "double(count_if(value >= 50))",
}

_AGGREGATE = """
SELECT window.start AS at, {function} AS value, sum(_sic) AS _sic
FROM {{rows}}
GROUP BY window(at, {{size}})
"""

_AVG_ALL_LINK = """
SELECT window.start AS at, sum(total) AS total, sum(readings) AS readings, sum(_sic) AS _sic
FROM {rows}
GROUP BY window(at, {size})
"""

_AVG_ALL = """
SELECT window.start AS at, sum(total) / nullif(sum(readings), 0) AS value, sum(_sic) AS _sic
FROM {rows}
GROUP BY window(at, {size})
"""

_TOP5 = """
WITH windows AS (
  SELECT window, sum(_sic) AS _sic,
    collect_list(struct(id, cpu, free)) FILTER (WHERE value IS NULL) AS readings,
    collect_list(struct(value, id)) FILTER (WHERE value IS NOT NULL) AS came
  FROM {rows}
  GROUP BY window(at, {size})
), nodes AS (
  SELECT window, _sic, came, transform(array_distinct(readings.id), node -> aggregate(
    filter(readings, reading -> reading.id = node),
    named_struct('cpu', 0D, 'readings', 0, 'enough', false),
    (sum, reading) -> named_struct(
      'cpu', sum.cpu + coalesce(reading.cpu, 0D),
      'readings', sum.readings + int(reading.cpu IS NOT NULL),
      'enough', sum.enough OR coalesce(reading.free >= {free}, false)),
    sum -> named_struct(
      'value', if(sum.enough AND sum.readings > 0, 100 - sum.cpu / sum.readings, NULL), 'id', node)
  )) AS joined
  FROM windows
), best AS (
  SELECT window, _sic,
    slice(sort_array(concat(filter(joined, node -> node.value IS NOT NULL), came), false), 1, 5) AS top
  FROM nodes
)
SELECT window.start AS at, inline(top), _sic / size(top) AS _sic FROM best
"""

_COV_LINK = """
WITH windows AS (
  SELECT window, sum(_sic) AS _sic,
    named_struct('pairs', coalesce(sum(pairs), 0), 'x', coalesce(sum(x), 0D),
      'y', coalesce(sum(y), 0D), 'xy', coalesce(sum(xy), 0D)) AS came,
    array_sort(collect_list(struct(at, stream, value)) FILTER (WHERE value IS NOT NULL)) AS readings
  FROM {rows}
  GROUP BY window(at, {size})
), moments AS (
  SELECT window, _sic, aggregate(
    zip_with(readings, slice(readings, 2, size(readings)), (one, next) ->
      if(one.at = next.at AND one.stream < next.stream, struct(one.value AS x, next.value AS y), NULL)),
    came,
    (sum, pair) -> if(pair IS NULL, sum, named_struct('pairs', sum.pairs + 1, 'x', sum.x + pair.x,
      'y', sum.y + pair.y, 'xy', sum.xy + pair.x * pair.y))
  ) AS of_both
  FROM windows
)
SELECT window.start AS at, of_both.*, _sic FROM moments
"""

_COV = "SELECT at, if(pairs > 1, (xy - x * y / pairs) / (pairs - 1), NULL) AS value, _sic FROM {link}"


def aggregate(
    rows: DataFrame,
    function: str = "avg",
    *,
    window: Duration = "1 second",
    watermark: Duration | None = "1 second",
) -> DataFrame:
    """AVG, MAX, or COUNT of values of 50 and more: `at, value, _sic`."""
    if function not in _AGGREGATES:
        raise BadArgument(f"function={function!r}: one of {', '.join(map(repr, _AGGREGATES))}")
    own = _own(rows, "rows", value="double")
    text = _AGGREGATE.format(function=_AGGREGATES[function])
    return _result(_run(text, [own], None, window, watermark))


def avg_all(
    rows: DataFrame | None = None,
    derived: Frames = None,
    *,
    root: bool = False,
    window: Duration = "1 second",
    watermark: Duration | None = "1 second",
) -> DataFrame:
    """AVG-all. A leaf gives `at, total, readings, _sic`, the root `at, value, _sic`."""
    own = []
    if rows is not None:
        values = _own(rows, "rows", value="double")
        counts = F.when(F.col("value").isNull(), 0).otherwise(1).cast("bigint")
        own.append(values.select(AT, F.col("value").alias("total"), counts.alias("readings"), SIC))
    links = _links(derived, total="double", readings="bigint")
    text = _AVG_ALL if root else _AVG_ALL_LINK
    found = _run(text, own, links, window, watermark)
    return _result(found) if root else found


def top5(
    cpu: DataFrame,
    memory: DataFrame | None = None,
    derived: Frames = None,
    *,
    window: Duration = "1 second",
    watermark: Duration | None = "1 second",
) -> DataFrame:
    """TOP-5: `at, id, value, _sic`, a row for each of at most five nodes; links and results alike.

    `cpu` has `at, id, value`, and `memory` `at, id, free`. One frame of both kinds is cheaper, as its
    source is read once: `cpu` with `at, id, value, free`, one of the two null, and no `memory`.
    """
    if memory is None:
        own = [
            _own(cpu, "cpu", value="double", id=None, free="double").withColumnRenamed("value", "cpu")
        ]
    else:
        used = _own(cpu, "cpu", value="double", id=None)
        free = _own(memory, "memory", free="double", id=None)
        nothing = F.lit(None).cast("double")
        own = [
            used.select(AT, "id", F.col("value").alias("cpu"), nothing.alias("free"), SIC),
            free.select(AT, "id", nothing.alias("cpu"), "free", SIC),
        ]
    kind = own[0].schema["id"].dataType.simpleString()
    links = [link.where("value IS NOT NULL") for link in _links(derived, id=kind, value="double")]
    found = _run(
        _TOP5, own, links, window, watermark, id=kind, cpu="double", free="double", value="double"
    )
    return found.select(AT, "id", "value", SIC)


def cov(
    first: DataFrame,
    second: DataFrame | None = None,
    derived: Frames = None,
    *,
    root: bool = False,
    window: Duration = "1 second",
    watermark: Duration | None = "1 second",
) -> DataFrame:
    """COV. A link has `at, pairs, x, y, xy, _sic`, the root gives `at, value, _sic`.

    Readings of the same instant (`at`) are a pair, one for each instant. Without `second`, `first` has
    both streams: `at, stream, value`, and `stream` is 0 or 1.
    """
    if second is None:
        own = [_own(first, "first", value="double", stream="int")]
    else:
        sides = (_own(first, "first", value="double"), _own(second, "second", value="double"))
        own = [side.withColumn("stream", F.lit(number)) for number, side in enumerate(sides)]
    moments = {"pairs": "bigint", "x": "double", "y": "double", "xy": "double"}
    links = _links(derived, **moments)
    link = _run(_COV_LINK, own, links, window, watermark, stream="int", value="double", **moments)
    return _result(link.sparkSession.sql(_COV, link=link)) if root else link


def _own(frame: DataFrame, argument: str, **columns: str | None) -> DataFrame:
    """The columns that a query needs, in its types; None leaves a type as it is."""
    require_sic(frame, argument)
    require_timestamp(frame, AT, argument)
    parts: list[Column] = []
    for name, kind in columns.items():
        require_own_column(frame, name, argument)
        parts.append(F.col(name) if kind is None else F.col(name).cast(kind).alias(name))
    return frame.select(AT, *parts, row_sic().alias(SIC))


def _links(derived: Frames, **columns: str | None) -> list[DataFrame]:
    frames = [] if derived is None else [derived] if isinstance(derived, DataFrame) else list(derived)
    return [_own(frame, "derived", **columns) for frame in frames]


def _run(
    text: str,
    own: list[DataFrame],
    links: list[DataFrame] | None,
    window: Duration,
    watermark: Duration | None,
    **columns: str,
) -> DataFrame:
    """The query over the union of own rows, which come first as their watermark counts, and links.

    `columns` are those that not all frames have; they are null where missing.
    """
    frames = [*own, *(links or [])]
    if not frames:
        raise BadArgument("no rows and nothing derived: a fragment needs one of them at least")
    size = f"{round(seconds(window, 'window') * 1e6)} microseconds"
    rows = reduce(DataFrame.unionByName, [_padded(frame, columns) for frame in frames])
    if watermark is not None and _MARKED not in rows.schema[AT].metadata:
        rows = rows.withWatermark(AT, f"{round(seconds(watermark, 'watermark') * 1e3)} milliseconds")
    return rows.sparkSession.sql(text, rows=rows, size=size, free=FREE)


def _padded(frame: DataFrame, columns: dict[str, str]) -> DataFrame:
    if not columns:
        return frame
    parts = [
        F.col(name) if name in frame.columns else F.lit(None).cast(kind).alias(name)
        for name, kind in columns.items()
    ]
    return frame.select(AT, *parts, SIC)


def _result(found: DataFrame) -> DataFrame:
    # A window without a result has no output, and what it was worth is lost (Eq. 3).
    return found.where("value IS NOT NULL")
