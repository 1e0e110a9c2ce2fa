"""The plan of the batch that a task belongs to: found, or pinned on first use, in a Python worker."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from pyspark import TaskContext

from headgate.core.plan import KEEP_ALL, Plan
from headgate.core.rescue import Rescue
from headgate.errors import NamedTwice, OwnedElsewhere, RescueRefused, ShapeChanged
from headgate.spark.checkpoint import checkpoint_place
from headgate.spark.gate.pin.resolver import SizedBatches
from headgate.spark.gate.rescue_refused import refuse_run, refuse_sink, refuse_state
from headgate.store.attempts import Attempts, Bounds
from headgate.store.gate_files.gate_call import UNKNOWN_CALL, GateCall
from headgate.store.gate_files.shape_files import difference
from headgate.store.lease import Holder, Watch
from headgate.store.places.place import Place, place_from
from headgate.store.plans import PinnedPlan, PlanStore, Resolve
from headgate.store.query_facts import checkpoint_of

__all__ = ["TaskPlan", "batch_of_task", "run_of_task"]

#: What this worker process has seen of the drivers' heartbeats; another worker begins anew.
_WATCH = Watch()
#: How Spark writes the run of a query.
_RUN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def batch_of_task() -> tuple[str, int] | None:
    """The query and the micro-batch that this task works for; None outside a stream."""
    context = TaskContext.get()
    query = context.getLocalProperty("sql.streaming.queryId") if context else None
    batch = context.getLocalProperty("streaming.sql.batchId") if context else None
    return None if query is None or batch is None else (query, int(batch))


def run_of_task() -> str:
    """The run of the query that this task works for; empty where nobody can tell.

    Spark names the jobs of a stream by it. Code in ``foreachBatch`` may name its jobs otherwise, and
    that name is no run: a lease that bore it would not be given back when the run ends.
    """
    context = TaskContext.get()
    group = context.getLocalProperty("spark.jobGroup.id") if context else None
    return group if group is not None and _RUN.fullmatch(group) else ""


@dataclass(frozen=True)
class TaskPlan:
    """Where a gate's plans are, and what holds when they cannot be had.

    A lost folder never lets a query die. What does is a batch that would be judged by other means than
    it began with (`ShapeChanged`), a second driver of one query (`OwnedElsewhere`), a second gate of
    the name in it (`NamedTwice`), and a rescue that its sink is not safe for (`RescueRefused`).
    """

    control: str
    gate: str
    shape: str
    on_failure: str
    min_keep: float
    #: What to do with a batch that began under another shape: "refuse" or "accept".
    on_reshape: str = "refuse"
    #: The driver process that built the gate.
    driver: Holder | None = None
    call: GateCall = UNKNOWN_CALL
    #: What makes a plan for the batch's own size (`SizedBatches`, as text); None where there is none.
    resolver: str | None = None
    #: How a batch that failed is run with fewer rows, where people asked for it; and how many of the
    #: plan's groups are value classes.
    rescue: Rescue | None = None
    classes: int = 0
    #: Whether the driver can see what its queries write to, and tells.
    sink_told: bool = False
    #: Whether new checkpoints keep the state of a batch's attempts apart.
    state_apart: bool = False
    #: The mode that the code gives; in all but "shed" nothing is shed, and so it is after a failure.
    mode: str = "shed"

    def of(self, query: str, batch: int) -> Plan:
        """The plan of this batch, from now on and for every attempt."""
        return self.pin(query, batch).plan

    def pin(self, query: str, batch: int) -> PinnedPlan:
        """The same, with why it is this batch's."""
        store = PlanStore(place_from(self.control), self.gate, query, watch=_WATCH)
        me = None if self.driver is None else replace(self.driver, run=run_of_task())
        try:
            # First, as the shape below: a run that is refused is no attempt at the batch.
            bounds = None if self.rescue is None else self._bounded(self.rescue, query, batch, me)
            found = store.pin(batch, self.fallback, self.shape, me, self.call, self._resolve(query))
            if bounds is not None and me is not None:
                found = self._of_this_shape(found, query, batch)
                found = Attempts(store).of_run(batch, found, me, self.call, bounds)
        except (OwnedElsewhere, NamedTwice, RescueRefused, ShapeChanged):
            raise
        except Exception:  # whatever is wrong with the folder, the query goes on
            found = self._without_plan(store, batch)
            store.refuse_namesake(found, me, self.call)
        return self._of_this_shape(found, query, batch)

    def _checkpoint(self, query: str) -> Place | None:
        """The query's checkpoint, where this process can read it."""
        control = place_from(self.control)
        if self.resolver is not None:
            found, _ = SizedBatches.from_text(self.resolver).checkpoint_of(control, query, wait=False)
            return found
        told = checkpoint_of(control, query)
        return None if told is None else checkpoint_place(told)

    def _bounded(
        self, rescue: Rescue, query: str, batch: int, me: Holder | None
    ) -> Callable[[], Bounds | None]:
        """What a rescue may do to this batch, asked when it must be known; refused where it may harm."""
        control = place_from(self.control)
        run = "" if me is None else me.run
        refuse_run(self.gate, query, batch, run)
        if not refuse_sink(self.gate, rescue, control, query, run, wait=self.sink_told):
            return lambda: None  # the driver says nothing: no query dies of that
        checkpoint = self._checkpoint(query)
        refuse_state(self.gate, checkpoint, query, batch, kept_apart=self.state_apart)

        def bounds() -> Bounds | None:
            from headgate.store.settings_file import SettingsFile  # late: most batches run once

            settings = SettingsFile(control, self.gate).effective()
            shedding = settings.mode == "shed"
            return Bounds(rescue, settings.min_keep, self.classes) if shedding else None

        return bounds

    def _resolve(self, query: str) -> Resolve | None:
        text, control = self.resolver, place_from(self.control)
        if text is None:
            return None
        # Opened in there: a policy that this worker cannot import costs the size, and not the query.
        return lambda published, batch: SizedBatches.from_text(text).resolve(
            published, control, query, batch
        )

    def _without_plan(self, store: PlanStore, batch: int) -> PinnedPlan:
        """The plan cannot be had; where a pin still can, a replay meets the same again."""
        chosen = replace(self.fallback(), shape=self.shape)
        try:
            return store.pin_to(batch, chosen)
        except Exception:
            return chosen

    def _of_this_shape(self, found: PinnedPlan, query: str, batch: int) -> PinnedPlan:
        """The pin, unless this gate would judge the batch's rows by other means than it began with.

        The identity, the seed and the predicates are compiled into the stream, so a worker cannot judge
        with those of the pin; and to go on would keep other rows than the first attempt did.
        """
        plan = found.plan
        if not (found.shape and self.shape) or found.shape == self.shape:
            return found
        if plan.keeps_everything or plan.keeps_nothing:
            return found  # no shape can make a difference
        other = difference(place_from(self.control), self.gate, found.shape, self.shape)
        if other is None:
            return found
        if self.on_reshape == "accept":
            accepted = replace(found, shape=self.shape)
            with suppress(OSError):  # a folder that takes no pin: a later attempt is accepted again
                PlanStore(place_from(self.control), self.gate, query).repin(batch, accepted)
            return accepted
        raise ShapeChanged(
            f"gate {self.gate!r}: batch {batch} of query {query} began under another shape "
            f"({found.shape}, now {self.shape}): {other}. Run again like this it would keep other rows "
            "than before. Redeploy with the former identity, seed and keep until this batch is through "
            'and change them then; or give on_reshape="accept" to have the batch judged and recorded '
            "anew, if nothing of its first attempt has reached the sink"
        )

    def fallback(self) -> PinnedPlan:
        """What holds when the plan cannot be had."""
        if self.on_failure == "closed":
            mode, min_keep = self._mode_and_min_keep()
            if mode == "shed":
                return PinnedPlan(Plan(min_keep), "fail-closed")
        return PinnedPlan(KEEP_ALL, "fail-open")

    def _mode_and_min_keep(self) -> tuple[str, float]:
        """Those that people set, if the folder can be read; else those given at the call.

        Only a failure reads the settings: a batch whose plan is there has no need of them.
        """
        try:
            from headgate.store.settings_file import SettingsFile

            settings = SettingsFile(place_from(self.control), self.gate).effective()
            return settings.mode, settings.min_keep
        except Exception:
            return self.mode, self.min_keep
