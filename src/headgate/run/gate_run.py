"""One gate in one running query: batch reports in, plans and ledger records out. No Spark here."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headgate.control import Controller, ControllerConfig
from headgate.core.event_time import EventTime
from headgate.core.load import Budget, Concept, LoadSample, ReadLimit
from headgate.core.partners import Partners
from headgate.core.plan import KEEP_ALL, Plan
from headgate.core.witness import UNKNOWN, Witness, cross_examine
from headgate.errors import HeadgateError
from headgate.policies import Policy
from headgate.run.faults import Faults
from headgate.settings import GateSettings
from headgate.store.folder import read_json, write_json
from headgate.store.ledger.bookkeeper import Bookkeeper
from headgate.store.ledger.records import Ledger, Record
from headgate.store.plans import PlanStore
from headgate.store.settings_file import SettingsFile
from headgate.store.upkeep import Upkeep

__all__ = ["BatchReport", "GateRun", "GateSpec"]

log = logging.getLogger("headgate")

_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class GateSpec:
    """What a gate's call fixed for good: its place, its policy, its code's settings."""

    name: str
    control: Path
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
    #: Whether its controller wants to know the task time of batches.
    measures_work: bool = False
    #: How the rows that arrive relate to those that the source hands out (`headgate.core.witness`).
    relation: str = UNKNOWN
    #: Limits in front of the gate.
    limits: int = 0
    #: The plan of a query's first batch.
    opening: Plan = field(default=KEEP_ALL, compare=False)
    #: Tells gates of one name apart, in this process.
    number: int = field(default_factory=lambda: next(_NUMBERS), compare=False)

    def complete(self, report: BatchReport, reports: Mapping[str, Any]) -> BatchReport:
        """The report with what the gate of the other stream says, in front of a join."""
        other = reports.get(getattr(self.policy, "meets", None) or "")
        return report if other is None else replace(report, met=other.present)

    def open(self, query: str) -> GateRun:
        """The gate at work in a query."""
        return GateRun(self, query)


@dataclass(frozen=True)
class BatchReport:
    """What Spark reported of one batch at one gate."""

    query: str
    sample: LoadSample
    #: The weight of the rows that passed, as Spark saw it: 1 / the rate that they really met. None
    #: where none passed, or where rows have different rates.
    weight: float | None = None
    counts: Mapping[int, int] = field(default_factory=dict)
    parts_ms: Mapping[str, int] = field(default_factory=dict)
    offsets: list[dict[str, Any]] = field(default_factory=list)
    #: Of a gate that draws by the batch's own groups: its strata, those that kept no row, their mean
    #: standard deviation, and the rows that each level of the rule's grid would have kept.
    cells: int = 0
    yielded: int = 0
    #: The largest of those that kept no row, by label, with their rows.
    yielded_groups: Mapping[str, int] = field(default_factory=dict)
    deviation: float = 0.0
    curve: tuple[float, ...] = ()
    #: Tasks that could not have the batch's plan, and failed open or closed.
    astray: int = 0
    #: In front of a join: the groups of this batch as a bitmap, the latest event time in microseconds,
    #: and the other stream's groups.
    present: bytes | None = None
    latest_us: int | None = None
    met: bytes | None = None
    #: Of the kept rows, whatever their order; empty where nobody counted it.
    fingerprint: str = ""
    #: What others say of the batch; None where the counts are not Spark's observed metrics.
    witness: Witness | None = None
    #: The number of the gate's spec; 0 if nobody knows.
    spec: int = 0
    #: The name under which Spark reported what arrived.
    metric: str = ""

    def concept(self, keys: Mapping[str, int]) -> Concept:
        """What the batch says of the groups in front of the gate."""
        return Concept(self.counts, self.sample.arrived, keys, self.cells, self.curve, self.deviation)


class GateRun:
    """Feeds the controller and the policy, publishes their plan, and keeps the books."""

    def __init__(self, spec: GateSpec, query: str, clock: Callable[[], float] = time.time) -> None:
        self.spec, self.query = spec, query
        self._clock = clock
        self._settings_file = SettingsFile(spec.control, spec.name)
        self.settings = self._read_settings(spec.settings)
        self._store = PlanStore(spec.control, spec.name, query, clock)
        self._ledger = Ledger(spec.control, spec.name, query)
        self._books = Bookkeeper(self._ledger, str(self))
        self._faults = Faults(str(self))
        self.upkeep = Upkeep.of_run(spec.control, spec.name, query, self.settings.retention_s, clock)
        self._snapshot_path = self._store.folder / "controller.json"
        learned = self._load_learned()
        self._controller = self._build(learned["controller"])
        self._concept = self._concept_from(learned["concept"])
        self._budget = self._controller.opening(clock())
        if not self._warm:
            self._budget = replace(self._budget, keep=min(spec.start, self._budget.keep))
        self._time = EventTime()
        self._partners = Partners(getattr(spec.policy, "within_s", None))
        self.last_batch = -1
        self._opened = False
        #: Batches that run again are the first that a run reports.
        self._may_be_replay = True
        self._publish()

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

    def __str__(self) -> str:
        return f"gate {self.spec.name!r} of query {self.query}"

    def _load_learned(self) -> dict[str, Any]:
        """What `_save_learned` wrote; an older Headgate wrote the controller's snapshot alone."""
        try:
            value = read_json(self._snapshot_path)
        except (OSError, ValueError):
            value = None
        if isinstance(value, dict) and value.keys() == {"controller", "concept"}:
            return value
        return {"controller": value if isinstance(value, dict) and value else None, "concept": None}

    def _save_learned(self) -> None:
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
        write_json(self._snapshot_path, learned, lasting=False)

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

    def _read_settings(self, default: GateSettings) -> GateSettings:
        """What this gate's own code says, with people's changes on top.

        Not what ``gate.json`` says: another application may have declared a gate of the name since.
        """
        try:
            return self.spec.settings.changed(self._settings_file.overrides())
        except (OSError, HeadgateError, ValueError) as error:
            log.warning("gate %r: settings cannot be read (%s)", self.spec.name, error)
            return default

    def refresh(self) -> None:
        """Take up settings that people changed; called between batches too."""
        self._books.retry()
        try:
            self._take_up_settings()
        except Exception as error:
            self._note_fault(error)

    def _take_up_settings(self) -> None:
        settings = self._read_settings(self.settings)
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
        self._publish()

    def _revise(self) -> None:
        """A controller that shares its capacity with others may have another answer by now."""
        budget = self._controller.revised() if self._opened else None
        if budget is not None and budget != self._budget:
            self._budget = budget
            self._publish()

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

    def _publish(self) -> None:
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

    def handle(self, report: BatchReport) -> Record | None:
        """One batch is over: decide, publish, record. None for a batch already handled."""
        sample = report.sample
        if sample.batch_id <= self.last_batch:
            return None
        self.last_batch = sample.batch_id
        self._faults.begin()
        self.refresh()
        confirmed_by, doubt = self._examined(report)
        if doubt:
            log.warning("%s: batch %d is doubtful and teaches nothing: %s", self, sample.batch_id, doubt)
        else:
            self._try_to_learn(report)
        self._publish()
        self._faults.end()
        record = replace(self._record(report), witness=confirmed_by, doubt=doubt)
        try:
            self._books.add(record)
            self._save_learned()
            self.upkeep.after(sample.batch_id, self.settings.retention_s)
        except OSError as error:
            log.warning("%s: batch %d is not in the ledger (%s)", self, sample.batch_id, error)
        return record

    def _try_to_learn(self, report: BatchReport) -> None:
        try:
            self._learn(report)
        except Exception as error:
            self._note_fault(error)

    def finish(self) -> None:
        """The query is over."""
        self._books.retry()

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
            self._publish()

    def _record(self, report: BatchReport) -> Record:
        sample = report.sample
        plan, origin, shape = self._plan_of(report)
        remark, would_shed = self._faults.said, 0
        if not self._faults.now:
            try:
                remark, would_shed = self.spec.policy.remark(plan, self._concept), self._would_shed()
            except Exception as error:
                self._note_fault(error)
                remark = self._faults.said
        return Record(
            gate=self.spec.name,
            query=self.query,
            batch=sample.batch_id,
            arrived=sample.arrived,
            kept=sample.kept,
            shed=sample.arrived - sample.kept,
            plan=plan,
            shape=shape or self.spec.shape,
            origin=origin,
            mode=self.settings.mode,
            would_shed=would_shed,
            state="fault" if self._faults.now else self._budget.state,
            why="; ".join(filter(None, (remark, self._note_of(sample.batch_id), self._budget.why))),
            started_at=sample.started_at,
            duration_s=sample.duration_s,
            parts_ms=dict(report.parts_ms),
            delay_s=sample.delay_s,
            backlog=sample.backlog,
            offsets=list(report.offsets),
            groups=self._groups(report),
            measures=_measures(report, plan),
            fingerprint=report.fingerprint,
            handed_out=None if report.witness is None else report.witness.handed_out,
        )

    def _note_of(self, batch: int) -> str:
        """What the batch's pin says besides its plan."""
        try:
            pinned = self._store.pinned(batch)
        except (OSError, ValueError):
            return ""
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
        try:
            pinned = self._store.pinned(report.sample.batch_id)
        except (OSError, ValueError):
            pinned = None
        met = report.weight
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
