"""`guard`: an expensive function with its own shedder, which holds its queueing latency."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headgate.durations import Duration
from headgate.errors import BadArgument
from headgate.guards.inline_policy import InlinePolicy
from headgate.guards.price_shedding import PriceShedding
from headgate.guards.published.settings import LasSettings
from headgate.guards.targets import LatencyTarget
from headgate.settings import RETENTION_S, retention_s
from headgate.spark.calls import explained
from headgate.spark.session import session_of  # first: it says which extra is missing
from headgate.store.places.place import Place, place_from

# isort: split
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ByteType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from headgate.spark.dropped.call import dropped_by
from headgate.spark.gate.identity import require_own_column, require_timestamp, seed_of
from headgate.spark.gate.predicates import require_predicate
from headgate.spark.gate.shape import WEIGHT, quoted, quoted_name
from headgate.spark.gate.weights import GATES, gates_of
from headgate.spark.guard.arguments import (
    check_choices,
    check_target,
    in_words,
    key_columns,
    name_of,
    result_schema,
)
from headgate.spark.guard.memory import GuardMemory
from headgate.spark.guard.meter import before_guard, behind_guard, guard_metric_names
from headgate.spark.guard.output import COST, ERROR, FILE, OUTCOME, QUEUE, ROWS
from headgate.spark.guard.run import GuardSpec
from headgate.spark.guard.task import GuardTask
from headgate.spark.guard.terms import GuardTerms
from headgate.spark.loop.loop import ControlLoop
from headgate.spark.versions.arrow import arrow_schema
from headgate.spark.worker_trial import leave_mark, try_in_worker
from headgate.store.folder import check_gate_name, open_control_folder
from headgate.store.gate_files.gate_call import new_call
from headgate.store.guards import declare_guard
from headgate.store.lease import this_process

__all__ = ["guard"]

_PROTECTED = "_headgate_protected"


@explained(
    'hg.guard(frame, function, schema="score double", key="user", target=hg.average("1 second"), ...)'
)
def guard(
    frame: DataFrame,
    function: Callable[[Any], Any],
    *,
    schema: str | StructType,
    key: str | Sequence[str],
    target: LatencyTarget,
    arrival: str | None = None,
    policy: str | float | PriceShedding | LasSettings = "balanced",
    form: str = "row",
    chunk: int = 64,
    name: str | None = None,
    control: str | os.PathLike[str] | None = None,
    keep: str | None = None,
    on_error: str = "fail",
    dead_letters: str | os.PathLike[str] | None = None,
    trigger: Duration | None = None,
    retention: Duration = RETENTION_S,
    seed: int | None = None,
    dropped: str | os.PathLike[str] | None = None,
) -> DataFrame:
    """The function's results for the rows that it has time for; the others are dropped and counted.

    What:
        function: takes a `Row` and returns a dict, a tuple or a `Row` with the columns of `schema`; or,
            with ``form="pandas"`` or ``"arrow"``, takes some rows as a DataFrame or a record batch and
            returns one row for each. `chunk` is the most rows of a call.
        schema: what the function returns, as a DDL string or a `StructType`.
        key: the column, or columns, that tell what a row will cost.
        arrival: the timestamp column from which a row waits; on a batch DataFrame it may be left out,
            and rows wait from the start of their task.

    How much:
        target: ``hg.average("1 second")``, ``hg.absolute(...)`` or ``hg.sliding(...)``: the queueing
            latency, from a row's arrival to the start of its execution. In a micro-batch engine an
            average below about one trigger interval cannot be had; give `trigger`, and such a target
            is refused here.
        policy: which rows: ``"balanced"``, a price that drops dear rows first; or ``"hard"``,
            ``"soft"``, ``"las"``, ``"straw-man"``, ``"full-knowledge"``, ``"none"``, a share to drop.
        keep: an SQL predicate; such rows are not dropped.

    How:
        control: a folder that the driver and all executors share: what workers learn, the ledger.
            Without it each worker process remembers for itself, and there is no ledger.
        on_error: when the function raises: ``"fail"`` the query, ``"dead-letter"`` sets the row aside
            in a file of the folder `dead_letters` (by default in the control folder), ``"keep"``
            passes it on with null results and its error in ``_error``.
        retention: how long the ledger keeps records; by default 7 days.
        dropped: a folder that the driver and all executors share, in which dropped rows are set aside
            as files; `headgate.dropped` reads exactly these. It needs a stream and `control`.

    The result has the function's columns, and ``_queue_ms`` (how long the row waited), ``_cost_ms``
    (how long it took) and ``_weight`` (how many rows it stands for). Decisions follow the clock, so a
    batch that Spark runs again may keep other rows.
    """
    name = name_of(function) if name is None else name
    check_gate_name(name)
    spark = session_of(frame)
    check_choices(on_error, form, chunk)
    gates = gates_of(frame)
    if name in gates:
        raise BadArgument(f"guard {name!r} is already in this query: give each one its own name")
    check_target(target, trigger)
    built = _Guard(
        name=name,
        policy=InlinePolicy(policy, target),
        results=result_schema(schema),
        keys=key_columns(frame, key),
        control=None if control is None else open_control_folder(control),
        retention_s=retention_s(retention),
        dropped=None if dropped is None else dropped_by(frame, dropped, name, control is not None),
    )
    if arrival is None and frame.isStreaming:
        raise BadArgument(
            "arrival=None: a stream's rows wait from their arrival; name the timestamp column that says "
            "when a row arrived (timestamp of a Kafka or rate source)"
        )
    if arrival is not None:
        require_own_column(frame, arrival, "arrival")
        require_timestamp(frame, quoted_name(arrival), "arrival")
    if keep is not None:
        require_predicate(frame, keep)
    columns = [*frame.columns, *([] if keep is None else [_PROTECTED])]
    letters = built.letters(on_error, dead_letters)
    output = built.output(on_error)
    call = new_call()
    terms = GuardTerms(
        name=name,
        function=function,
        form=form,
        columns=tuple(columns),
        inputs=tuple(frame.columns),
        keys=built.keys,
        arrival=arrival,
        protected=None if keep is None else _PROTECTED,
        weights=WEIGHT if WEIGHT in frame.columns else None,
        output=arrow_schema(output),
        policy=built.policy,
        control=None if built.control is None else str(built.control),
        on_error=on_error,
        dead_letters=None if letters is None else str(letters),
        chunk=chunk,
        seed=seed_of(name, seed),
        driver=this_process(),
        streaming=frame.isStreaming,
        call=uuid.uuid4().hex,
        number=call.number,
        dropped=built.dropped,
    )
    task = GuardTask(terms)
    if built.control is not None:
        built.declare(spark, frame)
    built.trial(spark, task, letters)
    if built.control is not None:
        call = replace(call, spec=built.prepare(spark, frame))
    if keep is not None:
        frame = frame.withColumn(_PROTECTED, F.coalesce(F.expr(keep), F.lit(False)))
    arrived, guarded = guard_metric_names(name, call)
    if frame.isStreaming and built.control is not None:
        frame = frame.observe(arrived, *before_guard(arrival))
    # Spark's own mapInArrow takes no names with dots; the worker gives the columns their names back.
    done = frame.toDF(*[f"c{i}" for i in range(len(columns))]).mapInArrow(task, output)
    if frame.isStreaming and built.control is not None:
        done = done.observe(guarded, *behind_guard(built.dropped is not None))
    kept = done.where(F.col(OUTCOME) <= 1)
    weight = F.col(WEIGHT).alias(WEIGHT, metadata={GATES: [*gates, name]})
    plain = [c for c in kept.columns if c not in (OUTCOME, ROWS, WEIGHT, FILE)]
    return kept.select(*[quoted(c) for c in plain], weight)


@dataclass(frozen=True)
class _Guard:
    """What a guard's call has checked."""

    name: str
    policy: InlinePolicy
    results: StructType
    keys: tuple[str, ...]
    control: Place | None
    retention_s: float = RETENTION_S
    #: The folder where dropped rows go.
    dropped: str | None = None

    def output(self, on_error: str) -> StructType:
        """The function's columns and the guard's; all nullable, because dropped rows are counted."""
        own = [(QUEUE, DoubleType()), (COST, DoubleType()), (WEIGHT, DoubleType())]
        if on_error == "keep":
            own.append((ERROR, StringType()))  # type: ignore[arg-type]
        own += [(OUTCOME, ByteType()), (ROWS, LongType())]  # type: ignore[list-item]
        if self.dropped is not None:
            own.append((FILE, StringType()))  # type: ignore[arg-type]
        taken = {n for n, _ in own} & set(self.results.names)
        if taken:
            raise BadArgument(
                f"schema= has the columns {sorted(taken)}, which a guard adds itself: rename them"
            )
        fields = [StructField(f.name, f.dataType, True) for f in self.results.fields]
        return StructType([*fields, *(StructField(n, kind, True) for n, kind in own)])

    def letters(self, on_error: str, folder: str | os.PathLike[str] | None) -> Place | None:
        """Where rows go that the function failed on."""
        if on_error != "dead-letter":
            if folder is not None:
                raise BadArgument('dead_letters= needs on_error="dead-letter"')
            return None
        if folder is not None:
            return open_control_folder(folder)
        if self.control is None:
            raise BadArgument(
                'on_error="dead-letter" needs dead_letters=, a folder that all executors share, or '
                "control="
            )
        return self.control / "gates" / self.name / "dead-letters"

    def trial(self, spark: SparkSession, task: GuardTask, letters: Place | None) -> None:
        """Can a Python worker import Headgate, unpickle the function, and write where it must?"""
        folders = [str(f) for f in (self.control, letters, self.dropped) if f is not None]

        def look() -> None:
            for folder in folders:
                leave_mark(place_from(folder), task.terms.name)

        try_in_worker(
            spark,
            look,
            who=f"guard {self.name!r}",
            sent="the function",
            needs="Headgate (with numpy and pyarrow) must be installed for the workers' Python "
            f"(PYSPARK_PYTHON), and the folders {folders} must be there on every executor.",
        )

    def spec(self) -> GuardSpec:
        """It, as the control loop knows it."""
        assert self.control is not None
        return GuardSpec(self.name, self.control, self.policy, self.retention_s, self.dropped)

    def declare(self, spark: SparkSession, frame: DataFrame) -> None:
        """Say in the control folder what this is, unless another one of the name is running there."""
        assert self.control is not None
        if frame.isStreaming:
            ControlLoop.of(spark).refuse_another(self.spec())
        target = self.policy.target
        declare_guard(
            self.control,
            self.name,
            policy=self.policy.name,
            target=in_words(target),
            target_s=target.tau_s,
            retention_s=self.retention_s,
        )

    def prepare(self, spark: SparkSession, frame: DataFrame) -> int:
        """Take up what was learned before, and have the loop keep the books; the number of its spec."""
        assert self.control is not None
        memory = GuardMemory(self.control, self.name, self.policy, owner=this_process().owner)
        memory.merge_what_is_left()
        return ControlLoop.of(spark).register(self.spec()).number if frame.isStreaming else 0
