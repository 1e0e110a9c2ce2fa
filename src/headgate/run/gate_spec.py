"""`GateSpec`: what a gate's call fixed for good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headgate.control import ControllerConfig
from headgate.core.load import Budget, ReadLimit
from headgate.core.plan import KEEP_ALL, Plan
from headgate.core.witness import UNKNOWN
from headgate.policies import Policy
from headgate.run.gate_report import BatchReport
from headgate.run.report import Report
from headgate.run.spec import SettledSpec, Spec
from headgate.settings import GateSettings

if TYPE_CHECKING:
    from headgate.run.gate_run import GateRun

__all__ = ["GateSpec"]


@dataclass(frozen=True)
class GateSpec(SettledSpec):
    """Its place, its policy, its code's settings."""

    settings: GateSettings
    policy: Policy
    #: A person's own controller; None for the one that the settings ask for.
    controller: ControllerConfig | None = None
    #: Keep rate of the first batch of a query that has no history.
    start: float = 1.0
    #: The digest of the gate's shape: which columns and seed decide, besides the plan.
    shape: str = ""
    #: The digest of the recipe of its rows (`headgate.spark.recipe`); empty where there is none.
    recipe: str = ""
    #: Keys of the groups that the policy names, by label.
    keys: Mapping[str, int] = field(default_factory=dict)
    #: What the sources in front of it hand out at most in a batch; None where that cannot be read.
    limit: ReadLimit | None = None
    #: How the rows that arrive relate to those that the source hands out (`headgate.core.witness`).
    relation: str = UNKNOWN
    #: Limits in front of the gate.
    limits: int = 0
    #: The plan of a query's first batch.
    opening: Plan = field(default=KEEP_ALL, compare=False)

    def opening_budget(self, settings: GateSettings) -> Budget | None:
        """What fits into a query's first batch, whose size is known when it begins; None where any does.

        `settings` are those that hold, people's changes included. A `start` says the share itself.
        """
        if self.start < 1.0 or settings.mode != "shed":
            return None
        budget = (self.controller or settings.controller_config()).build(None).opening(0.0)
        return budget if budget.fits is not None else None

    def made_of(self) -> tuple[object, ...]:
        """Its folder, its settings, its policy and its shape."""
        return self.control, self.settings, self.policy, self.shape

    def same_as(self, other: Spec) -> bool:
        """A gate of the same settings, policy and columns, whatever its rows come from."""
        return isinstance(other, GateSpec) and replace(other, recipe=self.recipe) == self

    def complete(self, report: BatchReport, reports: Mapping[str, Report]) -> BatchReport:
        """The report with what the gate of the other stream says, in front of a join."""
        other = reports.get(self.policy.meets) if self.policy.meets else None
        return report if other is None else replace(report, met=other.present)

    def open(self, query: str) -> GateRun:
        """The gate at work in a query."""
        from headgate.run.gate_run import GateRun  # late: a run knows its spec

        return GateRun(self, query)
