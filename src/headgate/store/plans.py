"""Plans in the control folder: the one that holds now, and the one pinned to each batch.

Read by Spark's Python workers once a batch, so this module imports little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headgate.errors import SnapshotError
from headgate.plan import KEEP_ALL, Plan
from headgate.store.folder import claim_json, read_json, write_json

__all__ = ["HEARTBEAT_S", "LOOP_GONE_S", "PinnedPlan", "PlanStore"]

#: The control loop says every so often that it is alive.
HEARTBEAT_S = 2.0
#: After so long without a word the loop is taken for gone, and the gate fails open or closed.
LOOP_GONE_S = 20.0
#: How long a batch waits for the plan that its predecessor's report is about to bring.
PLAN_WAIT_S = 0.15
_WAIT_STEP_S = 0.01
#: Pins of settled batches that are kept for a checkpoint that someone rolls back.
KEPT_PINS = 200


@dataclass(frozen=True)
class PinnedPlan:
    """A plan, and why it is this batch's: ``plan``, ``start``, ``fail-open`` or ``fail-closed``."""

    plan: Plan
    origin: str
    #: The digest of the `GateShape` that the batch met when it first ran.
    shape: str = ""

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {"plan": self.plan.to_json(), "origin": self.origin, "shape": self.shape}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> PinnedPlan:
        """What `to_json` wrote."""
        if not (isinstance(value, dict) and {"plan", "origin"} <= value.keys()):
            raise SnapshotError(f"{value!r} is no pinned plan: start with a new control folder")
        return cls(Plan.from_json(value["plan"]), str(value["origin"]), str(value.get("shape", "")))


class PlanStore:
    """The plans of one gate in one query."""

    def __init__(
        self,
        control: Path,
        gate: str,
        query: str,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._gate_folder = control / "gates" / gate
        self.folder = self._gate_folder / "queries" / query
        self._clock, self._sleep = clock, sleep

    def publish(self, plan: Plan, after: int = -1, urgent_s: float | None = None) -> None:
        """Let this plan hold for every batch not pinned yet.

        `after` is the last batch that it knows of; if the batch after that one lasts longer than
        `urgent_s`, the next plan is worth waiting for.
        """
        value = {"plan": plan.to_json(), "after": after, "urgent_s": urgent_s, "at": self._clock()}
        write_json(self.folder / "plan.json", value)

    def publish_opening(self, plan: Plan) -> None:
        """The plan for a query of this gate that has none of its own yet."""
        write_json(self._gate_folder / "opening.json", {"plan": plan.to_json()})

    def current(self) -> Plan | None:
        """The plan that holds now, if any was published for this query."""
        value = read_json(self.folder / "plan.json")
        return None if value is None else Plan.from_json(value["plan"])

    def _await_plan(self, batch: int) -> Plan | None:
        """The plan that holds, after a short wait if the report of the batch before is on its way.

        Batches that follow each other without a pause race the loop: Spark reports the end of one
        while it plans the next. Only a loop that is exactly one report behind is waited for, and
        only if that report may change much.
        """
        path = self.folder / "plan.json"
        value = read_json(path)
        waited = 0.0
        while value is not None and waited < PLAN_WAIT_S and self._worth_waiting(value, batch):
            self._sleep(_WAIT_STEP_S)
            waited += _WAIT_STEP_S
            value = read_json(path)
        return None if value is None else Plan.from_json(value["plan"])

    def _worth_waiting(self, value: dict[str, Any], batch: int) -> bool:
        urgent = value["urgent_s"]
        one_behind = value["after"] == batch - 2 and batch > 1
        return one_behind and urgent is not None and self._clock() - value["at"] >= urgent

    def heartbeat_age(self) -> float | None:
        """Seconds since the control loop last said that it is alive; None if it never did."""
        value = read_json(self._gate_folder / "heartbeat.json")
        return None if value is None else self._clock() - float(value["at"])

    def beat(self) -> None:
        """Say that the control loop is alive."""
        write_json(self._gate_folder / "heartbeat.json", {"at": self._clock()})

    def loop_alive(self) -> bool:
        """Whether the control loop said so lately."""
        age = self.heartbeat_age()
        return age is not None and age < LOOP_GONE_S

    def _pin_path(self, batch: int) -> Path:
        return self.folder / "pins" / f"{batch:012d}.json"

    def pinned(self, batch: int) -> PinnedPlan | None:
        """The plan pinned to this batch, if it has read one."""
        value = read_json(self._pin_path(batch))
        return None if value is None else PinnedPlan.from_json(value)

    def pin(
        self, batch: int, fallback: PinnedPlan | Callable[[], PinnedPlan], shape: str = ""
    ) -> PinnedPlan:
        """This batch's plan: the one it had before, else the one that holds now, from now on.

        `fallback` is for a loop that is gone: a plan, or what makes one only then. Raises OSError
        where the folder cannot be used.
        """
        before = self.pinned(batch)
        if before is not None:
            return before
        if not self.loop_alive():
            chosen = fallback() if callable(fallback) else fallback
        else:
            plan = self._await_plan(batch)
            origin = "plan"
            if plan is None:
                opening = read_json(self._gate_folder / "opening.json")
                plan = KEEP_ALL if opening is None else Plan.from_json(opening["plan"])
                origin = "start"
            chosen = PinnedPlan(plan, origin)
        pin = replace(chosen, shape=shape)
        return PinnedPlan.from_json(claim_json(self._pin_path(batch), pin.to_json()))

    def pin_to(self, batch: int, pin: PinnedPlan) -> None:
        """Pin exactly this, unless the batch has a pin."""
        if not self._pin_path(batch).exists():
            claim_json(self._pin_path(batch), pin.to_json())

    def repin(self, batch: int, pin: PinnedPlan) -> None:
        """Pin this in the place of what the batch had: a person accepted that it is judged anew."""
        write_json(self._pin_path(batch), pin.to_json())

    def pinned_batches(self) -> list[int]:
        """Batches with a pin, in order."""
        folder = self.folder / "pins"
        return sorted(int(p.stem) for p in folder.glob("[0-9]*.json")) if folder.is_dir() else []

    def prune(self, settled: Collection[int]) -> None:
        """Drop old pins of batches whose plans the ledger holds, but for the latest."""
        for batch in self.pinned_batches()[:-KEPT_PINS]:
            if batch in settled:
                self._pin_path(batch).unlink(missing_ok=True)
