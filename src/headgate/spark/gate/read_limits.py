"""How much a stream's sources hand out in one batch, as the query's own options state it.

A source with a cap never brings what piled up while a query was down in one batch; a gate must know that
before the first batch. The options are in the plan's streaming relations, which only a classic session
shows: over Connect a cap is learned from batches (`ArrivalRate`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from headgate.core.load import ReadLimit
from headgate.spark.analysed_plan import analysed
from headgate.spark.session import is_connect

__all__ = ["read_limit"]

log = logging.getLogger("headgate")

#: Operators behind which there are no more rows than in front of them.
_NO_MORE_ROWS = {
    "CollectMetrics", "Deduplicate", "DeduplicateWithinWatermark", "EventTimeWatermark", "Filter",
    "Project", "RepartitionByExpression", "Repartition", "SubqueryAlias", "TypedFilter", "View",
}  # fmt: skip
_RELATIONS = {"StreamingRelation", "StreamingRelationV2", "StreamingExecutionRelation"}
#: Caps in bytes: there is one, but nobody can tell its rows.
_IN_BYTES = ("maxbytespertrigger", "maxpartitionbytespertrigger")


def read_limit(frame: DataFrame) -> ReadLimit | None:
    """The limit of the sources in front of a gate; None where the plan does not tell."""
    if is_connect(frame.sparkSession):
        return None
    try:
        return _limit_of(analysed(frame))
    except Exception as error:  # these are Spark's own, and may change: then nothing is known
        log.debug("the sources' limits cannot be read: %s", error)
        return None


def _limit_of(node: Any) -> ReadLimit | None:
    name = str(node.getClass().getSimpleName())
    if name in _RELATIONS:
        return limit_in(_options(node, name))
    children = [node.children().apply(i) for i in range(node.children().size())]
    if name in _NO_MORE_ROWS and len(children) == 1:
        return _limit_of(children[0])
    if name == "Union":
        return _together([_limit_of(child) for child in children])
    return None


def _options(node: Any, name: str) -> Mapping[str, str]:
    """A relation's options, names in lower case."""
    if name == "StreamingRelationV2":
        given = node.extraOptions()
        return {str(key).lower(): str(given.get(key)) for key in given.keySet().toArray()}
    pairs = node.dataSource().options().toSeq()
    found = [pairs.apply(i) for i in range(pairs.size())]
    return {str(pair._1()).lower(): str(pair._2()) for pair in found}


def limit_in(options: Mapping[str, str]) -> ReadLimit | None:
    """The limit that a source's options state.

    >>> limit_in({"maxoffsetspertrigger": "8000"}), limit_in({"path": "/x"})
    (ReadLimit(rows=8000, files=None), ReadLimit(rows=None, files=None))
    """
    if "maxoffsetspertrigger" in options:
        return ReadLimit(rows=int(options["maxoffsetspertrigger"]))
    if "rowsperbatch" in options:
        return ReadLimit(rows=int(options["rowsperbatch"]))
    if "maxfilespertrigger" in options:
        return ReadLimit(files=int(options["maxfilespertrigger"]))
    return None if any(name in options for name in _IN_BYTES) else ReadLimit()


def _together(limits: list[ReadLimit | None]) -> ReadLimit | None:
    """What several sources hand out together."""
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits):
        return None
    if all(limit.rows is not None for limit in known):
        return ReadLimit(rows=sum(limit.rows or 0 for limit in known))
    if all(limit.files is not None for limit in known):
        return ReadLimit(files=sum(limit.files or 0 for limit in known))
    return None if any(limit != ReadLimit() for limit in known) else ReadLimit()
