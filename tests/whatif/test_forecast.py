"""Forecasts against runs of the same load whose truth is known; and how far they say to trust them."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from headgate import HoldDelay, HoldDuration, ValueClasses
from headgate.settings import GateSettings
from headgate.whatif.answer import Answer, ask, targets_to_try
from headgate.whatif.arrivals import CountedArrivals
from headgate.whatif.costs import fitted, given
from headgate.whatif.forecast import Outcome, Replay, _outcome
from headgate.whatif.microbatch import BatchRun, Cost, MicroBatches, Workload
from headgate.whatif.progress_log import ProgressLog
from headgate.whatif.recording import RecordedBatch, Recording
from tests.whatif.virtual_progress import BURSTS, COST, lived, reports

TWO = GateSettings(hold=2)


def recording(batches: list[BatchRun], gate: str | None = None) -> Recording:
    return ProgressLog(reports(batches, gate)).recording(None, None, None, 10_000)


def truth(batches: list[BatchRun], settings: GateSettings) -> Outcome:
    return _outcome(batches[1:], settings)


# -- right


@pytest.mark.parametrize("target_s", [1.0, 2.0])
def test_from_a_query_without_a_gate_it_foretells_what_one_does(target_s: float) -> None:
    """The truth is the mean of three runs, which differ by a point by chance alone."""
    settings = GateSettings(hold=target_s)
    found = ask(recording(lived(seconds=400.0)), [settings], runs=4)
    facts = [
        truth(lived(HoldDuration(target_s), seconds=400.0, seed=seed), settings) for seed in range(9, 12)
    ]
    made = found.forecasts[0]
    assert made.outcome.kept == pytest.approx(fmean(f.kept for f in facts), abs=0.02)
    assert made.low.kept < made.outcome.kept < made.high.kept
    assert made.outcome.inside == pytest.approx(fmean(f.inside or 0.0 for f in facts), abs=0.03)
    assert made.outcome.p95_delay_s == pytest.approx(fmean(f.p95_delay_s or 0.0 for f in facts), rel=0.1)
    assert found.check is not None
    assert found.check.fits
    assert found.check.foretold.outcome.p95_s == pytest.approx(found.check.fact.p95_s, rel=0.15)


def test_from_a_gate_at_one_target_it_foretells_another() -> None:
    seen = recording(lived(HoldDuration(2), seconds=400.0), "rides")
    found = ask(seen, [GateSettings(hold=1)], was=TWO, runs=3)
    fact = truth(lived(HoldDuration(1), seconds=400.0), GateSettings(hold=1))
    assert found.forecasts[0].outcome.kept == pytest.approx(fact.kept, abs=0.03)
    assert found.check is not None
    assert found.check.foretold.outcome.kept == pytest.approx(found.check.fact.kept, abs=0.02)
    assert found.check.fits


def test_a_delay_is_foretold_as_well() -> None:
    settings = GateSettings(delay=3)
    found = ask(recording(lived(seconds=400.0)), [settings], runs=3).forecasts[0].outcome
    fact = truth(lived(HoldDelay(3), seconds=400.0), settings)
    assert found.kept == pytest.approx(fact.kept, abs=0.04)
    assert found.inside == pytest.approx(fact.inside, abs=0.06)


def test_rows_are_shed_from_the_groups_that_are_worth_least() -> None:
    load = Workload(BURSTS, COST, trigger_s=1.0, mix={1: 0.3}, seed=9)
    batches = MicroBatches(load, HoldDuration(2), ValueClasses(("vip",))).run_until(300.0)
    found = ask(recording(batches, "rides"), [GateSettings(hold=1)], was=TWO, runs=3).forecasts[0]
    first, others = found.groups
    assert (first.name, others.name) == ("class 1", "all others")
    assert first.kept / first.arrived > 0.97 > others.kept / others.arrived
    arrived = sum(b.arrived for b in batches[1:])
    assert first.arrived + others.arrived == pytest.approx(arrived, rel=0.02)


def test_a_cap_and_an_outage_are_met_again() -> None:
    capped = lived(seconds=200.0, source_cap=12_000)
    values = reports(capped)
    at = 0
    for report, batch in zip(values, capped, strict=True):
        at += batch.arrived
        ends = {"endOffset": {"t": {"0": at}}, "latestOffset": {"t": {"0": at + batch.backlog}}}
        report["sources"][0] |= ends
    seen = ProgressLog(values).recording(None, None, None, 10_000)
    replay = Replay(seen, fitted(seen, 2.0))
    assert max(b.arrived for b in replay.forecast(None, runs=3).batches) == 12_000
    half = len(values) // 2
    for report in values[half:]:
        report["runId"] = "run-2"
        minute = int(report["timestamp"][14:16])
        report["timestamp"] = f"{report['timestamp'][:14]}{minute + 5:02d}{report['timestamp'][16:]}"
    down = ProgressLog(values).recording(None, None, None, 10_000)
    (outage,) = down.outages
    batches = Replay(down, fitted(down, 2.0)).forecast(TWO, runs=3).batches
    started = [b.start for b in batches]
    assert not [t for t in started if outage.from_s + 5.0 < t < outage.until_s - 0.1]
    assert any(t >= outage.until_s - 0.1 for t in started)


def test_the_engine_conserves_rows_and_repeats_itself() -> None:
    seen = recording(lived(seconds=120.0))
    replay = Replay(seen, fitted(seen, 2.0))
    first, again = (replay.forecast(TWO, runs=3) for _ in range(2))
    assert first.outcome == again.outcome
    assert sum(b.arrived for b in first.batches) <= seen.rows


# -- how far to trust it


def test_prices_are_those_of_the_query_and_the_fit_says_how_far_off() -> None:
    costs = fitted(recording(lived(HoldDuration(1)), "rides"), 1.0)
    fixed, kept, arrived = costs.usual()
    assert fixed == pytest.approx(COST.fixed_s, rel=0.15)
    assert kept + arrived == pytest.approx(COST.per_kept_s + COST.per_arrived_s, rel=0.1)
    assert costs.noise == pytest.approx(COST.noise, abs=0.04)
    assert not costs.untold
    shifted = {costs.model(seed)(50, 100.0).per_kept_s for seed in range(6)}
    assert len(shifted) == 6
    assert costs.model(0)(50, 100.0).per_kept_s == costs.at(100.0)[1]


def test_what_cannot_be_known_is_said() -> None:
    whole = fitted(recording(lived()), 2.0)
    assert [name for name, _ in whole.untold] == ["per_arrived_s"]
    even = lived(seconds=120.0, arrivals=lambda t: 10_000.0)
    found = ask(recording(even), [TWO], runs=3)
    assert dict(found.costs.untold).keys() == {"fixed_s", "per_arrived_s"}
    assert any("cannot be told apart" in text for text in found.warnings)


def _warned(answer: Answer, text: str) -> bool:
    return any(text in warning for warning in answer.warnings)


def test_sizes_that_were_never_seen_are_named() -> None:
    small = lived(seconds=200.0, arrivals=lambda t: 4_000.0 + 2_000.0 * (int(t) % 5))
    seen = recording(small)
    more = tuple(replace(b, arrived=b.arrived * 8, kept=b.kept) for b in seen.batches)
    many = replace(seen, batches=more)
    assert not _warned(ask(seen, [TWO], runs=3), "extrapolated")
    assert _warned(ask(many, [GateSettings(hold=4)], runs=3), "more rows than any recorded one")


def test_a_model_that_does_not_fit_is_not_to_be_relied_on() -> None:
    """Batches whose time has nothing to do with their rows, and a gate that shed nothing of them."""
    batches = lived(seconds=300.0)
    odd = [replace(b, duration=4.0 if b.batch % 3 else 0.2, start=5.0 * b.batch) for b in batches]
    found = ask(recording(odd, "rides"), [GateSettings(hold=1)], was=GateSettings(hold=1), runs=3)
    assert found.check is not None
    assert not found.check.fits
    assert _warned(found, "do not rely on this answer")


def test_long_batches_hide_short_bursts() -> None:
    slow = lived(seconds=900.0, cost=replace(COST, fixed_s=8.0))
    assert _warned(ask(recording(slow), [GateSettings(hold=1)], runs=3), "shorter bursts are not seen")


def test_targets_to_try_reach_from_little_to_nearly_all() -> None:
    seen = recording(lived(seconds=200.0))
    costs = fitted(seen, 2.0)
    targets = targets_to_try(seen, costs)
    found = ask(seen, [GateSettings(hold=t) for t in (targets[0], targets[-1])], costs=costs, runs=3)
    least, most = (f.outcome.kept for f in found.forecasts)
    assert least < 0.5 < 0.9 < most


def test_a_trace_needs_prices_and_then_is_as_good() -> None:
    stretches = tuple(RecordedBatch(float(t), rows := round(BURSTS(t + 0.5)), rows) for t in range(300))
    seen = Recording(stretches, kind="trace", told_trigger_s=1.0)
    prices = given(COST.fixed_s, COST.per_kept_s, COST.per_arrived_s, COST.noise)
    found = ask(seen, [TWO], costs=prices, runs=4)
    fact = truth(lived(HoldDuration(2), seconds=300.0), TWO)
    assert found.forecasts[0].outcome.kept == pytest.approx(fact.kept, abs=0.04)
    assert found.check is None
    assert found.fact_for(found.forecasts[0]) is None


# -- its parts


def test_misses_of_real_batches_are_drawn_as_they_are() -> None:
    tail = Cost(1.0, 1e-9, misses=(0.0, 0.0, 0.7))
    load = Workload(lambda t: 100.0, tail, trigger_s=3.0, seed=1)
    durations = {round(b.duration, 2) for b in MicroBatches(load, HoldDuration(9)).run(60)}
    assert durations == {1.0, 2.01}


def test_counted_rows_come_evenly_and_end() -> None:
    rows = CountedArrivals([0.0, 2.0, 4.0], [4, 0], granule_s=1.0)
    assert [rows.until(t) for t in (0.9, 1.0, 1.9, 2.0, 9.0)] == [0, 2, 2, 4, 4]
    assert rows.ready_at(0) == 1.0
    with pytest.raises(Exception, match="the stream is over"):
        rows.instant_of(4)
