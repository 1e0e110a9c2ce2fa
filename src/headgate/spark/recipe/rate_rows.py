"""Batches of Spark's rate sources, made again: their rows follow from the offsets and the options.

As Spark makes them (``RateStreamProvider``, ``RatePerMicroBatchProvider``). Should another version do it
otherwise, the fingerprint of the kept rows tells, and nothing is handed on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.errors import BadArgument
from headgate.spark.backfill.offsets import BatchOffsets
from headgate.spark.checkpoint import open_checkpoint
from headgate.store.folder import read_text

__all__ = ["micro_batch_rows", "rate_rows"]

Prepare = Callable[[DataFrame], DataFrame]


def rate_rows(
    spark: SparkSession,
    options: Mapping[str, str],
    checkpoint: str,
    prepare: Prepare,
    *,
    source: int = 0,
) -> Callable[[BatchOffsets], DataFrame]:
    """A reader of a ``rate`` source's batches: offsets are seconds since it began."""
    given = {name.lower(): value for name, value in options.items()}
    if given.get("rampuptime", "0s").strip().rstrip("sS ") not in ("0", ""):
        raise BadArgument(
            f"rampUpTime={given['rampuptime']!r}: the rows of a rate source that speeds up are not made "
            "again; give hg.repay rows=, a reader of your own"
        )
    rate = int(given.get("rowspersecond", "1"))
    began: list[int] = []

    def rows(batch: BatchOffsets) -> DataFrame:
        if not began:
            began.append(_began_ms(checkpoint, source))
        start, end = _seconds(batch.starts[source], 0), _seconds(batch.ends[source], None)
        made = spark.range(start * rate, max(start, end) * rate).toDF("value")
        step_ms = 1000.0 / rate
        past_ms = f"cast(floor((value - {start * rate}L) * {step_ms!r}D + 0.5D) as bigint)"
        at_ms = f"{began[0] + 1000 * start}L + {past_ms}"
        return prepare(made.selectExpr(f"timestamp_millis({at_ms}) as timestamp", "value"))

    return rows


def _began_ms(checkpoint: str, source: int) -> int:
    """When the source began: it has written that down."""
    text = read_text(open_checkpoint(checkpoint) / "sources" / str(source) / "0")
    if text is None or not text.strip().split("\n")[-1].isdigit():
        raise BadArgument(
            f"checkpoint={checkpoint!r} does not say when its rate source began: give the query's own"
        )
    return int(text.strip().split("\n")[-1])


def _seconds(value: Any, first: int | None) -> int:
    if value is None and first is not None:
        return first
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadArgument(f"{value!r} is no offset of a rate source: give source=, or rows=")
    return value


def micro_batch_rows(
    spark: SparkSession, options: Mapping[str, str], prepare: Prepare, *, source: int = 0
) -> Callable[[BatchOffsets], DataFrame]:
    """A reader of a ``rate-micro-batch`` source's batches: as many rows in each, at one time."""
    given = {name.lower(): value for name, value in options.items()}
    opening = {"offset": 0, "timestamp": int(given.get("starttimestamp", "0"))}

    def rows(batch: BatchOffsets) -> DataFrame:
        start, end = batch.starts[source] or opening, batch.ends[source]
        if not all(
            isinstance(one, dict) and {"offset", "timestamp"} <= one.keys() for one in (start, end)
        ):
            raise BadArgument(
                f"{end!r} is no offset of a rate-micro-batch source: give source=, or rows="
            )
        made = spark.range(int(start["offset"]), int(end["offset"])).toDF("value")
        at = f"timestamp_millis({int(start['timestamp'])}L)"
        return prepare(made.selectExpr(f"{at} as timestamp", "value"))

    return rows
