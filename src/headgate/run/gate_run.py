"""One gate in one running query: batch reports in, plans and ledger records out. No Spark here."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from headgate.control import Controller
from headgate.core.batch_size import Sizing
from headgate.core.load import LoadSample
from headgate.core.offer import Offer
from headgate.core.plan import KEEP_ALL, Plan
from headgate.core.witness import cross_examine
from headgate.errors import HeadgateError
from headgate.run.faults import Faults
from headgate.run.gate_report import BatchReport
from headgate.run.gate_spec import GateSpec
from headgate.run.groups_seen import GroupsSeen
from headgate.run.run import SettledRun
from headgate.run.wanted import Wanted, expected_shed
from headgate.settings import GateSettings
from headgate.store.attempts import Attempts
from headgate.store.gate_files.recipes import Followed, note_recipe
from headgate.store.ledger.records import Evidence, Findings, Record, Size
from headgate.store.plans import PinnedPlan
from headgate.store.query_facts import checkpoint_of

__all__ = ["GateRun"]

log = logging.getLogger("headgate")


class GateRun(SettledRun[GateSpec, BatchReport]):
    """Feeds the controller and the policy, publishes their plan, and keeps the books."""

    KIND = "gate"
    LEARNED = "controller.json"

    def __init__(self, spec: GateSpec, query: str, clock: Callable[[], float] = time.time) -> None:
        super().__init__(spec, query, clock)
        self._faults = Faults(str(self))
        learned = self._load_learned()
        self._controller = self._build(learned["controller"])
        self._groups = GroupsSeen(spec.policy, spec.keys, learned["concept"], str(self))
        self._sizing = self._sizing_from(learned.get("sizing"))
        self._budget = self._controller.opening(clock())
        if not self._warm:
            keep = min(spec.start, self._budget.keep)
            fits = self._budget.fits if spec.start >= 1.0 else None  # people said how much
            self._budget = replace(self._budget, keep=keep, fits=fits)
        self._opened = False
        #: Batches that run again are the first that a run reports.
        self._may_be_replay = True
        #: Of the batch that is taken up: who confirms its counts and what speaks against them, and what
        #: its rows met.
        self._witnessed = ("", "")
        self._met = PinnedPlan(KEEP_ALL, "start")
        self._wanted = Wanted(spec.policy, learned.get("wanted"))
        self._said = ""
        self._note_recipe()
        self.publish()

    def _note_recipe(self) -> None:
        """Leave word how the rows of the batches from here on are made: for whoever repays them."""
        control, gate = self.spec.control, self.spec.name
        where = checkpoint_of(control, self.query)
        try:
            after = self._ledger.last_batch()
            note_recipe(control, gate, self.query, Followed(self.spec.recipe, after, where))
        except OSError as error:
            log.warning("%s: how its rows are made is not noted (%s)", self, error)

    def _build(self, snapshot: Mapping[str, Any] | None) -> Controller:
        config = self.spec.controller or self.settings.controller_config()
        self._warm = bool(snapshot)
        try:
            controller = config.build(snapshot)
        except Exception as error:  # a person's own may trip over an old snapshot in any way
            if not snapshot:
                raise
            log.warning("%s: what was learned cannot be read (%s); starting afresh", self, error)
            self._warm = False
            controller = config.build(None)
        if self.spec.limit is not None:
            controller.capped(self.spec.limit)
        return controller

    def _load_learned(self) -> dict[str, Any]:
        """What `remember` wrote; an older Headgate wrote the controller's snapshot alone."""
        value = self.load_learned()
        if isinstance(value, dict) and {"controller", "concept"} <= value.keys():
            return value
        return {"controller": value if isinstance(value, dict) and value else None, "concept": None}

    def remember(self, report: BatchReport) -> None:
        """What the controller learned, the groups' shares, and what sizes mean in rows."""
        self.save_learned(
            {
                "controller": self._controller.snapshot(),
                "concept": self._groups.to_json(),
                "sizing": self._sizing.to_json(),
                "wanted": self._wanted.share,
            }
        )

    def _sizing_from(self, value: Any) -> Sizing:
        try:
            return Sizing.from_json(value)
        except HeadgateError as error:
            log.warning("%s: what was learned of sizes cannot be read (%s)", self, error)
            return Sizing()

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
            self._budget = self._controller.resumed(self._clock())
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
        return self._worth(self.spec.policy.plan(self._budget, self._groups.stats))

    def _worth(self, plan: Plan) -> Plan:
        """The plan with what a row is worth, where a site says so."""
        return plan if self._budget.sic is None else replace(plan, sic=self._budget.sic)

    def _urgent_s(self) -> float | None:
        """How long a batch must last before the plan that follows it is worth waiting for."""
        if self.settings.mode != "shed" or self.settings.target_s is None:
            return None
        # A batch that meets a plan for its own size needs the last report for the prices alone.
        known = self._budget.keep >= 1.0 or (self._budget.fits is not None and self._met.sized)
        return 0.5 * self.settings.target_s if known else 0.0

    def publish(self) -> None:
        """The plan for the next batch that pins one."""
        plan, origin = self._plan_or_fallback()
        if plan is None:
            return
        try:
            offer = self._offer() if origin == "plan" else None
            self._store.publish(plan, self.last_batch, self._urgent_s(), origin, self.spec.number, offer)
        except OSError as error:
            log.warning("%s: the plan cannot be written (%s)", self, error)

    def _offer(self) -> Offer | None:
        """What the plan is made of, where a batch's size decides; in other modes, what sizes mean."""
        if self._budget.fits is None:
            return None
        cuts, policy = self.settings.mode == "shed", repr(self.spec.policy)
        return Offer(self._budget, self._groups.stats, self._sizing, self._wanted.share, policy, cuts)

    def _plan_or_fallback(self) -> tuple[Plan | None, str]:
        """The next plan, and why; None where the last one goes on, after a fault that may stay alone."""
        plan = None
        try:
            plan = self.plan()
        except Exception as error:
            self._note_fault(error)
        if self._faults.too_many:
            closed = self.settings.fails == "closed"
            plan = Plan(self.settings.min_keep) if closed else KEEP_ALL
            return self._worth(plan), "fail-closed" if closed else "fail-open"
        return plan, "plan"

    def _note_fault(self, error: Exception) -> None:
        """A controller or a policy failed: the books go on, and the next batch is tried again."""
        self._faults.note(error, self.settings.fails)

    def take_up(self, report: BatchReport) -> Record:
        """One batch is over: decide, publish, record."""
        self._faults.begin()
        self._met = self._plan_of(report)
        record = super().take_up(report)
        if self._met.attempt > 1:
            with contextlib.suppress(OSError):
                Attempts(self._store).forget(record.batch, self._met.attempt)
        return record

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
        self._groups.add(report)
        if self._met.expected is not None:
            self._sizing.add(self._met.expected.sizes, sample.arrived)
        budget = self._controller.decide(self._demand(report))
        # An empty first batch says nothing: the opening budget is for the first rows.
        self._opened = self._opened or sample.arrived > 0
        if self._opened:
            self._budget = budget

    def _examined(self, report: BatchReport) -> tuple[str, str]:
        """Who confirms the batch's counts, and what speaks against them."""
        confirmed_by, doubt = "", ""
        witness = report.witness
        if witness is not None:
            if witness.cut_short is None:
                witness = replace(witness, cut_short=witness.limits > self.spec.limits)
            confirmed_by, doubt = cross_examine(report.sample, self.spec.relation, witness)
        return confirmed_by, doubt or self._unlike_before(report)

    def handle(self, report: BatchReport) -> Record | None:
        """A batch of its query ended; one that its sink has passed over is recorded already."""
        if self._passed_over_by_sink(report):
            self.pass_over(report.sample.batch_id)
            return None
        return super().handle(report)

    def _passed_over_by_sink(self, report: BatchReport) -> bool:
        """Whether a batch that runs again was read by nobody, since its sink has it from before."""
        sample, witness = report.sample, report.witness
        if not self._may_be_replay or witness is None or not witness.passes_over:
            return False
        if sample.arrived or sample.kept or witness.handed_out:
            return False
        try:
            before = self._ledger.record(sample.batch_id)
        except (OSError, HeadgateError, KeyError, TypeError, ValueError):
            return False
        return before is not None and before.arrived > 0

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
        if before is None or before.evidence.doubt:
            return ""
        then, now = before.evidence.fingerprint, report.fingerprint
        if not (then and now) or then == now:
            return ""
        return (
            f"the batch ran again and kept other rows than before ({before.kept:,} with the fingerprint "
            f"{then}, now {report.sample.kept:,} with {now})"
        )

    def _demand(self, report: BatchReport) -> LoadSample:
        """The sample as the controller must see it: with the rows that a budget of 1 would keep."""
        sample = replace(report.sample, met=self._met.plan)
        if sample.arrived <= 0:
            return sample
        wanted = self._wanted.rows(sample.arrived, sample.kept, self._met.plan, self._groups.stats)
        return replace(sample, arrived=wanted)

    def pass_over(self, batch: int) -> None:
        """A batch ended that had nothing for this gate: the plan holds for the next one too."""
        if batch > self.last_batch:
            self.last_batch = batch
            self.publish()

    def record(self, report: BatchReport) -> Record:
        """What came, what was kept, under which plan, and why."""
        self._faults.end()
        sample, (confirmed_by, doubt) = report.sample, self._witnessed
        met = self._met
        if met.said not in ("", self._said):
            self._said = met.said
            log.warning("%s: batch %d: %s", self, sample.batch_id, met.said)
        remark, would_shed = self._faults.said, 0
        if not self._faults.now:
            try:
                remark = self.spec.policy.remark(met.plan, self._groups.stats)
                would_shed = self._would_shed() if sample.arrived > 0 else 0
            except Exception as error:
                self._note_fault(error)
                remark = self._faults.said
        return self.booked(
            report,
            shed=sample.arrived - sample.kept,
            plan=met.plan,
            shape=met.shape or self.spec.shape,
            origin=met.origin,
            attempt=met.attempt,
            mode=self.settings.mode,
            would_shed=would_shed,
            state="fault" if self._faults.now else self._budget.state,
            why="; ".join(filter(None, (remark, met.said, self._budget.why))),
            size=Size.of(met.expected),
            found=Findings(self._group_counts(report), _measures(report, met.plan)),
            evidence=Evidence(
                fingerprint=report.fingerprint,
                witness=confirmed_by,
                doubt=doubt,
                handed_out=None if report.witness is None else report.witness.handed_out,
            ),
        )

    def _would_shed(self) -> int:
        """In monitor mode: the rows that the plan would have shed."""
        if self.settings.mode != "monitor":
            return 0
        groups = self._groups.stats
        offer = Offer(self._budget, groups, wanted=self._wanted.share)
        advice = self.spec.policy.plan(offer.at(groups.total), groups)
        share = self.spec.policy.would_keep(advice, groups)
        return round(expected_shed(advice, groups) if share is None else (1.0 - share) * groups.total)

    def _group_counts(self, report: BatchReport) -> dict[str, int]:
        if self.spec.policy.grouping.classes:
            return {str(k): n for k, n in report.counts.items()}
        yielded = {} if report.drawn is None else report.drawn.yielded_groups
        return {f"yielded {label}": n for label, n in yielded.items()}

    def _plan_of(self, report: BatchReport) -> PinnedPlan:
        """What the batch was pinned to, if its rows really met that; else what they must have met."""
        pinned, weight = self.pinned(report.sample.batch_id), report.weight
        failed = pinned is not None and pinned.origin.startswith("fail")
        without = report.drawn is not None and report.drawn.tasks_without_plan > 0
        stray = without and not failed  # a pin that says so itself is what those tasks met
        if pinned is not None and not stray and weight in (None, pinned.plan.default_weight):
            return pinned
        note = "" if pinned is None else pinned.note
        if pinned is None and report.sample.arrived == 0:
            # No row, so no task of a drawing gate asked for one.
            return PinnedPlan(self.current() or KEEP_ALL, "plan")
        # No pin: the worker could not use the folder, and failed open or closed.
        given = self.spec.settings
        if weight is None:
            rate = given.min_keep if given.fails == "closed" else 1.0
        else:
            rate = min(1.0, 1.0 / weight)
        return PinnedPlan(Plan(rate), "fail-open" if rate >= 1.0 else "fail-closed", note=note)


def _measures(report: BatchReport, plan: Plan) -> dict[str, float]:
    """What a drawing gate says of its groups: how many, the least share they need, who went without."""
    drawn = report.drawn
    if drawn is None or not drawn.strata.count or report.sample.arrived <= 0:
        return {}
    found = {
        "groups": float(drawn.strata.count),
        "one_row_each": drawn.strata.count / report.sample.arrived,
        "groups_yielded": float(drawn.yielded),
    }
    return found if plan.level is None else {**found, "level": plan.level}


def _target(settings: GateSettings) -> tuple[object, ...]:
    return settings.hold, settings.delay, settings.rate, settings.min_keep, settings.inside
