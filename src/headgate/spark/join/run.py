"""The driver's side of a join: measures, says how much the next batch may compare, keeps the books."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from headgate.control.allowance import Allowance
from headgate.core.batch_size import Sizing
from headgate.core.plan import KEEP_ALL, Plan
from headgate.core.plan_parts import WorkLimit
from headgate.errors import HeadgateError
from headgate.run.run import SettledRun
from headgate.run.spec import SettledSpec
from headgate.settings import GateSettings
from headgate.spark.dropped.lists import Lister
from headgate.spark.join.left_out.offer import JoinOffer
from headgate.spark.join.left_out.rows_seen import RowsSeen
from headgate.spark.join.meter import SHOWN_WINDOWS, JoinReport
from headgate.store.ledger.record import Findings, Record, Size
from headgate.store.plans import PinnedPlan

__all__ = ["JoinRun", "JoinSpec"]

log = logging.getLogger("headgate")


@dataclass(frozen=True)
class JoinSpec(SettledSpec):
    """What a join's call fixed for good."""

    #: With `hold`, work follows the target; with `rate`, it is that share of the full join's.
    settings: GateSettings
    shards: int
    comparison_s: float
    result_s: float
    #: Units that each shard may spend in a batch, given by hand.
    fixed_work: float | None = None
    basic_s: float = 1.0
    #: At how many shards the rows of each side are.
    copies: tuple[int, int] = (1, 1)
    #: The folder where rows go that are left out; None where they only count.
    dropped: str | None = None

    def opening(self) -> Plan:
        """The plan of the first batch, where its size cannot be known: with all rows."""
        return self.plan(self.settings, self.opening_offer())

    def opening_offer(self) -> JoinOffer | None:
        """What the first batch may have, whatever its size; None where there is no target."""
        return self.offer(self.settings, self.allowance(self.settings))

    def allowance(self, settings: GateSettings) -> Allowance:
        """What learns how much fits; of use only where there is a target."""
        return Allowance(settings.target_s or 1.0, self.shards, self.comparison_s, self.result_s)

    def plan(self, settings: GateSettings, offer: JoinOffer | None, rows: float = 0.0) -> Plan:
        """The plan of a batch with about so many rows."""
        if settings.mode != "shed":
            return KEEP_ALL
        if offer is None:  # a share, or a number of comparisons: results are free
            given = None if self.fixed_work is None else WorkLimit(self.fixed_work)
            return Plan(settings.rate or 1.0, work=given)
        return offer.plan(rows)

    def offer(
        self,
        settings: GateSettings,
        allowance: Allowance,
        sizing: Sizing | None = None,
        seen: RowsSeen | None = None,
    ) -> JoinOffer | None:
        """What a plan is made of, for a batch of any size; None where there is no target."""
        if settings.target_s is None or settings.mode != "shed":
            return None
        return JoinOffer(
            allowance.rows,
            allowance.budget,
            sizing or Sizing(),
            None if seen is None else seen.classes,
            None if seen is None else seen.items,
            self.fixed_work,
        )

    def open(self, query: str) -> JoinRun:
        """The join at work in a query."""
        return JoinRun(self, query)


