"""`repay`: process the shed rows later, as an operation that can be stopped, killed and run again.

`hg.backfill` gives a frame, and what becomes of it is the caller's. This goes through all batches that
shed rows in bounded slices, hands each slice to a sink and marks it in the control store, so that every
batch is repaid once, whoever runs it and however often (`headgate.store.repaid.slices`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.durations import Instant, instant
from headgate.errors import BadArgument
from headgate.policies import Policy
from headgate.spark.backfill.pace import Pace
from headgate.spark.backfill.parts import Parts, query_named
from headgate.spark.backfill.progress import Bar, no_bar, progress_bar
from headgate.spark.backfill.reread import Rows
from headgate.spark.backfill.sinks import Function, sink_for
from headgate.spark.backfill.slice_work import SliceWork
from headgate.spark.backfill.wanted import Wanted, cut, wanted_batches
from headgate.spark.calls import explained
from headgate.spark.recipe.batches import rows_by_recipe
from headgate.spark.session import check_session, is_connect
from headgate.store.folder import used_control_folder
from headgate.store.ledger.records import Ledger
from headgate.store.places.place import Place
from headgate.store.repaid.slices import Slices

__all__ = ["Repayment", "repay"]

#: Rows that a slice reads at most, unless one batch alone has more; and seconds of a limited rate.
SLICE_ROWS, _SLICE_S = 1_000_000, 10.0
SLICE_BATCHES = 100
POOL = "headgate-backfill"

#: Gates and queries that this process repays now: its own slices must not look like a dead process's.
_RUNNING: set[tuple[Place, str, str]] = set()
_LOCK = threading.Lock()


@dataclass
class Repayment:
    """What one run of `repay` did, and what is still open."""

    gate: str
    query: str
    to: str
    slices: int = 0
    batches: int = 0
    #: Shed rows that were handed on, and rows that were read for it.
    rows: int = 0
    rows_read: int = 0
    seconds: float = 0.0
    #: Batches that had been repaid before.
    before: int = 0
    #: Batches that another living process has in hand.
    elsewhere: list[int] = field(default_factory=list)
    #: Batches that could not be repaid, and why; they stay open.
    left_open: dict[int, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether nothing that was asked for is left."""
        return not self.left_open and not self.elsewhere

    def to_json(self) -> dict[str, Any]:
        """As `headgate backfill --json` prints it."""
        return {**asdict(self), "complete": self.complete}


