"""One gate in one running query: batch reports in, plans and ledger records out. No Spark here."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headgate.control import Controller, ControllerConfig
from headgate.core.event_time import EventTime
from headgate.core.load import Budget, Concept, LoadSample, ReadLimit
from headgate.core.partners import Partners
from headgate.core.plan import KEEP_ALL, Plan
from headgate.core.witness import UNKNOWN, cross_examine
from headgate.errors import HeadgateError
from headgate.policies import Policy
from headgate.run.faults import Faults
from headgate.run.gate_report import BatchReport
from headgate.run.report import Report
from headgate.run.run import SettledRun
from headgate.run.spec import SettledSpec
from headgate.settings import GateSettings
from headgate.store.ledger.records import Record

__all__ = ["GateRun", "GateSpec"]

log = logging.getLogger("headgate")


@dataclass(frozen=True)
class GateSpec(SettledSpec):
    """What a gate's call fixed for good: its place, its policy, its code's settings."""

    settings: GateSettings
    policy: Policy
    #: A person's own controller; None for the one that the settings ask for.
    controller: ControllerConfig | None = None
    #: Keep rate of the first batch of a query that has no history.
    start: float = 1.0
    #: The digest of the gate's shape: which columns and seed decide, besides the plan.
    shape: str = ""
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

    def made_of(self) -> tuple[object, ...]:
        """Its folder, its settings, its policy and its shape."""
        return self.control, self.settings, self.policy, self.shape

    def complete(self, report: BatchReport, reports: Mapping[str, Report]) -> BatchReport:
        """The report with what the gate of the other stream says, in front of a join."""
        other = reports.get(self.policy.meets or "")
        return report if other is None else replace(report, met=other.present)

    def open(self, query: str) -> GateRun:
        """The gate at work in a query."""
        return GateRun(self, query)


class GateRun(SettledRun[GateSpec, BatchReport]):
    """Feeds the controller and the policy, publishes their plan, and keeps the books."""

    KIND = "gate"
    LEARNED = "controller.json"

    def __init__(self, spec: GateSpec, query: str, clock: Callable[[], float] = time.time) -> None:
        super().__init__(spec, query, clock)
        self._faults = Faults(str(self))
        learned = self._load_learned()
        self._controller = self._build(learned["controller"])
        self._concept = self._concept_from(learned["concept"])
        self._budget = self._controller.opening(clock())
        if not self._warm:
            self._budget = replace(self._budget, keep=min(spec.start, self._budget.keep))
        self._time = EventTime()
        self._partners = Partners(spec.policy.within_s)
        self._opened = False
        #: Batches that run again are the first that a run reports.
        self._may_be_replay = True
        #: Who confirms the counts of the batch that is taken up, and what speaks against them.
        self._witnessed = ("", "")
        self.publish()

    def _build(self, snapshot: Mapping[str, Any] | None) -> Controller:
        config = self.spec.controller or self.settings.controller_config()
        self._warm = bool(snapshot)
        try:
            controller = config.build(snapshot)
        except (KeyError, TypeError, ValueError) as error:
            log.warning("%s: what was learned cannot be read (%s); starting afresh", self, error)
            self._warm = False
            controller = config.build(None)
        if self.spec.limit is not None:
            controller.capped(self.spec.limit)
        return controller

    def _load_learned(self) -> dict[str, Any]:
        """What `remember` wrote; an older Headgate wrote the controller's snapshot alone."""
        value = self.load_learned()
        if isinstance(value, dict) and value.keys() == {"controller", "concept"}:
            return value
        return {"controller": value if isinstance(value, dict) and value else None, "concept": None}

    def remember(self, report: BatchReport) -> None:
        """What the controller learned, and the groups' shares."""
        concept = {
            "classes": list(self.spec.policy.grouping.classes),
            "counts": list(self._concept.counts.items()),
            "total": self._concept.total,
            "cells": self._concept.cells,
            "curve": list(self._concept.curve),
            "deviation": self._concept.deviation,
            "rule": self._rule,
        }
        learned = {"controller": self._controller.snapshot(), "concept": concept}
        self.save_learned(learned)

    def _concept_from(self, value: Any) -> Concept:
        """The shares of the classes before a restart, if the code still has the same classes."""
        fresh = Concept(keys=self.spec.keys)
        try:
            if value is None or tuple(value["classes"]) != self.spec.policy.grouping.classes:
                return fresh
            counts = {int(key): int(rows) for key, rows in value["counts"]}
            found = replace(fresh, counts=counts, total=int(value["total"]))
            if value.get("rule") != self._rule:
                return found
            return replace(
                found,
                cells=int(value.get("cells", 0)),
                curve=tuple(float(v) for v in value.get("curve", ())),
                deviation=float(value.get("deviation", 0.0)),
            )
        except (KeyError, TypeError, ValueError) as error:
            log.warning("%s: the classes' shares cannot be read (%s)", self, error)
            return fresh

    @property
    def _rule(self) -> str:
        """What a curve belongs to: another policy's says nothing."""
        return repr(self.spec.policy)

    def refresh(self) -> None:
        """Take up settings that people changed; called between batches too."""
        super().refresh()
        try:
            self._take_up_settings()
        except Exception as error:
            self._note_fault(error)

    def _take_up_settings(self) -> None:
        settings = self.effective_settings(self.settings)
        if settings == self.settings:
            self._revise()
            return
        log.info("%s: settings changed: %s", self, settings)
        before, self.settings = self.settings, settings
        self.upkeep.retention_s = settings.retention_s
        if self.spec.controller is None and _target(before) != _target(settings):
            same_kind = (before.rate is None) == (settings.rate is None)
            snapshot = self._controller.snapshot() if same_kind else None
            held = self._budget.keep if before.mode == "shed" else 1.0
            self._controller = self._build(snapshot)
            if not same_kind:
                self._controller.take_over(held)
            self._budget = self._controller.opening(self._clock())
        self.publish()

    def _revise(self) -> None:
        """A controller that shares its capacity with others may have another answer by now."""
        budget = self._controller.revised() if self._opened else None
        if budget is not None and budget != self._budget:
            self._budget = budget
            self.publish()

    def plan(self) -> Plan:
        """The plan for the next batch under the settings that hold."""
        if self.settings.mode != "shed":
            return self._worth(KEEP_ALL)
        return self._worth(self.spec.policy.plan(self._budget, self._concept))

    def _worth(self, plan: Plan) -> Plan:
        """The plan with what a row is worth, where a site says so."""
        return plan if self._budget.sic is None else replace(plan, sic=self._budget.sic)

    def _urgent_s(self) -> float | None:
        """How long a batch must last before the plan that follows it is worth waiting for."""
        if self.settings.mode != "shed" or self.settings.target_s is None:
            return None
        return 0.0 if self._budget.keep < 1.0 else 0.5 * self.settings.target_s

    def publish(self) -> None:
        """The plan for the next batch that pins one."""
        plan, origin = self._plan_or_fallback()
        if plan is None:
            return
        try:
            self._store.publish(plan, self.last_batch, self._urgent_s(), origin, self.spec.number)
        except OSError as error:
            log.warning("%s: the plan cannot be written (%s)", self, error)

    def _plan_or_fallback(self) -> tuple[Plan | None, str]:
        """The next plan, and why; None where the last one goes on, after a fault that may stay alone."""
        plan = None
        try:
            plan = self.plan()
        except Exception as error:
            self._note_fault(error)
        if self._faults.too_many:
            closed = self.settings.on_failure == "closed"
            plan = Plan(self.settings.floor) if closed else KEEP_ALL
            return self._worth(plan), "fail-closed" if closed else "fail-open"
        return plan, "plan"

    def _note_fault(self, error: Exception) -> None:
        """A controller or a policy failed: the books go on, and the next batch is tried again."""
        self._faults.note(error, self.settings.on_failure)

    def take_up(self, report: BatchReport) -> Record:
        """One batch is over: decide, publish, record."""
        self._faults.begin()
        return super().take_up(report)

    def learn(self, report: BatchReport) -> None:
        """From a batch whose counts can be true."""
        self._witnessed = self._examined(report)
        doubt = self._witnessed[1]
        if doubt:
            batch = report.sample.batch_id
            log.warning("%s: batch %d is doubtful and teaches nothing: %s", self, batch, doubt)
        else:
            self._try_to_learn(report)

    def _try_to_learn(self, report: BatchReport) -> None:
        try:
            self._learn(report)
        except Exception as error:
            self._note_fault(error)

    def _learn(self, report: BatchReport) -> None:
        """Let the batch change what is known of the groups, and of how much fits."""
        sample = report.sample
        if sample.arrived > 0:
            self._concept = report.concept(self.spec.keys)
        self._partners.add(report.latest_us, report.met)
        self._time.add(report.latest_us)
        self._concept = replace(self._concept, present=self._partners.text(), span_us=self._time.span_us)
        state = self._budget.state
        budget = self._controller.decide(self._demand(report))
        # An empty first batch says nothing: the opening budget is for the first rows.
        self._opened = self._opened or sample.arrived > 0
        if self._opened:
            self._budget = budget
        if self._budget.state != state:
            log.info("%s: %s -> %s (%s)", self, state, self._budget.state, self._budget.why)

    def _examined(self, report: BatchReport) -> tuple[str, str]:
        """Who confirms the batch's counts, and what speaks against them."""
        confirmed_by, doubt = "", ""
        witness = report.witness
        if witness is not None:
            if witness.cut_short is None:
                witness = replace(witness, cut_short=witness.limits > self.spec.limits)
            confirmed_by, doubt = cross_examine(report.sample, self.spec.relation, witness)
        return confirmed_by, doubt or self._unlike_before(report)

    def _unlike_before(self, report: BatchReport) -> str:
        """Whether a batch that runs again kept other rows than it did before; only a run's first can."""
        if not self._may_be_replay:
            return ""
        batch = report.sample.batch_id
        try:
            before = self._ledger.record(batch)
        except (OSError, HeadgateError, KeyError, TypeError, ValueError) as error:
            log.warning("%s: what batch %d kept before cannot be read (%s)", self, batch, error)
            before = None
        self._may_be_replay = before is not None
        if before is None or before.doubt or not (before.fingerprint and report.fingerprint):
            return ""
        if before.fingerprint == report.fingerprint:
            return ""
        return (
            f"the batch ran again and kept other rows than before ({before.kept:,} with the fingerprint "
            f"{before.fingerprint}, now {report.sample.kept:,} with {report.fingerprint})"
        )

    def _demand(self, report: BatchReport) -> LoadSample:
        """The sample as the controller must see it: with the rows that a budget of 1 would keep.

        A policy with maxima of its own sheds at any budget; what it would never keep is no load.
        """
        sample = report.sample
        whole = self.spec.policy.plan(Budget(1.0, "idle"), self._concept)
        if whole.keeps_everything or whole.default <= 0.0:
            return sample
        met = min(1.0, self._plan_of(report)[0].default / whole.default)
        wanted = round(sample.kept / met) if met > 0.0 else sample.arrived
        return replace(sample, arrived=max(sample.kept, min(sample.arrived, wanted)))

    def pass_over(self, batch: int) -> None:
        """A batch ended that had nothing for this gate: the plan holds for the next one too."""
        if batch > self.last_batch:
            self.last_batch = batch
            self.publish()

    def record(self, report: BatchReport) -> Record:
        """What came, what was kept, under which plan, and why."""
        self._faults.end()
        sample, (confirmed_by, doubt) = report.sample, self._witnessed
        plan, origin, shape = self._plan_of(report)
        remark, would_shed = self._faults.said, 0
        if not self._faults.now:
            try:
                remark, would_shed = self.spec.policy.remark(plan, self._concept), self._would_shed()
            except Exception as error:
                self._note_fault(error)
                remark = self._faults.said
        return self.booked(
            report,
            shed=sample.arrived - sample.kept,
            plan=plan,
            shape=shape or self.spec.shape,
            origin=origin,
            mode=self.settings.mode,
            would_shed=would_shed,
            state="fault" if self._faults.now else self._budget.state,
            why="; ".join(filter(None, (remark, self._note_of(sample.batch_id), self._budget.why))),
            groups=self._groups(report),
            measures=_measures(report, plan),
            fingerprint=report.fingerprint,
            handed_out=None if report.witness is None else report.witness.handed_out,
            witness=confirmed_by,
            doubt=doubt,
        )

    def _note_of(self, batch: int) -> str:
        """What the batch's pin says besides its plan."""
        pinned = self.pinned(batch)
        return "" if pinned is None else pinned.note

    def _would_shed(self) -> int:
        """In monitor mode: the rows that the plan would have shed."""
        if self.settings.mode != "monitor":
            return 0
        advice = self.spec.policy.plan(self._budget, self._concept)
        share = self.spec.policy.would_keep(advice, self._concept)
        if share is not None:
            return round((1.0 - share) * self._concept.total)
        return _expected_shed(advice, self._concept)

    def _groups(self, report: BatchReport) -> dict[str, int]:
        if self.spec.policy.grouping.classes:
            return {str(k): n for k, n in report.counts.items()}
        return {f"yielded {label}": n for label, n in report.yielded_groups.items()}

    def _plan_of(self, report: BatchReport) -> tuple[Plan, str, str]:
        """The plan that the batch was pinned to, if its rows really met that one; why; the shape."""
        pinned, met = self.pinned(report.sample.batch_id), report.weight
        failed = pinned is not None and pinned.origin.startswith("fail")
        stray = report.astray and not failed  # a pin that says so itself is what those tasks met
        if pinned is not None and not stray and met in (None, pinned.plan.default_weight):
            return pinned.plan, pinned.origin, pinned.shape
        if pinned is None and report.sample.arrived == 0:
            # No row, so no task of a drawing gate asked for one.
            return self._store.current() or KEEP_ALL, "plan", ""
        # No pin: the worker could not use the folder, and failed open or closed.
        given = self.spec.settings
        if met is None:
            rate = given.floor if given.on_failure == "closed" else 1.0
        else:
            rate = min(1.0, 1.0 / met)
        return Plan(rate), "fail-open" if rate >= 1.0 else "fail-closed", ""


def _measures(report: BatchReport, plan: Plan) -> dict[str, float]:
    """What a drawing gate says of its groups: how many, the least share they need, who went without."""
    if not report.cells or report.sample.arrived <= 0:
        return {}
    found = {
        "groups": float(report.cells),
        "floor": report.cells / report.sample.arrived,
        "groups_yielded": float(report.yielded),
    }
    return found if plan.level is None else {**found, "level": plan.level}


def _target(settings: GateSettings) -> tuple[object, ...]:
    return settings.hold, settings.delay, settings.rate, settings.floor


def _expected_shed(plan: Plan, concept: Concept) -> int:
    listed = sum(concept.counts.values())
    shed = (concept.total - listed) * (1.0 - plan.default)
    shed += sum(n * (1.0 - plan.rate_of(k)) for k, n in concept.counts.items())
    return round(shed)
