"""A gate at work in virtual time: its plans, pins and records are the real store's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from headgate import LoadSample, Policy, Uniform
from headgate.core.plan import KEEP_ALL
from headgate.run.gate_report import BatchReport
from headgate.run.gate_run import GateRun
from headgate.run.gate_spec import GateSpec
from headgate.settings import GateSettings
from headgate.store.ledger.records import Record
from headgate.store.plans import PinnedPlan, PlanStore
from headgate.store.settings_file import SettingsFile
from headgate.testing.clock import ManualClock

__all__ = ["CAPACITY", "VirtualGate"]

#: Rows of a batch that fit into one second: a batch costs 0.25 s, and a kept row 75 microseconds.
CAPACITY = 10_000


class VirtualGate:
    """A query behind a gate, with a batch every second or as soon as the one before is over."""

    def __init__(
        self,
        control: Path,
        name: str = "rides",
        settings: GateSettings | None = None,
        policy: Policy | None = None,
        clock: ManualClock | None = None,
        query: str = "0f3a6c51-9d0e-4b7c-8f11-2a5be0c4d913",
        **spec: Any,
    ) -> None:
        self.control, self.name, self.query = control, name, query
        self.clock = clock or ManualClock()
        settings = settings or GateSettings(hold=1)
        SettingsFile(control, name).declare(settings)
        self.spec = GateSpec(name, control, settings, policy or Uniform(), **spec)
        self.store = PlanStore(control, name, query, self.clock)
        self.run = GateRun(self.spec, query, self.clock)
        self.number = 0

    def batch(
        self,
        arrived: int,
        *,
        takes: Callable[[int], float] = lambda kept: 0.25 + 0.75e-4 * kept,
        **report: Any,
    ) -> Record:
        """One batch as Spark would run it: pin, filter, report."""
        self.store.beat()
        plan = self.store.pin(self.number, PinnedPlan(KEEP_ALL, "fail-open")).plan
        kept = round(arrived * plan.default)
        began = self.clock()
        sample = LoadSample(self.number, began, takes(kept), arrived, kept, oldest_arrival=began - 1.0)
        self.clock.sleep(max(1.0, sample.duration_s))
        self.number += 1
        record = self.run.handle(
            BatchReport(query=self.query, sample=sample, weight=plan.default_weight, **report)
        )
        assert record is not None
        return record

    def batches(self, count: int, arrived: int, **options: Any) -> list[Record]:
        return [self.batch(arrived, **options) for _ in range(count)]

    def stop(self, *, failed: bool = False) -> None:
        """The query ends, and its driver gives the lease back."""
        from headgate.store.lease import this_process

        self.store.lease.release(this_process(), failed=failed)
