"""One function over many items as one Spark job; results come in the order of the items."""

from __future__ import annotations

import contextlib
import itertools
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import headgate
from headgate.errors import BadArgument, WorkerError
from headgate.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["run_items"]

Item = TypeVar("Item")
Found = TypeVar("Found")

_POLL_S = 0.2
#: A task costs some 40 ms whatever it does, so it takes a share of the items; each core gets at least
#: four, and there are this many even before a cluster's cores are known.
_LEAST_TASKS, _TASKS_A_CORE = 32, 4


def run_items(
    spark: SparkSession,
    work: Callable[[Item], Found],
    items: Sequence[Item],
    progress: Callable[[int, int], None],
) -> list[Found]:
    """The result of every item; `progress` hears of (items done, items), a task's items at once.

    Items, results and `work` are pickled, so `work` must be a function of a module that the workers
    have. The job runs in a thread of its own: this one watches it, and cancels it on Ctrl-C.
    """
    if is_connect(spark):
        raise BadArgument("a Connect session cannot run items: give a classic one, from --master")
    context, group = spark.sparkContext, f"headgate-{uuid.uuid4().hex}"
    count = min(len(items), max(_LEAST_TASKS, _TASKS_A_CORE * context.defaultParallelism)) or 1
    ends = [len(items) * number // count for number in range(count + 1)]
    shares = [items[begin:end] for begin, end in itertools.pairwise(ends)]

    def job() -> list[Found]:
        context.setJobGroup(group, f"{len(items)} items", interruptOnCancel=True)
        tasks = context.parallelize(shares, count)
        return tasks.flatMap(partial(_on_worker, headgate.__version__, work)).collect()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(job)
        try:
            while not wait([running], _POLL_S).done:
                progress(ends[min(count, _tasks_ended(context, group))], len(items))
        finally:
            if not running.done():
                with contextlib.suppress(Exception):  # Spark may have gone with the same Ctrl-C
                    context.cancelJobGroup(group)
    try:
        found = running.result()
    except Exception as error:
        raise WorkerError(
            f"a Spark task failed: {_said(str(error))}; the Python of every worker "
            f"({context.pythonExec}; PYSPARK_PYTHON names another) needs Headgate "
            f"{headgate.__version__} and the extras that are installed here"
        ) from error
    progress(len(items), len(items))
    return found


def _on_worker(version: str, work: Callable[[Item], Found], share: Sequence[Item]) -> list[Found]:
    """An older Headgate would give other numbers, and nobody would know."""
    if headgate.__version__ != version:
        raise WorkerError(f"the worker has Headgate {headgate.__version__}, the driver {version}")
    return [work(item) for item in share]


def _tasks_ended(context: SparkContext, group: str) -> int:
    """Tasks that ended so far; what Spark does not know yet counts as none."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(number) for job in jobs if job for number in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage)


def _said(text: str) -> str:
    """The last line of the worker's traceback; where there is none, what Spark says itself."""
    traceback = text.partition("Traceback (most recent call last):")[2].partition("\n\tat ")[0]
    lines = [line for line in traceback.splitlines() if line and not line[0].isspace()]
    return lines[-1] if lines else " ".join(text.splitlines()[:2]).rpartition(" : ")[2]
