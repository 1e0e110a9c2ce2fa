"""A policy with maxima of its own sheds at any budget: which rows are load, in every mode."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from headgate import Budget, GroupRates, GroupStats, LoadSample, Policy
from headgate.core.offer import Offer
from headgate.core.plan import KEEP_ALL, Plan
from headgate.core.row_budget import RowBudget
from headgate.policies import Grouping
from headgate.run.gate_report import BatchReport
from headgate.run.wanted import Wanted
from headgate.settings import GateSettings
from headgate.store.ledger.records import Record
from headgate.store.settings_file import SettingsFile
from tests.run.test_gate_run import OPEN, Job, _offered

DEBUG, INFO = 9, 0
NOISY = GroupRates("level", {"DEBUG": 0.01})
KEYS = {"DEBUG": DEBUG}


def _step(job: Job, rows: Mapping[int, int]) -> Record:
    """One batch of so many rows by group; DEBUG's are counted."""
    job.store.beat()
    plan = job.store.pin(job.batch, OPEN).plan
    kept = sum(round(n * plan.rate_of(key)) for key, n in rows.items())
    sample = LoadSample(job.batch, job.clock(), 0.25 + 0.75e-4 * kept, sum(rows.values()), kept)
    job.clock.sleep(max(1.0, sample.duration_s))
    job.batch += 1
    counts = {DEBUG: rows.get(DEBUG, 0)}
    weight = plan.default_weight if not plan.exceptions else None
    record = job.run.handle(BatchReport(query="q", sample=sample, weight=weight, counts=counts))
    assert record is not None
    return record


@pytest.mark.parametrize("small", [{DEBUG: 20}, {INFO: 1, DEBUG: 999}], ids=["few", "unwanted"])
def test_a_batch_of_hardly_any_wanted_rows_does_not_let_the_next_one_through_whole(
    control: Path, small: Mapping[int, int]
) -> None:
    job = Job(control, GateSettings(hold=1), NOISY, keys=KEYS)
    for _ in range(20):
        _step(job, {INFO: 50_000})
    _step(job, small)
    assert _offered(job).at(1_000_000).keep < 0.05, "some 10,000 rows fit"


@pytest.mark.parametrize(
    ("policy", "rows", "shed"),
    [
        (GroupRates("level", {}, default=0.1), {INFO: 20_000}, 18_000),
        (NOISY, {INFO: 5_000, DEBUG: 95_000}, 94_050),
        (NOISY, {DEBUG: 1_000}, 990),
    ],
    ids=["a default", "a named group", "a light stream"],
)
def test_monitor_mode_says_what_shed_mode_sheds(
    control: Path, policy: Policy, rows: Mapping[int, int], shed: int
) -> None:
    job = Job(control, GateSettings(hold=1, mode="monitor"), policy, keys=KEYS)
    records = [_step(job, rows) for _ in range(20)]
    assert {(r.state, r.shed, r.would_shed) for r in records[3:]} == {("idle", 0, shed)}
    SettingsFile(control, "g").change(mode="shed")
    job.run.refresh()
    assert _offered(job).at(sum(rows.values())).keep == 1.0, "all that is wanted fits"
    first = _step(job, rows)
    assert (first.state, first.shed) == ("idle", shed)


def test_monitor_mode_says_of_an_empty_batch_that_nothing_would_be_shed(control: Path) -> None:
    job = Job(control, GateSettings(rate=0.5, mode="monitor"))
    assert _step(job, {INFO: 1_000}).would_shed == 500
    assert _step(job, {}).would_shed == 0


def test_the_share_rises_at_once_falls_slowly_and_few_rows_tell_little() -> None:
    wanted = Wanted(NOISY)

    def share(info: int, debug: int) -> float:
        groups = GroupStats({DEBUG: debug}, info + debug, KEYS)
        wanted.rows(info + debug, info + debug, KEEP_ALL, groups)
        return wanted.share

    assert wanted.share == 1.0, "nothing is known"
    assert share(0, 1000) == pytest.approx(0.01), "the first batch is believed"
    assert share(1, 0) == pytest.approx(0.02, rel=0.01)
    assert share(1000, 0) == 1.0
    assert share(0, 1000) == pytest.approx(0.7 + 0.3 * 0.01)
    assert share(0, 1) > 0.69
    assert Wanted(NOISY, wanted.share).share == wanted.share
    assert Wanted(NOISY, 0.0).share == 1.0, "no share that a batch can have shown"


class Unnamed(Policy):
    """Half of every group but those that it knows, which nobody counts."""

    @property
    def grouping(self) -> Grouping:
        return Grouping(columns=("level",))

    def plan(self, budget: Budget, groups: GroupStats) -> Plan:
        return Plan(0.5 * budget.keep, {DEBUG: 0.1 * budget.keep})


def test_where_nobody_counts_groups_the_kept_rows_tell() -> None:
    wanted = Wanted(Unnamed())
    groups = GroupStats(total=1000)
    assert wanted.rows(1000, 100, Plan(0.25, {DEBUG: 0.05}), groups) == 200
    assert wanted.rows(1000, 1000, KEEP_ALL, groups) == 1000, "nothing tells"


def test_a_batch_with_rows_is_never_one_without() -> None:
    fits = RowBudget(aim_s=1.0, fixed_s=2.0, per_kept_s=0.001, whole=0.0, min_keep=0.01)
    offer = Offer(Budget(0.5, "shedding", fits=fits), GroupStats(), wanted=1e-9)
    assert offer.at(1_000).keep == 0.01
    assert offer.at(0).keep == 1.0
