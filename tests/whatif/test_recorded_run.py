"""The forecast of runs on a real Spark, against what those runs did.

`recorded/` has the progress of two runs behind a gate with a target of 2 s on two busy cores, one with
bursts of several times what fits and one with bursts of hardly more, and of one that kept every row;
`record_runs.py` made them. Tolerances: 5 points of the share kept, 8 of the share inside, 35 % of the
95th percentile of the delay (a burst more or less in 90 s).
"""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import pytest

from headgate.settings import GateSettings
from headgate.whatif.answer import Answer, ask
from headgate.whatif.progress_log import ProgressLog, objects_in

FOLDER = Path(__file__).parent / "recorded"
HELD = GateSettings(hold=2)
GATED = {"bursts_behind_a_gate": 61, "few_bursts_behind_a_gate": 95}


@cache
def answered(name: str, was: GateSettings | None = HELD) -> Answer:
    text = gzip.decompress((FOLDER / f"{name}.jsonl.gz").read_bytes()).decode()
    seen = ProgressLog(objects_in(text)).recording(None, None, None, 1000)
    return ask(seen, [GateSettings(hold=1.2)], was=was, runs=8)


@pytest.mark.parametrize(("name", "batches"), GATED.items())
def test_it_is_what_spark_wrote(name: str, batches: int) -> None:
    seen = answered(name).recording
    assert len(seen.batches) == batches
    assert (seen.trigger_s, seen.granule_s) == (1.0, 1.0)
    assert seen.begins_cold
    assert list(seen.labels.values()) == ["class 1"]


@pytest.mark.parametrize("name", GATED)
def test_the_forecast_is_what_the_run_did(name: str) -> None:
    check = answered(name).check
    assert check is not None
    made, fact = check.foretold.outcome, check.fact
    assert made.kept == pytest.approx(fact.kept, abs=0.05)
    assert made.inside == pytest.approx(fact.inside, abs=0.08)
    assert made.p95_delay_s == pytest.approx(fact.p95_delay_s, rel=0.35)
    assert check.foretold.low.kept <= fact.kept <= check.foretold.high.kept
    assert check.fits


def test_the_loads_are_not_alike() -> None:
    facts = [check.fact.kept for name in GATED if (check := answered(name).check) is not None]
    assert facts == pytest.approx([0.22, 0.97], abs=0.01)


@pytest.mark.parametrize("name", GATED)
def test_each_class_loses_what_it_lost(name: str) -> None:
    answer = answered(name)
    assert answer.check is not None
    first = answer.check.foretold.groups[0]
    arrived = sum(b.groups[1] for b in answer.recording.judged)
    assert first.arrived == pytest.approx(arrived, rel=0.1)
    assert first.kept / first.arrived > answer.check.fact.kept  # it is shed last
    assert answer.forecasts[0].outcome.kept < answer.check.foretold.outcome.kept  # a tighter target


def test_without_shedding_batches_are_as_long_as_they_were() -> None:
    check = answered("bursts_monitored", None).check
    assert check is not None
    made, fact = check.foretold.outcome, check.fact
    assert fact.kept == made.kept == 1.0
    assert made.p50_s == pytest.approx(fact.p50_s, rel=0.25)
    assert made.p95_s == pytest.approx(fact.p95_s, rel=0.35)
    assert check.fits
