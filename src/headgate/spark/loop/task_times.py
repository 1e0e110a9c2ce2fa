"""How much of the cores a batch took, and how often its stream triggers: what progress leaves out.

Spark reports how long a batch lasted, but where several streams share the cores a batch also waits for
the others. What it took of the application is the time of its tasks, over all cores. Spark keeps that
by job, and the jobs of a stream by its run (the job group), in the store behind its own pages.

The store is part of Spark's inside and not of its public interface; where it is not to be had (Spark
Connect, another Spark), the answer is None and the caller does with durations.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headgate.spark.session import is_connect

__all__ = ["TaskTimes"]

log = logging.getLogger("headgate")

#: The store learns of a job's end beside the stream's own report: how long to wait for it, in steps.
_WAITS, _WAIT_S = 5, 0.02
#: After so many failures in a row nobody is asked any more.
_PATIENCE = 10
#: Where a job's description says which batch it is for.
_BATCH = re.compile(r"\bbatch = (\d+)")


class TaskTimes:
    """Asked after each batch of a stream's run."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = None if is_connect(spark) else spark.sparkContext
        self._failed = 0
        #: The latest job of each run that has been counted.
        self._counted: dict[str, int] = {}
        self._intervals: dict[str, float | None] = {}

    def of_batch(self, run: str, batch: int) -> float | None:
        """Task seconds of the run's jobs for this batch, each counted once; None if unknown."""
        if self._context is None:
            return None
        try:
            found = self._sum(run, batch)
        except Exception as error:  # a job that is gone already, or another Spark inside
            self._failed += 1
            if self._failed == _PATIENCE:
                log.warning(
                    "Spark does not tell the task time of batches (%s): sites do with durations",
                    str(error).strip().partition("\n")[0],
                )
                self._context = None
            return None
        self._failed = 0
        return found

    def forget(self, run: str) -> None:
        """The run is over."""
        self._counted.pop(run, None)
        self._intervals.pop(run, None)

    def _sum(self, run: str, batch: int) -> float | None:
        assert self._context is not None
        inside: Any = self._context._jsc.sc()
        store = inside.statusStore()
        total, jobs = 0.0, self._jobs(inside, run, batch)
        for number in jobs:
            if not self._ended(store, number):
                return None  # half a batch's time would be worse than none
            stages = str(store.job(number).stageIds().mkString(","))
            for stage in filter(None, stages.split(",")):
                with contextlib.suppress(Exception):  # a stage that was skipped has no attempt
                    total += store.lastStageAttempt(int(stage)).executorRunTime() / 1000.0
        if jobs:
            self._counted[run] = max(jobs)
        # Nothing counted: another report took these jobs, or the store does not know them yet.
        return total if total > 0.0 else None

    def _jobs(self, inside: Any, run: str, batch: int) -> list[int]:
        """The batch's jobs. The next batch may have begun, so each is asked which it is for.

        Spark writes the batch into a job's description. Code in ``foreachBatch`` may give its jobs
        another; such a job is taken for one of the batch that is asked for first.
        """
        ids = inside.statusTracker().getJobIdsForGroup(run)  # newest first
        store, counted, found = inside.statusStore(), self._counted.get(run, -1), []
        for place in range(len(ids)):
            number = int(ids[place])
            if number <= counted:
                break
            named = _BATCH.search(str(store.job(number).description()))
            if named is None or int(named[1]) == batch:
                found.append(number)
            elif int(named[1]) < batch:
                break
        return found

    @staticmethod
    def _ended(store: Any, number: int) -> bool:
        for _ in range(_WAITS):
            if store.job(number).status().toString() != "RUNNING":
                return True
            time.sleep(_WAIT_S)
        return False

    def interval_s(self, run: str, query: StreamingQuery | None) -> float | None:
        """How often the stream triggers; None if it does so as fast as it can, or nobody can tell."""
        if run not in self._intervals:
            found = None
            if query is not None and self._context is not None:
                with contextlib.suppress(Exception):
                    trigger: Any = query._jsq.streamingQuery().trigger()
                    found = float(trigger.intervalMs()) / 1000.0 or None
            self._intervals[run] = found
        return self._intervals[run]