@explained('hg.repay(spark, "rides", "/shared/headgate", "/lake/late")')
def repay(
    spark: SparkSession,
    gate: str,
    control: str | os.PathLike[str],
    to: str | os.PathLike[str] | Function,
    *,
    query: str | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
    batches: Iterable[int] | None = None,
    format: str = "parquet",
    rows: Rows | None = None,
    prepare: Callable[[DataFrame], DataFrame] | None = None,
    options: Mapping[str, str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    source: int | None = None,
    slice_rows: int | None = None,
    slice_batches: int = SLICE_BATCHES,
    rows_per_s: float | None = None,
    pool: str | None = POOL,
    keep: str | Sequence[str] | None = None,
    policy: Policy | None = None,
    progress: bool = False,
) -> Repayment:
    """Process the rows that a gate shed, each once, in slices; run it again to go on after a crash.

    Where to:
        to: a folder for files of `format` (parquet, orc, json, csv), a Delta table with
            ``format="delta"``, or a function of ``(frame, slice_id)``. Rows have their batch as
            ``_batch``.

    Which:
        query: the query, where the gate has had several.
        since, until: batches that began then: a datetime, ``"2026-05-01T08:00"``, ``"2 hours"`` (ago).
        batches: these batches; by default all that shed rows and are not repaid.

    From where: a gate built on a classic session has noted its source, harmless options and plain steps.
        prepare: what the query does between the source and the gate, where that could not be noted.
        options: the source's options that are not noted (passwords); they go before those that are.
        checkpoint: the query's, where it was not noted. source: which of several sources, from 0.
        rows: a reader of batches (`kafka_rows`, `file_rows`, ...) instead of all that.
        keep, policy: the gate's own, as for `backfill`.

    How:
        slice_rows, slice_batches: what a slice reads at most; a batch is not cut.
        rows_per_s: rows that are read in a second, on average; by default as fast as can be.
        pool: the scheduler pool of its jobs (with ``spark.scheduler.mode=FAIR``); None for the caller's.
        progress: show a bar on standard error.

    Every batch is read once more and compared with its record before its rows are handed on. A batch
    that does not match, or that the source no longer has, stays open, and `Repayment.left_open` says
    why.

        done = hg.repay(spark, "rides", "/shared/headgate", "/lake/late-rides", rows_per_s=50_000)
    """
    check_session(spark)
    folder = used_control_folder(control)
    name = query_named(folder, gate, query)
    sink = sink_for(spark, to, format)
    pace = Pace(rows_per_s)
    most = _slice_rows(slice_rows, rows_per_s), _at_least_one("slice_batches", slice_batches)
    now = time.time()
    times = (
        None if since is None else instant(since, now, "since"),
        None if until is None else instant(until, now, "until"),
    )
    if rows is None:
        where = None if checkpoint is None else os.fspath(checkpoint)
        rows = rows_by_recipe(
            spark, folder, gate, name, prepare=prepare, options=options, checkpoint=where, source=source
        )
    elif prepare is not None or options is not None or checkpoint is not None:
        raise BadArgument(
            "rows= reads batches by itself: give prepare=, options= and checkpoint= to the reader "
            "(kafka_rows, file_rows, ...), and not here"
        )
    done = Repayment(gate, name, sink.given.to)
    slices = Slices(folder, gate, name)
    wanted = wanted_batches(folder, gate, name, slices, batches=batches, times=times)
    done.before, done.left_open = wanted.before, dict(wanted.bad)
    parts = Parts(spark, folder, gate, rows, keep, policy)
    work = SliceWork(spark, Ledger(folder, gate, name), slices, sink, parts, done)
    with _alone(folder, gate, name), _in_pool(spark, pool), _bar(progress, gate, wanted) as bar:
        _run(work, wanted, most, pace, bar)
    done.seconds = round(time.time() - now, 3)
    return done


def _run(work: SliceWork, wanted: Wanted, most: tuple[int, int], pace: Pace, bar: Bar) -> None:
    done = work.done
    work.slices.forget_before(work.ledger.begins())
    work.settle_unfinished(set(wanted.batches), bar)
    left = {b: n for b, n in wanted.batches.items() if b not in work.ended and b not in done.left_open}
    for batches in cut(left, *most):
        pace.begin()
        read = work.repay(batches)
        bar(read.rows_read, len(batches))
        pace.end(read.rows_read)


def _slice_rows(given: int | None, rows_per_s: float | None) -> int:
    if given is not None:
        return _at_least_one("slice_rows", given)
    return SLICE_ROWS if rows_per_s is None else max(1, min(SLICE_ROWS, int(_SLICE_S * rows_per_s)))


def _at_least_one(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadArgument(f"{name}={value!r}: give a whole number, 1 at least")
    return value


@contextmanager
def _alone(folder: Place, gate: str, query: str) -> Iterator[None]:
    key = (folder, gate, query)
    with _LOCK:
        if key in _RUNNING:
            raise BadArgument(
                f"gate {gate!r} of query {query} is being repaid in this process already: wait for that "
                "run, or start another process, which takes other slices"
            )
        _RUNNING.add(key)
    try:
        yield
    finally:
        with _LOCK:
            _RUNNING.discard(key)


@contextmanager
def _in_pool(spark: SparkSession, pool: str | None) -> Iterator[None]:
    """Jobs of this thread go to the pool; Connect has no such thing."""
    if pool is None or is_connect(spark):
        yield
        return
    context, name = spark.sparkContext, "spark.scheduler.pool"
    before = context.getLocalProperty(name)
    context.setLocalProperty(name, pool)
    try:
        yield
    finally:
        context.setLocalProperty(name, before)  # type: ignore[arg-type]


@contextmanager
def _bar(progress: bool, gate: str, wanted: Wanted) -> Iterator[Bar]:
    with progress_bar(gate, sum(wanted.batches.values())) if progress else no_bar() as bar:
        yield bar
