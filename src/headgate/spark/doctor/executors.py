"""Running the probe on every executor, within a bounded time.

The job is a plain Python function over a range, which needs neither pyarrow nor Headgate in the workers,
and runs on classic sessions and over Connect alike. What Spark itself can tell of an executor's Java
comes from an expression that its JVM evaluates in the same task.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headgate.spark.doctor import probe as probe_module
from headgate.spark.session import is_connect

__all__ = ["Reached", "reach_executors"]

#: Tasks of one round at most; a cluster of more slots is looked at in part, and the report says so.
_MOST_TASKS = 256
#: An executor that takes no task of a round gets another one or two.
_ROUNDS = 3
#: The registration is of the whole process: one at a time.
_registering = threading.Lock()


@dataclass
class Reached:
    """What the executors answered."""

    #: One for each executor: the answer of one of its tasks, with what all its tasks won.
    executors: list[dict[str, Any]] = field(default_factory=list)
    #: Executors that Spark knows of; None where it does not tell (over Connect).
    known: int | None = None
    #: How many tasks created each name that all of them raced for.
    winners: dict[str, int] = field(default_factory=dict)
    #: Why not all answered: the error that Spark raised, or "no answer in 40 s".
    error: Exception | None = None
    waited_s: float = 0.0


def reach_executors(
    spark: SparkSession, control: str, trial: str, races: list[str], within_s: float
) -> Reached:
    """Run rounds of the probe until each executor has answered; a job that takes too long is ended."""
    reached, began = Reached(), time.monotonic()
    by_executor: dict[str, dict[str, Any]] = {}
    for number in range(_ROUNDS):
        left = within_s - (time.monotonic() - began)
        names = [f"{name}-{number}" for name in races]
        try:
            answers, took = _round(spark, control, trial, names, left)
        except Exception as error:  # Spark's, of many kinds; or the time is up
            reached.error = error
            break
        for answer in answers:
            _count_winners(reached.winners, names, answer)
            key = f"{answer['host']} {answer['process']}"
            first = by_executor.setdefault(key, answer)
            first["clock_off_s"] = _closest(first.get("clock_off_s"), _off(answer["clock"], took))
        reached.known = _known(spark)
        if reached.known is None or len(by_executor) >= reached.known:
            break
    reached.executors = [by_executor[key] for key in sorted(by_executor)]
    reached.waited_s = time.monotonic() - began
    return reached


def _round(
    spark: SparkSession, control: str, trial: str, races: list[str], within_s: float
) -> tuple[list[dict[str, Any]], tuple[float, float]]:
    """The tasks' answers, and the driver's clock before and after."""
    tasks = max(2, min(_MOST_TASKS, _slots(spark)))
    java = F.expr("java_method('java.lang.System', 'getProperty', 'java.version')")
    with _probe_sent_whole():
        said = _asking(control, trial, races)("id")
        frame = spark.range(0, tasks, 1, tasks).select(said.alias("said"), java.alias("java"))
        before = time.time()
        rows = _bounded(spark, frame.collect, within_s)
        after = time.time()
    return [{**json.loads(row.said), "java": row.java} for row in rows], (before, after)


def _asking(control: str, trial: str, races: list[str]) -> Any:
    run = probe_module.probe

    def ask(task: int) -> str:
        return run(control, trial, races, task)

    return F.udf(ask, "string", useArrow=False).asNondeterministic()


@contextmanager
def _probe_sent_whole() -> Iterator[None]:
    """Functions of the probe's module are pickled with their code: workers may not have Headgate."""
    pickling: Any = cloudpickle
    with _registering:
        pickling.register_pickle_by_value(probe_module)
        try:
            yield
        finally:
            pickling.unregister_pickle_by_value(probe_module)


def _bounded(spark: SparkSession, job: Callable[[], list[Any]], within_s: float) -> list[Any]:
    """The job's rows; TimeoutError where it takes too long, and then it is ended."""
    tag, done = f"headgate-doctor-{uuid.uuid4().hex[:8]}", threading.Event()
    rows: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            spark.addTag(tag)
            rows.extend(job())
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="headgate-doctor", daemon=True).start()
    if not done.wait(max(1.0, within_s)):
        spark.interruptTag(tag)
        raise TimeoutError(f"no answer in {within_s:.0f} s")
    if failed:
        raise failed[0]
    return rows


def _slots(spark: SparkSession) -> int:
    """How many tasks run at once; a guess over Connect."""
    if is_connect(spark):
        return int(spark.conf.get("spark.sql.leafNodeDefaultParallelism", None) or 8)
    return int(spark.sparkContext.defaultParallelism)


def _known(spark: SparkSession) -> int | None:
    """Executors that are registered now; the driver's own process where there are no others."""
    if is_connect(spark):
        return None
    try:
        infos = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
        return max(1, len(infos) - 1)
    except Exception:  # another Spark may not tell
        return None


def _count_winners(winners: dict[str, int], names: list[str], answer: dict[str, Any]) -> None:
    store = answer.get("store") or {}
    if store.get("sees_driver") and store.get("error") is None:
        for name in names:
            winners[name] = winners.get(name, 0) + (name in store["won"])


def _off(clock: float, took: tuple[float, float]) -> float:
    """How far a clock is outside of the time that the job took: so far it is off at least."""
    before, after = took
    return clock - after if clock > after else min(0.0, clock - before)


def _closest(before: float | None, now: float) -> float:
    return now if before is None else min(before, now, key=abs)
