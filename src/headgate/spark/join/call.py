"""`join`: a windowed stream join on any condition, which makes the comparisons that it has time for."""

from __future__ import annotations

import logging
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.durations import Duration
from headgate.errors import BadArgument
from headgate.joins.conditions import Condition, Equal
from headgate.joins.rows import compiled
from headgate.settings import RETENTION_S
from headgate.spark.calls import explained
from headgate.spark.session import is_connect, session_of  # first: it says which extra is missing
from headgate.store.places.place import Place

# isort: split
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.spark.checkpoint import check_checkpoint
from headgate.spark.dropped.call import dropped_by
from headgate.spark.gate.identity import seed_of
from headgate.spark.gate.pin.task_plan import TaskPlan
from headgate.spark.join.arguments import (
    JoinWindows,
    check_choices,
    check_frame,
    check_pair,
    how_many_shards,
    join_settings,
)
from headgate.spark.join.columns import (
    KINDS,
    encoded,
    has_kinds,
    require_condition,
    require_own_names,
    require_utility,
    require_watermark,
)
from headgate.spark.join.left_out.drawing import RowDrawer
from headgate.spark.join.left_out.offer import JoinResolver
from headgate.spark.join.meter import OUTPUT, PAIRS, behind_join, join_metric_name
from headgate.spark.join.operator import JoinOperator
from headgate.spark.join.pack import PACKED, SHARD, Grid, Packer, shard_keys
from headgate.spark.join.results import Unpacker, counted, result_schema
from headgate.spark.join.run import JoinSpec
from headgate.spark.join.terms import JoinTerms, columns_digest
from headgate.spark.join.work import JoinWork
from headgate.spark.loop.loop import ControlLoop
from headgate.spark.versions.arrow import arrow_schema
from headgate.spark.versions.state_operators import require_state_operators
from headgate.spark.worker_trial import leave_mark, try_in_worker
from headgate.store.folder import check_gate_name, open_control_folder
from headgate.store.gate_files.gate_call import new_call
from headgate.store.lease import this_process
from headgate.store.settings_file import SettingsFile

__all__ = ["ROCKSDB", "join"]

log = logging.getLogger("headgate")

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_STORES = "org.apache.spark.sql.execution.streaming.state"
_DEFAULT_STORE, _ROCKSDB = (
    f"{_STORES}.HDFSBackedStateStoreProvider",
    f"{_STORES}.RocksDBStateStoreProvider",
)
#: The setting that a join needs, for ``spark.conf.set``.
ROCKSDB = (_PROVIDER, _ROCKSDB)
#: What a comparison and a result cost before they are timed, in seconds (`headgate bench join`). The
#: first batches replace them: `headgate bench join-numbers` shows that half and twice hold as well.
_COMPARISON_S = {"set": 1.5e-9, "key": 2e-8, "vector": 5e-9, "weighted": 2e-8, "none": 2e-7}
_RESULT_S = {"pairs": 4e-7, "lists": 2e-7, "counts": 2e-9}


