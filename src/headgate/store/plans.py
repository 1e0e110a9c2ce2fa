"""Plans in the control folder: the one that holds now, and the one pinned to each batch.

Read by Spark's Python workers once a batch, so this module imports little.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headgate.core.batch_size import RowsExpected
from headgate.core.offer import Offered
from headgate.core.plan import Plan
from headgate.errors import NamedTwice
from headgate.store.beats import beats_place, heard_in
from headgate.store.file_age import age_by_the_store
from headgate.store.folder import claim_json, names_in, write_json
from headgate.store.gate_files.gate_call import UNKNOWN_CALL, GateCall
from headgate.store.lease import Holder, Lease, Watch, this_process
from headgate.store.pinned_plan import PinnedPlan
from headgate.store.places.contract import Held
from headgate.store.places.place import Place, asks_server
from headgate.store.places.stores import store_of
from headgate.store.stored_json import parsed_json

__all__ = ["PinnedPlan", "PlanStore", "Resolve", "Resolved"]

#: A loop whose plan is so many batches old is taken for gone, whatever its heartbeat says.
BEHIND = 100
#: A batch is pinned before its rows are judged, so one without a pin has judged none; unless its pin
#: could not be written.
_AFTER_A_CRASH = (
    "the run before failed or ended without a word, and left no pin of this batch: if it ran before, "
    "its plan could not be written then, and is not known"
)
#: How long a batch waits for the plan that its predecessor's report is about to bring.
PLAN_WAIT_S = 0.15
_WAIT_STEP_S, _REQUEST_STEP_S = 0.01, 0.05
_PIN = re.compile(r"(\d+)\.json")
#: Pins of settled batches that are kept for a checkpoint that someone rolls back.
KEPT_PINS = 200


@dataclass(frozen=True)
class Resolved:
    """A plan for the batch's own size, and that size; where there is no plan, why, if it matters."""

    plan: Plan | None = None
    expected: RowsExpected | None = None
    note: str = ""


#: From what was published (and the batch) to a plan for the batch's own size.
Resolve = Callable[[Mapping[str, Any], int], Resolved]


