"""`Gate`: what `hg.gate` makes of its arguments, and what that makes of a DataFrame."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from headgate.control import ControllerConfig
from headgate.core.groups import GroupStats
from headgate.core.load import Budget
from headgate.core.offer import Offer
from headgate.core.plan import KEEP_ALL, SCALE, Plan
from headgate.core.rescue import Rescue
from headgate.errors import BadArgument, WrongKindOfFrame
from headgate.policies import Policy
from headgate.policies.by_group.concept_driven import CROWDED, crowded
from headgate.run.gate_spec import GateSpec
from headgate.settings import GateSettings
from headgate.spark.session import is_connect, session_of  # first: it says which extra is missing
from headgate.store.places.place import Place

# isort: split
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.spark.checkpoint import location_of
from headgate.spark.gate.fingerprint import HASH
from headgate.spark.gate.identity import (
    group_key,
    named_keys,
    require_columns,
    require_timestamp,
    row_hash,
)
from headgate.spark.gate.lineage import limits_in, relation_to_source, require_stable
from headgate.spark.gate.meter import before_gate, behind_draw, behind_gate, metric_names
from headgate.spark.gate.pin.plan_source import FORMAT, PlanSource
from headgate.spark.gate.pin.resolver import Resolver
from headgate.spark.gate.pin.task_plan import TaskPlan
from headgate.spark.gate.predicates import require_predicate
from headgate.spark.gate.read_limits import read_limit
from headgate.spark.gate.rescue_refused import STATE_FORMAT, refuse_frame, refuse_unseen_checkpoint
from headgate.spark.gate.shape import THRESHOLD, WEIGHT, GateShape, Limits, quoted, quoted_name
from headgate.spark.gate.trial import try_workers
from headgate.spark.gate.upstream import Upstream
from headgate.spark.gate.weights import GATES, chained, gates_of
from headgate.spark.groups.strata import DRAWN, StrataShape
from headgate.spark.groups.task import Known, Pinned
from headgate.spark.groups.two_passes import TwoPasses
from headgate.spark.loop.batch_tallies import Tally, running_batch
from headgate.spark.loop.loop import ControlLoop
from headgate.spark.recipe.recipe import note
from headgate.spark.sic.column import SIC, require_sic, row_sic
from headgate.spark.tables.delta_source import delta_table_of
from headgate.spark.versions.aggregates import has_heaviest, require_heaviest
from headgate.store.gate_files.gate_call import UNKNOWN_CALL, GateCall, new_call
from headgate.store.lease import this_process
from headgate.store.settings_file import SettingsFile

__all__ = ["Gate"]

log = logging.getLogger("headgate")

_LIMITS = "_headgate_limits"


@dataclass(frozen=True)
class Gate:
    """A gate before it meets its DataFrame."""

    name: str
    settings: GateSettings
    control: Place | None
    policy: Policy
    controller: ControllerConfig | None
    arrival: str | None
    identity: tuple[str, ...] | None
    start: float
    seed: int
    #: At a site: "source" adds what each row is worth, "derived" takes it from the rows themselves.
    sic: str | None = None
    #: Whether kept rows carry their weight.
    weight: bool = True
    #: What to do with a batch that began under another shape: "refuse" or "accept".
    on_reshape: str = "refuse"
    #: The query's checkpoint, as people gave it: how large a batch is stands there before it runs.
    checkpoint: str | None = None
    #: The Delta table that the stream reads, where it reads one: its log says what offsets mean in rows.
    delta: str | None = None
    #: How a batch that failed is run again with fewer rows; None where it is run as it was.
    rescue: Rescue | None = None

    def apply(self, frame: DataFrame) -> DataFrame:
        """The DataFrame behind the gate."""
        spark = session_of(frame)
        gates = gates_of(frame)
        if self.name in gates:
            raise BadArgument(
                f"gate {self.name!r} is already in this query: give each gate its own name"
            )
        if gates and not self.weight:
            raise BadArgument(
                f"gate {self.name!r}: weight=False, but the rows have the weights of {gates}, which "
                f"would be wrong behind it: drop the column {WEIGHT!r} first, or leave weight= out"
            )
        if not frame.isStreaming:
            return self._made(spark, frame, gates)
        upstream = Upstream.of(frame)
        upstream.refuse_twice(self.name)
        if self.sic != "derived":  # those are results of another fragment, by design
            upstream.refuse_results(self.name, self.settings.rate is None or self.controller is not None)
        return replace(self, delta=delta_table_of(frame))._made(spark, frame, gates)

    def _made(self, spark: SparkSession, frame: DataFrame, gates: list[str]) -> DataFrame:
        running = None
        if not frame.isStreaming and self._draws and self.control is not None:
            running = running_batch(spark)
        if not frame.isStreaming and self.settings.rate is None and running is None:
            raise WrongKindOfFrame(
                f"gate {self.name!r} holds a target on a stream, and this DataFrame is a batch: "
                "give rate= to keep a fixed share of it; inside foreachBatch a target needs "
                "policy=hg.ConceptDriven(...), or a gate in front of the stream"
            )
        if self.rescue is not None:
            refuse_frame(self.name, frame.isStreaming, self.control is not None, self.policy)
            if is_connect(spark):
                refuse_unseen_checkpoint(self.name, self.checkpoint, _default_checkpoints(spark))
        if self.arrival is not None:
            require_timestamp(frame, self.arrival, "arrival")
        self._check_policy(frame)
        if frame.isStreaming and self.control is not None and self.policy.counts_groups:
            require_heaviest(
                spark,
                f"gate {self.name!r}",
                'use counts="batch" with hg.ConceptDriven, or another policy',
            )
        self.check_sic(frame)
        shape = self.shape(frame)
        if frame.isStreaming or running is not None:
            require_stable(frame, self.name, (*shape.identity, *shape.columns), shape.classes)
        if running is not None:
            made = self._in_foreach_batch(spark, frame, shape, gates, *running)
        elif self.control is None or not frame.isStreaming:
            self._check_literal(frame)
            made = self._literal(spark, frame, shape, gates)
        else:
            spec = self._prepare(spark, frame, shape)
            call = new_call(spec.number, spec.opening, self._offer(spec))
            made = self.planned(spark, frame, shape, gates, call, [*spec.keys.values()])
        # The meter behind the gate reads the weight, so it is there in any case, and left out last.
        return made if self.weight else made.drop(WEIGHT)

    def shape(self, frame: DataFrame) -> GateShape:
        """What decides a row's fate besides the plan."""
        identity = self.identity
        if identity is None:
            identity = tuple(quoted_name(c) for c in frame.columns if c not in (WEIGHT, SIC))
        require_columns(frame, identity, "identity")
        grouping = self.policy.grouping
        strata = None
        if self.policy.drawing is not None:
            partitions = int(session_of(frame).conf.get("spark.sql.shuffle.partitions") or 200)
            strata = StrataShape.of(
                self.policy.drawing, partitions, passes=not frame.isStreaming, alone=self.control is None
            )
            strata.check(frame)
        return GateShape(identity, self.seed, grouping.columns, grouping.classes, strata)

    def check_sic(self, frame: DataFrame) -> None:
        """A source's rows get their worth here; derived rows bring it along."""
        if self.sic == "source" and SIC in frame.columns:
            raise BadArgument(
                f"gate {self.name!r}: the rows have a column {SIC!r} already: they come from another "
                "fragment, so leave source= out; or drop the column"
            )
        if self.sic == "derived":
            require_sic(frame)

    def _check_policy(self, frame: DataFrame) -> None:
        grouping = self.policy.grouping
        if grouping.columns:
            group_key(frame, grouping.columns)  # refuses what cannot be grouped by
        for predicate in grouping.classes:
            require_predicate(frame, predicate)

    def _prepare(
        self, spark: SparkSession, frame: DataFrame, shape: GateShape, inside: str | None = None
    ) -> GateSpec:
        """Everything that can go wrong goes wrong here, at the call, and not in a worker.

        `inside` is the query whose ``foreachBatch`` the gate stands in.
        """
        assert self.control is not None
        grouping = self.policy.grouping
        keys = named_keys(spark, frame, grouping.columns, grouping.named)
        spec = GateSpec(
            name=self.name,
            control=self.control,
            settings=self.settings,
            policy=self.policy,
            controller=self.controller,
            start=self.start,
            shape=shape.digest,
            recipe=note(frame, self.control, self.name),
            keys=keys,
            limit=read_limit(frame) if frame.isStreaming else None,
            measures_work=self.sic is not None,
            relation=relation_to_source(frame),
            limits=limits_in(frame),
            opening=self._opening(keys),
        )
        loop = ControlLoop.of(spark)
        loop.refuse_another(spec, inside)  # before it overwrites what the other one has declared
        SettingsFile(self.control, self.name).declare(
            self.settings,
            arrival=self.arrival is not None,
            own_controller=self.controller is not None,
        )
        shape.save(self.control, self.name)
        if frame.isStreaming:
            spark.dataSource.register(PlanSource)
            reader = partial(self._reader, spark, shape, UNKNOWN_CALL, "thresholds")
            try_workers(spark, self.name, self.control, reader)
        return loop.register(spec, inside)

    def _opening(self, keys: Mapping[str, int]) -> Plan:
        """The plan of a query's first batch."""
        settings = self._settings_that_hold()
        if settings.mode != "shed":
            return KEEP_ALL  # a policy with maxima of its own would shed at a whole budget, too
        keep = settings.rate if settings.rate is not None else self.start
        return self.policy.plan(Budget(keep, "idle"), GroupStats(keys=keys))

    def _reader(
        self,
        spark: SparkSession,
        shape: GateShape,
        call: GateCall,
        view: str,
        trial: str | None = None,
    ) -> DataFrame:
        options = {
            "control": str(self.control),
            "gate": self.name,
            "shape": shape.digest,
            "view": view,
            "classes": str(len(self.policy.grouping.classes)),
            "mode": self.settings.mode,
            "on_failure": self.settings.on_failure,
            "min_keep": str(self.settings.min_keep),
            "on_reshape": self.on_reshape,
            "driver": json.dumps(asdict(this_process())),
            "call": json.dumps(call.to_json()),
        }
        resolver = self._resolver(spark)
        if resolver is not None:
            options["resolver"] = resolver
        if self.rescue is not None:
            options["rescue"] = json.dumps(self.rescue.to_json())
            options |= {} if is_connect(spark) else {"sink_told": ""}
            options |= {"state_apart": ""} if spark.conf.get(STATE_FORMAT, None) == "2" else {}
        if trial is not None:
            options["trial"] = trial
        return spark.read.format(FORMAT).options(**options).load()

    def _check_literal(self, frame: DataFrame) -> None:
        """Without a control folder there is nowhere to report to, and nothing to steer."""
        if frame.isStreaming and self.policy.on_its_own() is not None:
            raise BadArgument(
                f"gate {self.name!r}: an accuracy on a stream needs control=, a folder shared by the "
                "driver and all executors: how much of a window a batch brings is learned there"
            )
        if self.settings.mode != "shed" or self.controller is not None:
            given = "controller=" if self.controller is not None else f"mode={self.settings.mode!r}"
            raise BadArgument(
                f"gate {self.name!r}: {given} needs a stream and control=, a folder shared by the "
                "driver and all executors; leave it out to keep a fixed share"
            )

    def _literal(
        self, spark: SparkSession, frame: DataFrame, shape: GateShape, gates: list[str]
    ) -> DataFrame:
        """A fixed rate with no control folder: a native filter, and nothing else."""
        assert self.settings.rate is not None
        grouping = self.policy.grouping
        keys = named_keys(spark, frame, grouping.columns, grouping.named)
        plan = self.policy.plan(Budget(self.settings.rate, "fixed"), GroupStats(keys=keys))
        if shape.strata is not None and frame.isStreaming:
            return self._drawn(frame, shape, Known(plan), gates)
        if shape.strata is not None:
            return self._drawn_from_batch(spark, frame, shape, plan, gates)
        limited = shape.limited_by(spark, frame, plan)
        return self._weighted(limited.where(shape.passes(limited)), frame.columns, gates)

    def _in_foreach_batch(
        self, spark: SparkSession, frame: DataFrame, shape: GateShape, gates: list[str],
        query: str, batch: int,
    ) -> DataFrame:  # fmt: skip
        """Two native passes under the plan of the batch that ``foreachBatch`` is running.

        Where the plan keeps everything there is no first pass: idle is free.
        """
        assert shape.strata is not None
        main = SparkSession.builder.getOrCreate()  # the frame's session is a clone without queries
        loop = ControlLoop.of(main)
        mine = (self.control, self.settings, self.policy, shape.digest)
        known = (spec for spec in loop.specs.named(self.name) if spec.made_of() == mine)
        spec: Any = next(known, None) or self._prepare(main, frame, shape, query)
        call = GateCall(spec=spec.number, opening=spec.opening, offer=self._offer(spec))
        here = self if self.checkpoint else replace(self, checkpoint=_checkpoint_of(main, query))
        plan = here._lookup(spark, shape, call).of(query, batch)
        if plan.keeps_everything:
            tally = Tally()
            weighted = self._weighted(frame, frame.columns, gates, F.lit(1.0))
        else:
            passes = TwoPasses(spark, shape.strata, shape.identity, self.seed, plan, batch)
            kept, weight, allocation = passes.kept(frame)
            tally = Tally.of(allocation, by_chance=shape.strata.draw == "coin")
            weighted = self._weighted(kept, frame.columns, gates, weight)
        tally.spec = spec.number
        loop.tally(self.name, query, batch, tally)
        return tally.watch(weighted, row_hash(weighted, shape.identity, self.seed))

    def _lookup(self, spark: SparkSession, shape: GateShape, call: GateCall) -> TaskPlan:
        return TaskPlan(
            str(self.control), self.name, shape.digest, self.settings.on_failure,
            self.settings.min_keep, self.on_reshape, this_process(), call, self._resolver(spark),
            mode=self.settings.mode,
        )  # fmt: skip

    def _resolver(self, spark: SparkSession) -> str | None:
        """What makes a plan for the size of the batch, in a worker.

        A fixed rate needs none: it is left out there if the policy cannot travel.
        """
        root = _default_checkpoints(spark)
        try:
            return Resolver(
                self.policy,
                repr(self.policy),
                checkpoint=self.checkpoint,
                checkpoints=root,
                delta=self.delta,
            ).to_text()
        except BadArgument:
            if self.settings.rate is None or (self.rescue is not None and is_connect(spark)):
                raise
            return None

    def _offer(self, spec: GateSpec) -> Offer | None:
        """What the plan of a query's first batch is made of, where its size decides."""
        opening = spec.opening_budget(self._settings_that_hold())
        if opening is None:
            return None
        return Offer(opening, GroupStats(keys=spec.keys), policy=repr(self.policy))

    def _settings_that_hold(self) -> GateSettings:
        """What the code says, with people's changes on top."""
        assert self.control is not None
        return self.settings.changed(SettingsFile(self.control, self.name).overrides())

    @property
    def _draws(self) -> bool:
        """Whether rows are drawn by the groups of their own batch."""
        return self.policy.drawing is not None

    def _drawn_from_batch(
        self, spark: SparkSession, frame: DataFrame, shape: GateShape, plan: Plan, gates: list[str]
    ) -> DataFrame:
        """Rows drawn from the strata of a batch DataFrame, counted in a pass of its own."""
        assert shape.strata is not None
        passes = TwoPasses(spark, shape.strata, shape.identity, self.seed, plan)
        kept, weight, allocation = passes.kept(frame)
        if allocation.one_row_each > CROWDED:
            log.warning("gate %r: %s", self.name, crowded(allocation.one_row_each))
        log.info("gate %r: %s", self.name, allocation)
        return self._weighted(kept, frame.columns, gates, weight)

    def _drawn(
        self, frame: DataFrame, shape: GateShape, plans: Known | Pinned, gates: list[str]
    ) -> DataFrame:
        """Rows drawn from the strata of their own batch, with what the tasks saw as a metric."""
        assert shape.strata is not None
        drawn = shape.strata.drawn(frame, shape.identity, self.seed, plans)
        if plans.call is not None:
            yielded = None
            # Where Spark cannot find the largest of them, the ledger has their number, and no names.
            if shape.strata.overflow != "exceed" and has_heaviest(frame.sparkSession):
                yielded = F.when(F.col(DRAWN)["w"] < 0, shape.strata.label())
            seen = behind_draw(F.col(DRAWN)["about"], yielded)
            drawn = drawn.observe(metric_names(self.name, plans.call)[2], *seen)
        weight = F.col(DRAWN)["w"]
        kept = drawn.where(weight > 0)
        if plans.call is None:
            return self._weighted(kept, frame.columns, gates, weight)
        hashed = kept.withColumn(HASH, row_hash(kept, shape.identity, self.seed))
        return self._weighted(hashed, frame.columns, gates, weight, beside=(HASH,))

    def planned(
        self,
        spark: SparkSession,
        frame: DataFrame,
        shape: GateShape,
        gates: list[str],
        call: GateCall = UNKNOWN_CALL,
        named: Sequence[int] = (),
    ) -> DataFrame:
        """The gate proper: rows meet the plan of their batch.

        The default's threshold (and the classes') comes from a scalar subquery on the plan: Spark
        runs it once a batch and compiles its value into the filter. Only a policy with groups by
        column needs the broadcast join.
        """
        columns = frame.columns
        inside, outside, _ = metric_names(self.name, call)
        classes = _first_match(shape.class_columns())
        group = group_key(frame, shape.columns) if shape.columns else None
        heavy = self.policy.counts_groups
        seen = shape.strata.seen() if shape.strata is not None else []
        if self.sic == "derived":
            frame = frame.withColumn(SIC, row_sic())  # what is no worth counts as 0
        brought = F.col(SIC) if self.sic == "derived" else None
        front = before_gate(self.arrival, classes, group, brought, named=named, heavy=heavy)
        frame = frame.observe(inside, *front, *seen)
        if shape.strata is not None:
            drawn = self._drawn(frame, shape, Pinned(self._lookup(spark, shape, call)), gates)
            return drawn.observe(outside, *behind_gate(None, hashed=F.col(HASH))).drop(HASH)
        # One column for the subquery: each mention of it would be another read of the plan.
        frame = frame.withColumn(_LIMITS, self._limits(spark, shape, call, len(classes)))
        read = F.col(_LIMITS)
        if self.sic == "source":
            # A row that lost its plan (fail open) is worth nothing that anyone could vouch for.
            frame = frame.withColumn(SIC, F.coalesce(read["sic"], F.lit(0.0)))
            columns = [*columns, SIC]
            read = read["t"] if classes else read["t"][0]
        limits = Limits(
            default=read[0] if classes else read,
            classes=[read[i + 1] for i in range(len(classes))],
            exceptions=self._reader(spark, shape, call, "exceptions") if shape.columns else None,
        )
        limited = shape.limited(frame, limits)
        # Beside something that Spark takes for chance, below which it pushes no filter. A pushed filter
        # takes a copy of the hash along, and of the subquery: the plan would be read twice a batch.
        decides = row_hash(limited, shape.identity, self.seed)
        hashed = limited.withColumn(HASH, F.when(F.spark_partition_id() >= 0, decides))
        passing = hashed.where(F.col(HASH) < F.col(THRESHOLD))
        weighted = self._weighted(passing, columns, gates, beside=(HASH,))
        alike = self.policy.grouping.trivial and WEIGHT not in columns
        passed = F.col(SIC) if self.sic is not None else None
        seen = behind_gate(F.col(WEIGHT) if alike else None, passed, F.col(HASH))
        return weighted.observe(outside, *seen).drop(HASH)

    def _limits(self, spark: SparkSession, shape: GateShape, call: GateCall, classes: int) -> Column:
        """The plan as one scalar: a threshold, several, or those and what a row is worth."""
        read = self._reader(spark, shape, call, "thresholds")
        if self.sic == "source":
            return read.select(F.struct("t", "sic")).scalar()
        thresholds = read.select("t").scalar()
        return thresholds if classes else thresholds[0]

    def _weighted(
        self,
        passing: DataFrame,
        columns: list[str],
        gates: list[str],
        weight: Column | None = None,
        beside: Sequence[str] = (),
    ) -> DataFrame:
        if weight is None:
            weight = F.lit(float(SCALE)) / F.col(THRESHOLD)
        if WEIGHT in columns:
            weight = chained(F.col(WEIGHT), weight)
        tagged = weight.alias(WEIGHT, metadata={GATES: [*gates, self.name]})
        own = [quoted(c) for c in columns if c != WEIGHT]
        return passing.select(*own, tagged, *[F.col(c) for c in beside])


def _checkpoint_of(spark: SparkSession, query: str) -> str | None:
    handle = spark.streams.get(query)
    return None if handle is None else location_of(handle)


def _first_match(classes: list[Column]) -> list[Column]:
    """Each class's rows without those of a better class."""
    found: list[Column] = []
    for i, matches in enumerate(classes):
        for better in classes[:i]:
            matches = matches & ~better
        found.append(matches)
    return found


def _default_checkpoints(spark: SparkSession) -> str | None:
    """The session's place for checkpoints of which nobody says where they are."""
    return spark.conf.get("spark.sql.streaming.checkpointLocation", None)