@explained(
    'hg.join(left, right, on=hg.overlap("keywords", at_least=3), within="1 minute", time="at", ...)'
)
def join(
    left: DataFrame,
    right: DataFrame,
    *,
    on: Condition,
    within: Duration | tuple[Duration, Duration],
    time: str | tuple[str, str],
    hold: Duration | None = None,
    budget: str | float | None = None,
    utility: str | tuple[str | None, str | None] | None = None,
    output: str = "pairs",
    how: str = "inner",
    rank: str = "content",
    basic_window: Duration | None = None,
    suffixes: tuple[str, str] = ("_left", "_right"),
    name: str = "join",
    control: str | os.PathLike[str] | None = None,
    on_failure: str = "open",
    mode: str = "shed",
    retention: Duration = RETENTION_S,
    seed: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    dropped: str | os.PathLike[str] | None = None,
) -> DataFrame:
    """Pairs of rows that match and are close in time; at peak those comparisons that pay most.

    What:
        on: ``hg.overlap("keywords", at_least=3)``, ``hg.equal``, ``hg.subset``, ``hg.superset``,
            ``hg.inner_product`` or ``hg.predicate``.
        within: how far apart in event time the rows of a pair may be; or two durations, how long a
            left row waits for right ones and a right row for left ones.
        time: the timestamp column, with a watermark, of both sides or of each.
        output: ``"pairs"``, one row a pair with the columns of both sides (`suffixes` for names that
            both have); ``"lists"``, one row for a left row and the block that it met, with the right
            rows as ``matches``, which is cheaper to deliver; ``"counts"``, one row a basic window with
            the pairs found, an estimate of all there are and its error, cheapest of all.

    How much:
        hold: the batch duration to keep; with `budget` alone, 2 seconds. Without either the join is
            complete, whatever that takes.
        budget: ``"2 cores"``, how many shards compare in parallel; or a number, the most comparisons of
            a batch; or ``"25 %"``, a share of the full join's.
        utility: a column of numbers says what a row is worth, and a pair is worth the larger of the
            two; a column of strings is the row's type, whose pay-off is learnt.

    How:
        rank: which comparisons first: ``"content"``, by the items of row and block, where the condition
            lets them tell; or ``"pay-off"``, by what comparisons of such rows at such a lag paid.
        basic_window: rows are kept, expired and compared in blocks of so much event time; default: a
            twentieth of the longer window.
        control: a folder that the driver and all executors share: plans, ledger, what was learnt.
            Without it a temporary folder of this machine, which serves a local master only.
        retention: how long the ledger keeps records; by default 7 days.
        checkpoint: the query's checkpoint, where it is not found by itself (over Connect, unless it is
            in the session's default place): it tells how many rows a batch has before it begins.
        dropped: a folder that the driver and all executors share, in which rows that are left out are
            set aside as files; `headgate.dropped` reads exactly these, with ``side=``.

    Rows are kept in the state for their window; what is shed are comparisons, and the ledger has how
    many, with an estimate of the share of all pairs that was found. Where rows alone would take longer
    than the target, those that would match least are left out, and the estimate counts their pairs,
    too. Rows behind the watermark are counted as late. Below capacity the result is the full join.
    """
    check_gate_name(name)
    check_frame("left", left)
    check_frame("right", right)
    check_choices(on, how, output, rank)
    check_pair("suffixes", suffixes)
    if isinstance(utility, tuple):
        check_pair("utility", utility)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise BadArgument(f"seed={seed!r}: give a whole number, 0 or more")
    spark = session_of(left)
    require_state_operators(spark, f"join {name!r}", is_connect(spark))
    windows = JoinWindows.of(within, basic_window)
    settings = join_settings(hold, budget, mode, on_failure, retention)
    sides = _sides(left, right, time, utility)
    kind = require_condition(on, left, right)
    schema = result_schema(left, right, output, suffixes)
    aside = None if dropped is None else _aside(left, right, dropped, name, control is not None)
    compiled()  # says which extra is missing
    shards = how_many_shards(spark, budget)
    folder = _folder(control)
    grid = Grid.of(shards, isinstance(on, Equal))
    spec = JoinSpec(
        name=name,
        control=folder,
        settings=settings,
        shards=shards,
        comparison_s=_COMPARISON_S[kind],
        result_s=_RESULT_S[output],
        fixed_work=None if isinstance(budget, str) or budget is None else budget / shards,
        basic_s=windows.basic_us / 1e6,
        copies=(grid.copies(0), grid.copies(1)),
        dropped=aside,
    )
    _require_rocksdb(spark)
    _trial(spark, name, folder, on)
    loop = ControlLoop.of(spark)
    loop.refuse_another(spec)  # before it overwrites what the other one has declared
    SettingsFile(folder, name).declare(settings)
    spec = loop.register(spec)
    call = new_call(spec.number, spec.opening(), spec.opening_offer())
    terms = JoinTerms(
        condition=on,
        windows_us=windows.windows_us,
        basic_us=windows.basic_us,
        seed=seed_of(name, seed),
        kinds=KINDS if any(s.has_kinds for s in sides) else 1,
        by_content=rank == "content",
        shards=shards,
        columns=columns_digest(
            [[(f.name, f.dataType.simpleString()) for f in side.frame.schema.fields] for side in sides],
            on,
            [side.time for side in sides],
        ),
    )
    checkpoints = spark.conf.get("spark.sql.streaming.checkpointLocation", None)
    resolver = JoinResolver(
        checkpoint=None if checkpoint is None else check_checkpoint(checkpoint), checkpoints=checkpoints
    )
    plans = TaskPlan(
        str(folder), name, "", on_failure, settings.min_keep,
        driver=this_process(), call=call, resolver=resolver.to_text(), mode=mode,
    )  # fmt: skip
    joined = (
        _packed(sides, on, grid, plans, terms.seed, aside)
        .groupBy(SHARD)
        .transformWithStateInPandas(
            JoinOperator(JoinWork(terms), grid, plans, call.opening, output),
            OUTPUT,
            "append",
            "EventTime",
        )
        .observe(join_metric_name(name, call), *behind_join())
    )
    if schema is None:
        return counted(joined, windows.basic_us)
    return joined.where(F.col("what") == PAIRS).select("payload").mapInArrow(Unpacker(schema), schema)


