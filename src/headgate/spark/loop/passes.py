"""How often a batch was read, and how far: what Spark's observed metrics leave out.

They are those of the last pass over each partition, or before Spark 4.3 of all passes together. Code in
``foreachBatch`` may look at a batch again (``isEmpty``, ``take``), and a streaming limit stops early:
counts are then those of the look, or of write and look. Spark keeps the records that each stage read, in
the store behind its own pages, and the plan of each query.

Both are part of Spark's inside; where they are not to be had (Spark Connect, another Spark), the answer
is that nobody knows.
"""

from __future__ import annotations

import contextlib
import re
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headgate.spark.loop.batch_jobs import jobs_of_batch
from headgate.spark.session import is_connect
from headgate.spark.versions.passes import adds_up_passes

__all__ = ["Passes", "cuts_short"]

#: Jobs of one batch that are looked at: a sink with more of them is taken for unknown.
_MOST_JOBS = 200
_LIMIT = re.compile(r"^(\*?\(?\d*\)?\s*)?(Streaming)?(Global|Local|Collect)Limit\w*", re.IGNORECASE)
_SIGNS = " :+-|"


class Passes:
    """Asked after batches whose sink runs a person's code, and once of each run's plan."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._classic = not is_connect(spark)
        self._plans: dict[str, str] = {}

    @cached_property
    def added_up(self) -> bool:
        """Whether observed metrics are those of all passes together."""
        return adds_up_passes(self._spark)

    def whole(self, run: str, batch: int, handed_out: int | None) -> bool | None:
        """Whether what was counted of the batch is one whole pass; None if unknown.

        That is the last one, which must have read as much as any before it; where Spark adds passes up,
        it must be the only one. Where no more was handed out than one pass read, the others read what
        had been persisted.
        """
        if not self._classic:
            return None
        try:
            passes = self._passes(self._spark, run, batch)
            return (_only_one if self.added_up else _largest_last)(passes, handed_out)
        except Exception:  # a job that is gone already, or another Spark inside
            return None

    def _passes(self, spark: Any, run: str, batch: int) -> dict[tuple[int, str], list[int]]:
        jobs = jobs_of_batch(spark._jsparkSession, run, batch)
        if not jobs or len(jobs) > _MOST_JOBS:
            return {}
        store = spark.sparkContext._jsc.sc().statusStore()
        stages: set[int] = set()
        for number in jobs:
            job = store.job(number)
            if job.status().toString() == "RUNNING":
                return {}
            stages |= {int(s) for s in str(job.stageIds().mkString(",")).split(",") if s}
        return self._read(store, stages)

    @staticmethod
    def _read(store: Any, stages: set[int]) -> dict[tuple[int, str], list[int]]:
        """The records that each pass read, in order, by what it read: a pass runs the RDDs again."""
        found: dict[tuple[int, str], list[int]] = {}
        for number in sorted(stages):
            with contextlib.suppress(Exception):  # a stage that was skipped has no attempt
                stage = store.lastStageAttempt(number)
                root = min(int(i) for i in str(stage.rddIds().mkString(",")).split(","))
                read = {"input": stage.inputRecords(), "shuffle": stage.shuffleReadRecords()}
                for kind, records in read.items():
                    if int(records) > 0:
                        found.setdefault((root, kind), []).append(int(records))
        return found

    def cut_short(self, run: str, query: StreamingQuery | None, metric: str) -> bool | None:
        """Whether a limit stands behind this metric in the query's plan; None if nobody can tell."""
        if run not in self._plans and query is not None:
            with contextlib.suppress(Exception):
                text = str(query._jsq.explainInternal(False))
                if metric in text:  # else no batch has been planned yet
                    self._plans[run] = text
        return cuts_short(self._plans[run], metric) if run in self._plans else None

    def forget(self, run: str) -> None:
        """The run is over."""
        self._plans.pop(run, None)


def _largest_last(
    passes: dict[tuple[int, str], list[int]], handed_out: int | None = None
) -> bool | None:
    """Whether the last pass over everything that was read is the largest one.

    >>> looked, wrote = {(7, "input"): [2000, 1]}, {(7, "input"): [1, 2000], (9, "shuffle"): [5]}
    >>> _largest_last(looked), _largest_last(wrote), _largest_last({}), _largest_last(looked, 2000)
    (False, True, None, True)

    Where the source handed out more than all these passes read, somebody read it outside of the batch's
    execution (a thread of a person's own), and nobody can tell how far.

    >>> _largest_last({(7, "input"): [2000]}, 2001) is None
    True
    """
    # The gate's own plan is read from a source, too: the largest is the batch's.
    read = max((sum(read) for (_, kind), read in passes.items() if kind == "input"), default=0)
    if not passes or (handed_out is not None and 0 < read < handed_out):
        return None
    return all(
        read[-1] == max(read) or (kind == "input" and max(read) == handed_out)
        for (_, kind), read in passes.items()
    )


def _only_one(passes: dict[tuple[int, str], list[int]], handed_out: int | None = None) -> bool | None:
    """Whether everything that was read was read once.

    >>> wrote, twice = {(7, "input"): [2000], (9, "shuffle"): [5]}, {(7, "input"): [2000, 2000]}
    >>> _only_one(wrote), _only_one(twice), _only_one({}), _only_one(twice, 2000)
    (True, False, None, True)
    """
    if not passes:
        return None
    return all(
        len(read) == 1 or (kind == "input" and max(read) == handed_out)
        for (_, kind), read in passes.items()
    )


def cuts_short(plan: str, metric: str) -> bool:
    """Whether a limit stands above the operator that collects `metric`, in a plan as Spark prints it.

    >>> meter = "CollectMetrics headgate.g.in, [1]"
    >>> cuts_short(f"CollectLimit 5\\n+- Project [a]\\n   +- {meter}", "headgate.g.in")
    True
    >>> cuts_short(f"Union\\n:- LocalLimit 5\\n+- {meter}", "headgate.g.in")
    False
    """
    above: list[tuple[int, bool]] = []
    for line in plan.splitlines():
        words = line.lstrip(_SIGNS)
        depth = len(line) - len(words)
        above = [one for one in above if one[0] < depth]
        words = words.removeprefix("*").strip()
        above.append((depth, bool(_LIMIT.match(words))))
        if "CollectMetrics" in words and re.search(rf"{re.escape(metric)}[,\s]", words + " "):
            return any(limit for _, limit in above)
    return False