class PlanStore:
    """The plans of one gate in one query."""

    def __init__(
        self,
        control: Place,
        gate: str,
        query: str,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        watch: Watch | None = None,
    ) -> None:
        self._control, self._gate, self._query = control, gate, query
        self.folder = control / "gates" / gate / "queries" / query
        self._clock, self._sleep = clock, sleep
        steady = time.monotonic if clock is time.time else clock
        self.lease = Lease(self.folder, watch, steady, sleep, (control, gate, query))
        #: The latest batch that was ever handled; known when something is published.
        self._handled: int | None = None
        #: The plan that this object published last.
        self.last_published: Plan | None = None

    def publish(
        self,
        plan: Plan,
        after: int = -1,
        urgent_s: float | None = None,
        origin: str = "plan",
        spec: int = 0,
        offer: Offered | None = None,
    ) -> None:
        """Let this plan hold for every batch not pinned yet; `origin` says why it is this one.

        `after` is the last batch that it knows of; if the batch after that one lasts longer than
        `urgent_s`, the next plan is worth waiting for. The file says besides which batch was the
        latest ever handled, whatever run of the query it was in: one up to there that has no pin is
        run again, and its plan is in the ledger. `spec` is the number of the gate that it is for, where
        its name has several. `offer` is what the plan was made of: a batch whose size is known meets one
        made for that size.
        """
        if self._handled is None:
            self._handled = self._handled_before()
        self._handled = max(self._handled, after)
        value = {
            "plan": plan.to_json(),
            "after": after,
            "handled": self._handled,
            "origin": origin,
            "owner": this_process().owner,
            "spec": spec,
            "urgent_s": urgent_s,
            "at": self._clock(),
        }
        if offer is not None:
            value["offer"] = offer.to_json()
        # The next batch writes it again: that waits for no disk. What a batch met is its pin.
        write_json(self.folder / "plan.json", value, lasting=False)
        self.last_published = plan

    def _handled_before(self) -> int:
        from headgate.store.ledger.records import Ledger  # late: workers publish nothing

        value = self._published()[0] or {}
        known = int(value.get("handled", value.get("after", -1)))
        return max(known, Ledger(self._control, self._gate, self._query).last_batch())

    def _published(self) -> tuple[dict[str, Any] | None, float]:
        """What was published last, and when by the store's clock.

        None where nothing was, or a crash cut it off.
        """
        path = self.folder / "plan.json"
        return _published_in(store_of(path).get(path))

    def published(self) -> Mapping[str, Any] | None:
        """All that was published last, for people: the plan, after which batch, when and why."""
        return self._published()[0]

    def begun_at(self, batch: int) -> float | None:
        """When a batch was pinned, by the store's clock; None if it has no pin."""
        held = store_of(self.folder).get(self._pin_path(batch))
        return None if held is None else held.written_at

    def current(self) -> Plan | None:
        """The plan that holds now, if any was published for this query."""
        value = self._published()[0]
        return None if value is None else Plan.from_json(value["plan"])

    def _await_plan(
        self,
        published: tuple[dict[str, Any] | None, float],
        batch: int,
        me: Holder | None,
        call: GateCall,
        resolve: Resolve | None,
    ) -> PinnedPlan | None:
        """The gate's plan that holds, after a short wait if the last batch's report is on its way.

        Batches that follow each other without a pause race the loop: Spark reports the end of one
        while it plans the next. Only a loop that is exactly one report behind is waited for, and
        only if that report may change much.
        """
        value, written_at = published
        if value is None:
            value = self._await_first_plan(batch)
        elif self._worth_waiting(value, written_at, batch):
            waited, step = 0.0, _step_s(self.folder)
            while value is not None and waited < PLAN_WAIT_S and _one_behind(value, batch):
                self._sleep(step)
                waited += step
                value, _ = self._published()
        if value is None or not call.may_meet(value, None if me is None else me.owner):
            return None
        found = PinnedPlan(Plan.from_json(value["plan"]), str(value.get("origin", "plan")))
        return _sized(found, value, batch, resolve)

    def _await_first_plan(self, batch: int) -> dict[str, Any] | None:
        """What is published first, after as short a wait: if the batch before ran, its report is due."""
        if batch < 1 or self.pinned(batch - 1) is None:
            return None
        value, waited, step = None, 0.0, _step_s(self.folder)
        while value is None and waited < PLAN_WAIT_S:
            self._sleep(step)
            waited += step
            value, _ = self._published()
        return value

    def _worth_waiting(self, value: dict[str, Any], written_at: float, batch: int) -> bool:
        """Whether the report on its way may change much: that of a batch that lasted long enough.

        It began about when the plan was published. That is told by the files' times: a worker's clock
        says nothing of the driver's. The last heartbeat often tells, for nothing.
        """
        urgent = value["urgent_s"]
        if urgent is None or not _one_behind(value, batch):
            return False
        least_s = float(urgent)
        if least_s <= 0.0 or (self.lease.written_at or 0.0) - written_at >= least_s:
            return True
        return age_by_the_store(self.folder / "plan.json", written_at) >= least_s

    def beat(self) -> None:
        """Say that this process steers the gate in this query, and lives."""
        self.lease.beat(this_process())

    def loop_alive(self, batch: int, me: Holder | None = None) -> bool:
        """Whether somebody steers: by what it writes, and by nobody's clock but this process's own.

        Two signs that it does not: a heartbeat that this process has seen stand still, and a plan that
        is many batches old though its loop is the one that is to steer this batch.
        """
        return self.lease.alive() and _keeps_up(self._published()[0], batch, me)

    def _pin_path(self, batch: int) -> Place:
        return self.folder / "pins" / f"{batch:012d}.json"

    def pinned(self, batch: int) -> PinnedPlan | None:
        """The plan pinned to this batch, if it has read one; a pin cut off by a crash says nothing."""
        path = self._pin_path(batch)
        return _pin_in(store_of(path).get(path))

    def pin(
        self,
        batch: int,
        fallback: PinnedPlan | Callable[[], PinnedPlan],
        shape: str = "",
        me: Holder | None = None,
        call: GateCall = UNKNOWN_CALL,
        resolve: Resolve | None = None,
    ) -> PinnedPlan:
        """This batch's plan: the one it had before, else the one that holds now, from now on.

        `fallback` is for a loop that is gone: a plan, or what makes one only then. `me` is the driver
        that the batch runs for, `call` the call that made the gate, `resolve` what makes a plan for the
        batch's own size of the one that holds. Raises OSError where the folder
        cannot be used, `OwnedElsewhere` where another driver that lives has the gate in this query, and
        `NamedTwice` where another gate of the name is in it.
        """
        note = ""
        seen = self._all_at_once(batch, me)
        what = f"gate {self._gate!r} of query {self._query}"
        if me is not None and self.lease.claim(me, what, look=seen is None):
            note = _AFTER_A_CRASH
        found = self.pinned(batch) if seen is None else _pin_in(seen[0])
        if found is None:
            published = self._published() if seen is None else _published_in(seen[1])
            chosen, lost = self._met_before(published, batch)
            recorded = chosen is not None
            if chosen is None:
                holding = self._holding(published, batch, fallback, me, call, resolve)
                chosen = replace(holding, shape=shape)
                chosen = replace(chosen, note="; ".join(filter(None, (note, chosen.note))))
            if lost:
                chosen = replace(chosen, origin="lost-plan")
            found = self._claim_or_restore(batch, self.signed(chosen, me, call), recorded)
        self.refuse_namesake(found, me, call)
        return found

    def _all_at_once(self, batch: int, me: Holder | None) -> tuple[Held | None, Held | None] | None:
        """The batch's pin and what was published, read with the lease in one way to a server and back.

        None for a folder, where a look costs nothing; and where the lease is not `me`'s yet: to get it
        may take a while, and then all is looked at again.
        """
        if me is None or not asks_server(self.folder):
            return None
        beats = beats_place(self._control, me.owner)
        places = self.lease.place, self._pin_path(batch), self.folder / "plan.json", beats
        lease, pin, plan, heard = store_of(self.folder).get_all(places)
        holder = self.lease.seen(lease, {me.owner: heard_in(heard)})
        return (pin, plan) if holder is not None and holder.owner == me.owner else None

    def _holding(
        self,
        published: tuple[dict[str, Any] | None, float],
        batch: int,
        fallback: PinnedPlan | Callable[[], PinnedPlan],
        me: Holder | None,
        call: GateCall,
        resolve: Resolve | None,
    ) -> PinnedPlan:
        """What a batch meets that has not run before."""
        # Who claims the lease has looked at it.
        if not (self.lease.alive(look=me is None) and _keeps_up(published[0], batch, me)):
            return fallback() if callable(fallback) else fallback
        found = self._await_plan(published, batch, me, call, resolve)
        if found is None:
            opening: dict[str, Any] = {"opening": True}
            opening |= {} if call.offer is None else {"offer": call.offer.to_json()}
            found = _sized(PinnedPlan(call.opening, "start"), opening, batch, resolve)
        return found

    @staticmethod
    def signed(pin: PinnedPlan, me: Holder | None, call: GateCall) -> PinnedPlan:
        """The pin, with the run and the call that it is made for."""
        return pin if me is None or not call.number else replace(pin, run=me.run, call=call.number)

    def refuse_namesake(
        self, found: PinnedPlan, me: Holder | None, call: GateCall, kind: str = "gate"
    ) -> None:
        """A run has one plan of each gate: a pin of another call in it is a namesake's."""
        if me is None or not me.run or found.run != me.run:
            return
        if call.number and found.call not in (0, call.number):
            raise NamedTwice(
                f"{kind} {self._gate!r} is twice in query {self._query}, as in the two halves of a "
                f"union: they would share one plan and one ledger. Give each {kind} its own name, or "
                f"put one {kind} behind the union"
            )

    def _claim(self, batch: int, pin: PinnedPlan) -> PinnedPlan:
        return PinnedPlan.from_json(claim_json(self._pin_path(batch), pin.to_json()))

    def _claim_or_restore(self, batch: int, pin: PinnedPlan, recorded: bool) -> PinnedPlan:
        """The claim; a name that holds a pin that is cut off cannot be claimed again in an object store.

        Then what the record says takes its place: whoever runs the batch again reads the same record.
        """
        try:
            return self._claim(batch, pin)
        except ValueError:
            if not recorded:
                raise
            self.repin(batch, pin)
            return pin

    def _met_before(
        self, published: tuple[dict[str, Any] | None, float], batch: int
    ) -> tuple[PinnedPlan | None, bool]:
        """What a batch without a pin met when it ran before, and whether that is lost.

        Pins of settled batches are dropped after a while; a checkpoint that is rolled back further
        than that runs them again. The ledger has their plans, as long as it has the records. Where what
        was published is cut off (it waits for no disk), nobody knows how far the query was, and the
        ledger is asked about any batch.
        """
        value, written_at = published
        cut_off = value is None and written_at > 0.0
        handled = -1 if value is None else int(value.get("handled", value.get("after", -1)))
        if batch > handled and not cut_off:
            return None, False
        from headgate.store.ledger.records import Ledger  # late: most batches are new

        record = Ledger(self._control, self._gate, self._query).record(batch)
        if record is None:
            return None, not cut_off
        return PinnedPlan(record.plan, record.origin, record.shape), False

    def finished(self, batch: int) -> bool:
        """Whether a batch is known to have ended: it was reported, or one behind it has begun."""
        value = self._published()[0] or {}
        if batch <= int(value.get("handled", value.get("after", -1))):
            return True
        if any(other > batch for other in self.pinned_batches()):
            return True
        from headgate.store.ledger.records import Ledger  # late: most batches run once

        return Ledger(self._control, self._gate, self._query).record(batch) is not None

    def pin_to(self, batch: int, pin: PinnedPlan) -> PinnedPlan:
        """Pin exactly this, unless the batch has a pin; the pin that it has."""
        return self.pinned(batch) or self._claim(batch, pin)

    def repin(self, batch: int, pin: PinnedPlan) -> None:
        """Pin this in the place of what the batch had: a person accepted that it is judged anew."""
        write_json(self._pin_path(batch), pin.to_json())

    def pinned_batches(self) -> list[int]:
        """Batches with a pin, in order."""
        names = (_PIN.fullmatch(name) for name in names_in(self.folder / "pins"))
        return sorted(int(found[1]) for found in names if found is not None)

    def torn_pins(self) -> list[int]:
        """Batches whose pin was cut off by a crash, in order."""
        return [batch for batch in self.pinned_batches() if self.pinned(batch) is None]

    def unpin(self, *batches: int) -> None:
        """Drop batches' pins: what they met is in the ledger, or of no use any more."""
        store_of(self.folder).delete_many([self._pin_path(batch) for batch in batches])