@dataclass(frozen=True)
class _Side:
    """One of the two streams, checked."""

    number: int
    frame: DataFrame
    time: str
    utility: str | None

    @property
    def has_kinds(self) -> bool:
        """Whether its rows have types."""
        return self.utility is not None and has_kinds(self.frame, self.utility)


def _sides(left: DataFrame, right: DataFrame, time: Any, utility: Any) -> list[_Side]:
    if not isinstance(time, str) and not (isinstance(time, tuple) and len(time) == 2):
        raise BadArgument(f'time={time!r}: name one column, or two: ("published", "seen_at")')
    times = (time, time) if isinstance(time, str) else time
    utilities = utility if isinstance(utility, tuple) else (utility, utility)
    found = []
    for number, frame in enumerate((left, right)):
        require_own_names(frame, ("left", "right")[number])
        require_watermark(frame, times[number], ("left", "right")[number])
        found.append(_Side(number, frame, times[number], utilities[number]))
        if utilities[number] is not None:
            require_utility(frame, utilities[number])
    return found


def _aside(
    left: DataFrame, right: DataFrame, folder: str | os.PathLike[str], name: str, booked: bool
) -> str:
    """Where rows of both sides go that are left out."""
    dropped_by(left, folder, name, booked, "the left DataFrame")
    return dropped_by(right, folder, name, booked, "the right DataFrame")


def _packed(
    sides: list[_Side], on: Condition, grid: Grid, plans: TaskPlan, seed: int, aside: str | None
) -> DataFrame:
    """Both streams as payloads for each shard."""
    keys = shard_keys(sides[0].frame.sparkSession, grid.shards)
    has_utility = any(side.utility is not None and not side.has_kinds for side in sides)
    found = []
    for side in sides:
        ready = encoded(side.frame, side.number, on, side.time, grid, side.utility, has_utility)
        schema = arrow_schema(ready.schema)
        drawer = RowDrawer(plans, on, side.number, seed, aside)
        packer = Packer(side.number, grid, tuple(ready.columns), schema, keys, drawer)
        # Spark's own mapInArrow takes no names with dots; the worker gives the columns their names back.
        plain = ready.toDF(*[f"c{i}" for i in range(len(ready.columns))])
        found.append(plain.mapInArrow(packer, PACKED))
    return found[0].unionByName(found[1])


def _require_rocksdb(spark: SparkSession) -> None:
    """Spark's operators with several states need a store with column families: RocksDB.

    Spark has one such setting for a whole session, and a query reads it once, when it first starts. Set
    from here it would choose the store of every query that starts later: so people do it. A query in a
    session of its own would be missing in theirs (`spark.streams`).
    """
    if spark.conf.get(_PROVIDER, _DEFAULT_STORE) == _DEFAULT_STORE:
        raise BadArgument(
            f"join: this session keeps streaming state in {_DEFAULT_STORE.rpartition('.')[2]}, and a "
            f'join needs RocksDB: spark.conf.set("{_PROVIDER}", "{_ROCKSDB}") before this call. It '
            "holds for queries that start later and have no checkpoint; set it back when the join's "
            "query has started, and other queries keep the store that they have"
        )


def _folder(control: str | os.PathLike[str] | None) -> Place:
    if control is not None:
        return open_control_folder(control)
    folder = Path(tempfile.mkdtemp(prefix="headgate-"))
    log.info("join: no control= was given; plans and the ledger are in %s", folder)
    return folder


def _trial(spark: SparkSession, name: str, folder: Place, on: Condition) -> None:
    """Can a Python worker compile the kernels, unpickle the condition, and write to the folder?"""

    def look() -> None:
        from headgate.joins.warm_up import warm_up

        warm_up(on)
        leave_mark(folder, [name, type(on).__name__])

    try_in_worker(
        spark,
        look,
        who=f"join {name!r}",
        sent="the condition",
        needs="Headgate with its join extra (pip install 'headgate[join]') must be there for the "
        f"workers' Python (PYSPARK_PYTHON), and the folder {str(folder)!r} on every executor.",
    )
