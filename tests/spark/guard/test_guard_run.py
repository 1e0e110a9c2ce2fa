"""The driver's side of a guard, with reports that no Spark made."""

from __future__ import annotations

from pathlib import Path

from headgate.core.load import LoadSample
from headgate.guards.inline_policy import InlinePolicy
from headgate.guards.targets import average
from headgate.spark.guard.meter import GuardReport
from headgate.spark.guard.run import GuardRun, GuardSpec


def _record(control: Path, query: str, target: str):
    outcomes = {"kept": 700, "failed": 0, "price": 300, "dead_letter": 0}
    run = GuardRun(GuardSpec("enrich", control, InlinePolicy("balanced", average(target))), query)
    record = run.handle(
        GuardReport(query=query, sample=LoadSample(0, 1000.0, 1.5, 1000, 700), outcomes=outcomes)
    )
    assert record is not None
    return record


def test_a_record_says_what_was_dropped_and_how_long_rows_might_wait(control: Path) -> None:
    record = _record(control, "q1", "1 second")
    assert (record.kind, record.arrived, record.kept, record.shed) == ("guard", 1000, 700, 300)
    assert record.balanced
    assert record.found.groups == {"price": 300}
    assert (record.target.target_s, record.target.target_of) == (1.0, "queue")
    later = _record(control, "q2", "3 seconds")  # the code was changed, and the query started again
    assert later.target.target_s == 3.0
