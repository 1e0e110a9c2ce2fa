"""A view as plain readings: a name, a value, labels. What scrapes and exporters say comes from here.

Named by Prometheus' conventions: base units, ``_total``, few labels. Counters are the ledger's own sums,
so they outlive restarts of the query and of whoever looks, and begin again only with a new query (a new
checkpoint). A query that was stopped keeps its counters and has no gauges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headgate.view.fair_shares import Sites
from headgate.view.job import Job
from headgate.view.observer import View

__all__ = ["METRICS", "Reading", "readings"]

_JOB = ("gate", "query")
_STATES = ("idle", "shedding", "min_keep", "futile", "fixed", "fault")
_LEVELS = ("healthy", "shedding", "attention", "trouble", "waiting", "stopped")

#: Every metric: its help, and its labels. A name that ends in ``_total`` is a counter.
METRICS: dict[str, tuple[str, tuple[str, ...]]] = {
    "headgate_store_up": ("Whether the control store could be read (1) or not (0).", ()),
    "headgate_view_timestamp_seconds": ("When the control store was last read.", ()),
    "headgate_batches_total": ("Batches in the ledger.", _JOB),
    "headgate_rows_arrived_total": ("Rows in front of the gate or guard.", _JOB),
    "headgate_rows_kept_total": ("Rows behind it.", _JOB),
    "headgate_rows_shed_total": ("Rows that it shed.", _JOB),
    "headgate_join_comparisons_total": ("Comparisons of a full join.", _JOB),
    "headgate_join_comparisons_made_total": ("Comparisons that were made.", _JOB),
    "headgate_join_comparisons_skipped_total": ("Comparisons that were skipped.", _JOB),
    "headgate_repayable_rows": (
        "Shed rows that are not repaid and whose records are kept: a backfill finds them.",
        _JOB,
    ),
    "headgate_repaid_rows": ("Shed rows that were repaid, of batches whose records are kept.", _JOB),
    "headgate_kept_ratio": ("The share of the last batch that was kept.", _JOB),
    "headgate_plan_keep_ratio": ("The default keep rate of the last batch's plan.", _JOB),
    "headgate_min_keep_ratio": ("The least share that may be kept.", _JOB),
    "headgate_target_seconds": ("What is held; the label says of what.", (*_JOB, "measure")),
    "headgate_measured_seconds": ("The same, as the last batch had it.", (*_JOB, "measure")),
    "headgate_batch_duration_seconds": ("How long the last batch took.", _JOB),
    "headgate_delay_seconds": ("From the oldest row's arrival to the end of the last batch.", _JOB),
    "headgate_inside_target_ratio": ("The share of the last 10 batches inside the target.", _JOB),
    "headgate_backlog_rows": ("Rows that the source holds and has not handed out.", _JOB),
    "headgate_state": ("1 for the controller's state, 0 for the others.", (*_JOB, "state")),
    "headgate_verdict": ("1 for the page's verdict, 0 for the others.", (*_JOB, "level")),
    "headgate_heartbeat_age_seconds": ("Since the driver last said that it lives.", _JOB),
    "headgate_last_batch_timestamp_seconds": ("When the last recorded batch began.", _JOB),
    "headgate_ledger_unbalanced_batches": ("Latest batches whose counts do not add up.", _JOB),
    "headgate_ledger_doubtful_batches": ("Latest batches whose counts a witness contradicts.", _JOB),
    "headgate_size_error_ratio": ("How far expected batch sizes were off.", _JOB),
    "headgate_count_error_ratio": ("A standard error of a count over the last batch.", _JOB),
    "headgate_guard_queue_seconds": ("How long rows waited for a guarded function.", _JOB),
    "headgate_guard_cost_seconds": ("What a call of a guarded function took.", _JOB),
    "headgate_guard_price_seconds": ("The highest price of a guard's queues.", _JOB),
    "headgate_join_completeness_ratio": ("The share of all pairs that a join found.", _JOB),
    "headgate_sic_ratio": (
        "The share of a query's sources in its result.",
        ("site", "query"),
    ),
    "headgate_site_overloaded": ("Whether a site sheds (1) or keeps all (0).", ("site",)),
    "headgate_jain_index": ("How equal the SIC of queries is; 1 is equal.", ()),
}


class Reading(NamedTuple):
    """One value of one metric; its labels stand in the order of `METRICS`."""

    name: str
    value: float
    labels: tuple[str, ...] = ()


def readings(view: View) -> list[Reading]:
    """All that there is to read in a view; what was not measured is not there."""
    found = _Walk(view).all()
    return [Reading(name, float(value), labels) for name, value, labels in found if value is not None]


_Found = Iterator[tuple[str, float | None, tuple[str, ...]]]


class _Walk:
    """Goes through one view."""

    def __init__(self, view: View) -> None:
        self._view = view

    def all(self) -> _Found:
        view = self._view
        yield "headgate_store_up", 0.0 if view.stale else 1.0, ()
        yield "headgate_view_timestamp_seconds", view.at, ()
        for job in (*view.jobs, *view.more):
            yield from self._job(job)
        if view.sites is not None:
            yield from self._sites(view.sites)

    def _job(self, job: Job) -> _Found:
        facts, books = job.facts, job.books
        who = facts.gate, facts.query[:8]
        yield "headgate_batches_total", books.batches, who
        sums = ("rows_arrived", "rows_kept", "rows_shed")
        if facts.kind == "join":
            sums = ("join_comparisons", "join_comparisons_made", "join_comparisons_skipped")
        for name, value in zip(sums, (books.arrived, books.kept, books.shed), strict=True):
            yield f"headgate_{name}_total", value, who
        for level in _LEVELS:
            yield "headgate_verdict", float(job.verdict.level == level), (*who, level)
        if facts.ended:
            return
        yield from self._gauges(job, who)
        yield from self._last(job, who)

    def _gauges(self, job: Job, who: tuple[str, str]) -> _Found:
        facts, books, asked = job.facts, job.books, job.facts.asked
        if facts.kind == "gate":
            yield "headgate_repayable_rows", books.can_be_repaid, who
            yield "headgate_repaid_rows", books.repaid, who
        if asked.target_s is not None:
            yield "headgate_target_seconds", asked.target_s, (*who, asked.measure)
            yield "headgate_measured_seconds", job.measured_s, (*who, asked.measure)
        yield "headgate_min_keep_ratio", asked.min_keep, who
        yield "headgate_inside_target_ratio", job.inside, who
        yield "headgate_heartbeat_age_seconds", facts.heartbeat_age_s, who
        yield "headgate_ledger_unbalanced_batches", books.unbalanced, who
        yield "headgate_ledger_doubtful_batches", books.doubtful, who
        yield "headgate_size_error_ratio", job.size_error, who
        yield "headgate_count_error_ratio", job.count_error, who
        if facts.guard is not None:
            yield "headgate_guard_price_seconds", max(facts.guard.prices_s, default=None), who

    def _last(self, job: Job, who: tuple[str, str]) -> _Found:
        last = job.last
        if last is None:
            return
        measures = last.found.measures
        if last.arrived > 0:
            yield "headgate_kept_ratio", last.kept / last.arrived, who
        if job.facts.kind == "gate":
            yield "headgate_plan_keep_ratio", last.plan.default, who
        yield "headgate_batch_duration_seconds", last.duration_s, who
        yield "headgate_delay_seconds", last.delay_s, who
        yield "headgate_backlog_rows", last.backlog, who
        yield "headgate_last_batch_timestamp_seconds", last.started_at, who
        for state in dict.fromkeys((*_STATES, last.state)):
            yield "headgate_state", float(last.state == state), (*who, state)
        for name, key in (("queue", "queue_ms"), ("cost", "cost_ms")):
            if key in measures:
                yield f"headgate_guard_{name}_seconds", measures[key] / 1000.0, who
        yield "headgate_join_completeness_ratio", measures.get("completeness"), who

    def _sites(self, sites: Sites) -> _Found:
        yield "headgate_jain_index", sites.jain, ()
        for share in sites.shares:
            yield "headgate_sic_ratio", share.sic, (share.site, share.query)
        for site in sites.sites:
            if not site.stopped:
                yield "headgate_site_overloaded", float(site.overloaded), (site.name,)
