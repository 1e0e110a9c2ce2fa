"""What people are told: states, verdicts and plans in words, from records that real runs wrote."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from headgate import ValueClasses
from headgate.settings import GateSettings
from headgate.store.ledger.record import Evidence
from headgate.testing.clock import ManualClock
from headgate.view.facts import Asked, JobFacts
from headgate.view.job import Job, describe
from headgate.view.observer import Observer
from headgate.view.verdict import Verdict, judge_all
from tests.view.virtual_gate import CAPACITY, VirtualGate


def seen(gate: VirtualGate) -> Job:
    """The one job in the gate's folder, as somebody sees it who looks now."""
    (job,) = Observer(gate.control).look().jobs
    return job


def test_a_job_that_fits_is_healthy(control: Path) -> None:
    gate = VirtualGate(control)
    gate.batches(15, CAPACITY // 2)
    job = seen(gate)
    assert (job.verdict.level, job.state.word) == ("healthy", "idle")
    assert job.inside == 1.0
    assert job.kept_share == 1.0
    assert job.plan is not None
    assert job.plan.sentence == "Every row is kept."
    assert job.books.balanced
    assert (job.books.arrived, job.books.shed) == (15 * CAPACITY // 2, 0)
    assert job.arrived_per_s == pytest.approx(CAPACITY / 2, rel=0.01)


def test_a_burst_is_held_released_and_forgotten(control: Path) -> None:
    gate = VirtualGate(control)
    gate.batches(10, CAPACITY // 2)
    gate.batches(25, 5 * CAPACITY)
    job = seen(gate)
    assert (job.verdict.level, job.state.word) == ("shedding", "holding")
    assert "of the rows of the last 10 batches were shed" in job.verdict.sentence
    assert job.state.since_batch is not None
    assert 9 <= job.state.since_batch <= 12
    assert not job.state.longer
    assert job.kept_share is not None
    assert 0.1 < job.kept_share < 0.3
    # One standard error of a count: the root of (1 - p) / kept.
    assert job.count_error == pytest.approx(0.0095, abs=0.003)
    assert job.books.can_be_repaid == job.books.shed > 0
    gate.batches(12, CAPACITY // 2)
    job = seen(gate)
    assert (job.verdict.level, job.state.word) == ("healthy", "released")
    gate.batches(30, CAPACITY // 2)
    assert seen(gate).state.word == "idle"


def test_a_slow_sink_is_named_as_what_it_is(control: Path) -> None:
    gate = VirtualGate(control)
    gate.batches(5, CAPACITY // 2)
    gate.batches(40, 5 * CAPACITY, takes=lambda kept: 6.0 + 1e-7 * kept)
    job = seen(gate)
    assert job.state.word == "futile: the sink is slow"
    assert job.verdict.level == "trouble"
    assert "Shedding did not shorten the batches" in job.verdict.sentence
    assert job.last is not None
    assert "look at the sink" in job.last.why


def test_a_target_that_is_out_of_reach_is_trouble_or_a_word_on_the_mode(control: Path) -> None:
    gate = VirtualGate(control, settings=GateSettings(hold=1, mode="monitor"))
    gate.batches(20, 5 * CAPACITY)
    job = seen(gate)
    assert job.verdict.level == "attention"
    assert "Nothing is shed, because the mode is monitor" in job.verdict.sentence
    assert job.state.word == "monitoring"
    assert "it would have shed" in job.state.sentence
    least = VirtualGate(control, "least", GateSettings(hold=1, min_keep=0.5), clock=ManualClock())
    least.batches(20, 5 * CAPACITY)
    job = next(j for j in Observer(control).look().jobs if j.name == "least")
    assert (job.verdict.level, job.state.word) == ("trouble", "at the least share")
    assert "The target of 1.00 s is not held" in job.verdict.sentence


def test_groups_of_a_plan_have_their_names_and_rates(control: Path) -> None:
    policy = ValueClasses(("priority = 'high'",))
    gate = VirtualGate(control, settings=GateSettings(rate=0.4), policy=policy)
    gate.batches(3, 1000, counts={1: 100})
    plan = seen(gate).plan
    assert plan is not None
    assert [(g.name, g.rate, g.rows) for g in plan.groups] == [("priority = 'high'", 1.0, 100)]
    assert plan.default == pytest.approx(1 / 3, abs=0.01)
    assert plan.next_after == 2
    assert plan.origin == "made by the controller and the policy"


def test_a_stopped_a_failed_and_a_lost_query(control: Path) -> None:
    gate = VirtualGate(control)
    gate.batches(5, 1000)
    gate.stop()
    assert seen(gate).verdict == Verdict("stopped", "The query was stopped.")
    gate.store.beat()
    gate.stop(failed=True)
    assert seen(gate).verdict.level == "trouble"
    gate.store.beat()
    (lost,) = Observer(control, lambda: time.time() + 60.0).look().jobs
    assert lost.verdict.level == "trouble"
    assert "No driver has been heard of for 60 s" in lost.verdict.sentence
    assert "keeps every row" in lost.verdict.sentence


def test_a_batch_that_runs_for_long_is_seen_before_it_ends(control: Path) -> None:
    gate = VirtualGate(control)
    gate.batches(5, 1000)
    gate.store.pin(5, lambda: pytest.fail("there is a plan"))
    job = describe(replace(seen(gate).facts, heartbeat_age_s=1.0), time.time() + 45.0)
    assert job.verdict.level == "attention"
    assert "Batch 5 has been running for 45 s; the target is 1.00 s" in job.verdict.sentence


def test_books_that_do_not_balance_are_trouble_and_doubts_are_named(control: Path) -> None:
    gate = VirtualGate(control)
    records = gate.batches(5, 1000)
    facts = seen(gate).facts
    lost = replace(records[-1], kept=records[-1].kept - 1)
    job = describe(replace(facts, records=(*records[:-1], lost)), time.time())
    assert job.verdict == Verdict("trouble", "The books do not balance: run `headgate ledger verify`.")
    assert not job.books.balanced
    doubt = replace(records[-1], evidence=Evidence(doubt="the source handed out 7 rows more"))
    job = describe(replace(facts, records=(*records[:-1], doubt)), time.time())
    assert job.verdict.level == "attention"
    assert "the source handed out 7 rows more" in job.verdict.sentence
    opened = replace(records[-1], origin="fail-open")
    job = describe(replace(facts, records=(*records[:-1], opened)), time.time())
    assert "failed open: it kept every row" in job.verdict.sentence


def test_nothing_yet() -> None:
    job = describe(JobFacts("rides", "q", Asked()), 0.0)
    assert (job.verdict.level, job.state.word, job.plan) == ("waiting", "waiting", None)


def test_the_first_line_of_the_page() -> None:
    well, bad = Verdict("healthy", "Everything fits."), Verdict("trouble", "It is late.")
    gone = Verdict("stopped", "The query was stopped.")
    assert judge_all([]).level == "waiting"
    assert judge_all([("a", gone)]) == Verdict("stopped", "No query is running.")
    assert judge_all([("a", well), ("b", gone)]).sentence == "1 query is healthy: nothing is shed."
    assert judge_all([("a", well), ("b", well)]).sentence == "2 queries are healthy: nothing is shed."
    assert judge_all([("a", well), ("b", bad), ("c", gone)]) == Verdict("trouble", "b: It is late.")
    assert judge_all([("a", bad), ("b", bad)]).sentence == "a: It is late. 1 query more like this."