def _pin_in(held: Held | None) -> PinnedPlan | None:
    """The pin that a name holds; None where it holds none, or a crash cut it off."""
    try:
        value = None if held is None else parsed_json(held.data)
    except ValueError:
        return None
    return None if value is None else PinnedPlan.from_json(value)


def _published_in(held: Held | None) -> tuple[dict[str, Any] | None, float]:
    """What was published, and when by the store's clock; None where nothing was, or it was cut off."""
    try:
        value = None if held is None else parsed_json(held.data)
    except ValueError:
        value = None
    return (value if isinstance(value, dict) else None), 0.0 if held is None else held.written_at


def _sized(
    found: PinnedPlan, published: Mapping[str, Any], batch: int, resolve: Resolve | None
) -> PinnedPlan:
    """The pin, with a plan for the batch's own size where that can be had."""
    if resolve is None or found.origin not in ("plan", "start"):
        return found
    try:
        resolved = resolve(published, batch)
    except Exception as error:  # a person's policy, or a checkpoint of another Spark
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        return replace(found, note=f"the batch's size could not be used ({text})")
    plan = found.plan if resolved.plan is None else resolved.plan
    return replace(found, plan=plan, expected=resolved.expected, note=resolved.note)


def _keeps_up(value: dict[str, Any] | None, batch: int, me: Holder | None) -> bool:
    """Whether what was published is not many batches old, if it is of the loop that is to steer this."""
    if value is None or me is None or value.get("owner") != me.owner:
        return True
    return int(value["after"]) < 0 or batch - int(value["after"]) <= BEHIND


def _step_s(folder: Place) -> float:
    """How often it is looked whether a plan has come: a request to a server is no look into a file."""
    return _REQUEST_STEP_S if asks_server(folder) else _WAIT_STEP_S


def _one_behind(value: dict[str, Any], batch: int) -> bool:
    """Whether the plan lacks the report of the batch before this one, and no other."""
    return batch > 1 and bool(value["after"] == batch - 2)
