"""Where the Delta table is that a stream reads, as its plan has it.

A worker that pins a batch's plan knows the batch's offsets, and they say nothing of rows without the
table's log. Only a classic session shows the plan's sources; over Connect a batch of a Delta table has
no known size, and the plan for the rows that the loop expects holds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from headgate.spark.analysed_plan import analysed
from headgate.spark.session import is_connect

__all__ = ["delta_table_of"]

log = logging.getLogger("headgate")


def delta_table_of(frame: DataFrame) -> str | None:
    """The path of the one Delta table that this stream reads; None where there is none, or several."""
    if is_connect(frame.sparkSession):
        return None
    try:
        found = list(_tables(analysed(frame)))
    except Exception as error:  # these are Spark's own, and may change: then nothing is known
        log.debug("the sources of a stream cannot be read: %s", error)
        return None
    return found[0] if len(found) == 1 else None


def _tables(node: Any) -> Iterator[str]:
    name = str(node.getClass().getSimpleName())
    if name == "StreamingRelation" and str(node.sourceName()).lower() == "delta":
        yield from _path(node.dataSource().options())
    elif name == "StreamingRelationV2" and "delta" in str(node.table().getClass().getName()).lower():
        yield str(node.table().path())
    children = node.children()
    for index in range(children.size()):
        yield from _tables(children.apply(index))


def _path(options: Any) -> Iterator[str]:
    pairs = options.toSeq()
    for index in range(pairs.size()):
        if str(pairs.apply(index)._1()).lower() == "path":
            yield str(pairs.apply(index)._2())