class JoinRun(SettledRun[JoinSpec, JoinReport]):
    """One join in one query, as its batches end."""

    KIND = "join"
    LEARNED = "allowance.json"

    def __init__(self, spec: JoinSpec, query: str) -> None:
        super().__init__(spec, query)
        self._sizing = Sizing()
        #: Whether the last batch met a plan for its own size.
        self._sized = False
        self._seen = RowsSeen(spec.copies)
        self._lister = None if spec.dropped is None else Lister(spec.dropped, query, str(self))
        self._allowance = self._restored(self.settings)
        # What a batch that runs again took says nothing of its first time.
        self.last_batch = self._ledger.last_batch()
        self.publish()

    def _restored(self, settings: GateSettings) -> Allowance:
        allowance = self.spec.allowance(settings)
        value = self.load_learned()
        try:
            if value is not None:
                allowance.restore(value)
                self._sizing = Sizing.from_json(value.get("sizing"))
        except (KeyError, TypeError, ValueError, IndexError, HeadgateError) as error:
            log.warning("%s: what was learned cannot be read (%s); starting afresh", self, error)
            return self.spec.allowance(settings)
        return allowance

    def refresh(self) -> None:
        """Take up settings that people changed; called between batches too."""
        super().refresh()
        settings = self.effective_settings(self.settings)
        if settings == self.settings:
            return
        log.info("%s: settings changed: %s", self, settings)
        self.settings = settings
        self.upkeep.retention_s = settings.retention_s
        self._allowance.aim_at(settings.target_s or 1.0)
        self.publish()

    def _offer(self) -> JoinOffer | None:
        return self.spec.offer(self.settings, self._allowance, self._sizing, self._seen)

    def plan(self) -> Plan:
        """The plan for a next batch of the usual size, under the settings that hold."""
        return self.spec.plan(self.settings, self._offer(), self._allowance.usual_rows)

    def publish(self) -> None:
        """The rows that the next batch may take in, and the work that it may do."""
        try:
            offer = self._offer()
            urgent_s = None if offer is None else self._urgent_s()
            self._store.publish(
                self.plan(), self.last_batch, urgent_s, spec=self.spec.number, offer=offer
            )
        except OSError as error:
            log.warning("%s: the plan cannot be written (%s)", self, error)

    def _urgent_s(self) -> float:
        """How long a batch must last before the plan that follows it is worth waiting for.

        A batch that meets a plan for its own size needs the last report for the prices alone.
        """
        return 0.5 * (self.settings.target_s or 0.0) if self._sized else 0.0

    def pass_over(self, batch: int) -> None:
        """A batch ended that had nothing for this join."""
        if batch > self.last_batch:
            self.last_batch = batch
            self.publish()

    def learn(self, report: JoinReport) -> None:
        """How fast it was, what results, rows and batches cost, and what rows were like."""
        sums, pinned = report.sums, self.pinned(report.sample.batch_id)
        self._allowance.learn(report.spent)
        self._sized = pinned is not None and pinned.sized
        if pinned is not None and pinned.expected is not None:
            self._sizing.add(pinned.expected.sizes, round(report.spent.arrived_rows))
        probed = sums["probed_left"], sums["probed_right"]
        self._seen.learn(report.told, report.items, probed, (sums["left"], sums["right"]))
        if self._lister is not None:  # in front of the record: what it counts is listed then
            rows = {"left_out": round(sums["shed_left"] + sums["shed_right"])}
            self._lister.take(report.sample.batch_id, report.files, rows)

    def finish(self) -> None:
        """Try a last time what could not be written."""
        super().finish()
        if self._lister is not None:
            self._lister.write()

    def remember(self, report: JoinReport) -> None:
        """The allowance outlasts a restart, and so does what sizes mean in rows."""
        self.save_learned({**self._allowance.snapshot(), "sizing": self._sizing.to_json()})

    def record(self, report: JoinReport) -> Record:
        """Comparisons wanted, made and skipped, and how complete the result is."""
        sample, sums = report.sample, report.sums
        pinned = self.pinned(sample.batch_id)
        share, error = report.share
        why = f"{sums['found']:.0f} pairs, {100 * share:.1f} % of all (+- {100 * error:.1f})"
        rows_shed = sums["shed_left"] + sums["shed_right"]
        if rows_shed:
            why += f", {rows_shed:.0f} of {report.spent.arrived_rows:.0f} rows left out"
        if sums["late"]:
            why += f", {sums['late']:.0f} rows too late"
        measures: dict[str, Any] = {
            "left_rows": sums["left"],
            "right_rows": sums["right"],
            "late_rows": sums["late"],
            "rows_arrived": report.spent.arrived_rows,
            "rows_kept": report.spent.kept_rows,
            "rows_shed": rows_shed,
            "pairs": sums["found"],
            "pairs_missed": round(sums["missed"], 3),
            "completeness": round(share, 6),
            "completeness_error": round(error, 6),
            "compare_s": round(report.spent.compare_s, 4),
            "emit_s": round(report.spent.emit_s, 4),
            "operator_s": round(sums["fixed_s"], 4),
            "blocks": sums["blocks"],
            "state_bytes": sums["state_bytes"],
        }
        if sums["utility"] or sums["missed_utility"]:
            utility, utility_error = report.utility_share
            measures |= {"utility": sums["utility"], "utility_completeness": round(utility, 6),
                         "utility_completeness_error": round(utility_error, 6)}  # fmt: skip
        if rows_shed or sums["left_out"]:
            measures["pairs_of_rows_left_out"] = round(sums["left_out"], 3)
        if self.settings.target_s is not None:
            measures |= {
                "work": self._allowance.work,
                "result_units": round(self._allowance.result_units, 2),
                "fixed_s": round(self._allowance.fixed_s, 4),
            }
        shed = sample.arrived - sample.kept
        return self.booked(
            report,
            shed=shed,
            plan=KEEP_ALL if pinned is None else pinned.plan,
            origin=self._origin(pinned, int(sums["tasks_without_plan"])),
            kind="join",
            mode=self.settings.mode,
            would_shed=self._would_shed(sample.arrived),
            state="shedding" if shed else "idle",
            why=why,
            size=Size.of(None if pinned is None else pinned.expected),
            found=Findings(measures=measures, windows=self._windows(report)),
        )

    def _windows(self, report: JoinReport) -> list[list[float]]:
        """The latest windows, as the ledger has them."""
        return [
            [w.bucket * self.spec.basic_s, w.found, round(w.missed, 3), *map(_rounded, w.share)]
            for w in report.windows[-SHOWN_WINDOWS:]
        ]

    def _origin(self, pinned: PinnedPlan | None, tasks_without_plan: int) -> str:
        """Why this plan; tasks that could not have it failed as the call says."""
        if tasks_without_plan:
            return f"fail-{self.settings.fails}"
        return "unpinned" if pinned is None else pinned.origin

    def _would_shed(self, wanted: int) -> int:
        """In monitor mode, the comparisons that would have been skipped."""
        if self.settings.mode != "monitor" or self.settings.target_s is None:
            return 0
        return max(0, wanted - round(self.spec.shards * self._allowance.work))


def _rounded(value: float) -> float:
    return round(value, 6)
