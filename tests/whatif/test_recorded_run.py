"""The forecast of a run on a real Spark, against what that run did.

`recorded/` has the progress of 61 batches behind a gate with a target of 2 s, in bursts of up to four
times what two busy cores could process; `record_runs.py` made it. Tolerances: 5 points of the share
kept, 8 of the share inside, 35 % of the 95th percentile of the delay (a burst more or less in 90 s).
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from headgate.settings import GateSettings
from headgate.whatif.answer import Answer, ask
from headgate.whatif.progress_log import ProgressLog, objects_in

FILE = Path(__file__).parent / "recorded" / "bursts_behind_a_gate.jsonl.gz"
HELD = GateSettings(hold=2)


@pytest.fixture(scope="module")
def answer() -> Answer:
    log = ProgressLog(objects_in(gzip.decompress(FILE.read_bytes()).decode()))
    return ask(log.recording(None, None, None, 1000), [GateSettings(hold=1.2)], was=HELD, runs=8)


def test_it_is_what_spark_wrote(answer: Answer) -> None:
    seen = answer.recording
    assert len(seen.batches) == 61
    assert (seen.trigger_s, seen.granule_s) == (1.0, 1.0)
    assert seen.begins_cold
    assert 0.7 < seen.shed / sum(b.arrived for b in seen.batches) < 0.8
    assert list(seen.labels.values()) == ["class 1"]


def test_the_forecast_is_what_the_run_did(answer: Answer) -> None:
    assert answer.check is not None
    made, fact = answer.check.foretold.outcome, answer.check.fact
    assert made.kept == pytest.approx(fact.kept, abs=0.05)
    assert made.inside == pytest.approx(fact.inside, abs=0.08)
    assert made.p95_delay_s == pytest.approx(fact.p95_delay_s, rel=0.35)
    assert answer.check.foretold.low.kept <= fact.kept <= answer.check.foretold.high.kept
    assert answer.check.fits


def test_each_class_loses_what_it_lost(answer: Answer) -> None:
    assert answer.check is not None
    first = answer.check.foretold.groups[0]
    arrived = sum(b.groups[1] for b in answer.recording.judged)
    assert first.arrived == pytest.approx(arrived, rel=0.1)
    assert first.kept / first.arrived > answer.check.fact.kept  # it is shed last


def test_a_tighter_target_would_have_kept_less(answer: Answer) -> None:
    assert answer.check is not None
    assert answer.forecasts[0].outcome.kept < answer.check.foretold.outcome.kept
