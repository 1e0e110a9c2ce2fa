"""What stands in front of a gate: the operators of its frame, and the gates among them.

Read from the text of the frame's analyzed plan, which classic and Connect sessions both give: a tree
with an operator a line. Where there is no such text (a Spark to come), nothing is known or refused.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from pyspark.sql import DataFrame

from headgate.errors import BadArgument
from headgate.spark.analysed_plan import printed
from headgate.spark.gate.meter import gate_of

__all__ = ["Upstream"]

log = logging.getLogger("headgate")

#: A line: its place in the tree, Spark's mark of an operator on a stream, its name, its first argument.
_OPERATOR = re.compile(r"^[\s:+-]*(~?)([A-Z]\w*)(?: ([^\s,]+))?")


@dataclass(frozen=True)
class Upstream:
    """Whether a stream's rows were aggregated before a gate, and the metrics in front of it."""

    aggregated: bool
    metrics: frozenset[str]

    @classmethod
    def of(cls, frame: DataFrame) -> Upstream:
        """What is in front of a gate on this frame."""
        try:
            return cls.read(printed(frame))
        except Exception as error:  # another Spark inside: then nothing is known
            log.debug("the plan of a frame cannot be read: %s", error)
            return cls.read([])

    @classmethod
    def read(cls, lines: list[str]) -> Upstream:
        """From a plan's lines.

        >>> plan = ["~Filter (n > 1)", "+- ~Aggregate [k], [k, count(1) AS n]", "   +- ~Relation x"]
        >>> Upstream.read(plan).aggregated
        True
        """
        found = [m for m in map(_OPERATOR.match, lines) if m is not None]
        metrics = frozenset(m[3] for m in found if m[2] == "CollectMetrics" and m[3])
        return cls(any((m[1], m[2]) == ("~", "Aggregate") for m in found), metrics)

    def refuse_twice(self, gate: str) -> None:
        """A gate's name stands for its plan, its ledger and its metrics: once in a query."""
        if gate in map(gate_of, self.metrics):
            raise BadArgument(f"gate {gate!r} is already in this query: give each gate its own name")

    def refuse_results(self, gate: str, steers: bool) -> None:
        """Behind an aggregation a gate sheds results, which nobody expects of load shedding.

        A target cannot be held that way: the aggregation is paid for when its rows come to the gate. A
        fixed share of results can be meant, so that is only told. Behind a deduplication, a join of
        streams or a limit, rows are still rows, and a gate there saves what is behind it: legal.
        """
        if not self.aggregated:
            return
        if steers:
            raise BadArgument(
                f"gate {gate!r} is behind an aggregation: it would shed rows of the result, and the "
                "aggregation would take as long as before. Put the gate in front of it "
                "(events.transform(hg.gate(...)).groupBy(...)). To shed results on purpose, write them "
                "to a topic or a table and gate the stream that reads it"
            )
        log.warning(
            "gate %r is behind an aggregation: rate= keeps that share of its result rows, and weights "
            "count results. To shed what comes in, put the gate in front of groupBy",
            gate,
        )
