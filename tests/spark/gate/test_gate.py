"""The gate on a real Spark: what it keeps, what it records."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import functions as F

import headgate as hg
from headgate.spark.gate.pin.plan_source import FORMAT
from headgate.store.ledger.audit import audit
from tests.spark.conftest import records

N = 3000


def _rows(start: int, n: int = N) -> list[dict[str, object]]:
    return [{"id": i, "route": f"r{i % 7}", "fare": i / 10} for i in range(start, start + n)]


@pytest.mark.every_spark
@pytest.mark.matrix
def test_a_fixed_rate_sheds_and_the_ledger_balances(file_stream, run_all, control: Path) -> None:
    stream = file_stream()
    for batch in range(3):
        stream.add(_rows(batch * N))
    gated = stream.frame().transform(hg.gate("rides", rate=0.25, control=control))
    out = run_all(gated)
    kept = records(control, "rides")
    assert [r.arrived for r in kept] == [N] * 3
    assert sum(r.kept for r in kept) == len(out)
    assert all(r.kept + r.shed == N for r in kept)
    assert 0.2 < len(out) / (3 * N) < 0.3
    assert {row["_weight"] for row in out} == {4.0}
    assert all(a.complete for a in audit(control))


@pytest.mark.every_spark
@pytest.mark.parametrize("keep", [None, "fare > 100"])
def test_a_batch_reads_its_plan_once(file_stream, control: Path, keep: str | None) -> None:
    stream = file_stream()
    stream.add(_rows(0))
    gated = stream.frame().transform(hg.gate("rides", rate=0.25, keep=keep, control=control))
    assert "_weight" in gated.columns, "the weight is made of the plan, too"
    query = gated.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    plan = query._jsq.explainInternal(False)
    assert f"BatchScan {FORMAT}" in plan
    # By number: what Spark adapts as it runs is printed as it was, too.
    assert len(set(re.findall(r"subquery#\d+, \[id=#(\d+)\]", plan))) == 1


def test_the_weights_estimate_what_arrived(file_stream, run_all, control: Path) -> None:
    stream = file_stream()
    stream.add(_rows(0, 20_000))
    out = run_all(stream.frame().transform(hg.gate("rides", rate=0.1, control=control)))
    assert sum(row["_weight"] for row in out) == pytest.approx(20_000, rel=0.1)


def test_a_lower_rate_keeps_a_subset(spark, file_stream, run_all, control: Path) -> None:
    stream = file_stream()
    stream.add(_rows(0))
    kept = {}
    for rate in (0.5, 0.2, 0.05):
        gated = stream.batch().transform(hg.gate("rides", rate=rate))
        kept[rate] = {row["id"] for row in gated.collect()}
    assert kept[0.05] < kept[0.2] < kept[0.5]
    streamed = run_all(stream.frame().transform(hg.gate("rides", rate=0.2, control=control)))
    assert {row["id"] for row in streamed} == kept[0.2], "stream and batch keep the same rows"


def test_windowed_aggregation_behind_the_gate_is_unchanged_without_overload(
    file_stream, run_all, control: Path
) -> None:
    stream = file_stream("id bigint, route string, fare double, at timestamp")
    rows = [
        {**r, "at": f"2026-01-01T00:{i // 60 % 60:02d}:{i % 60:02d}Z"} for i, r in enumerate(_rows(0))
    ]
    stream.add(rows)

    def query(frame):
        grouped = frame.withWatermark("at", "1 minute").groupBy(F.window("at", "10 minutes"), "route")
        return grouped.agg(F.sum("fare").alias("fare"), F.count("*").alias("n"))

    gated = stream.frame().transform(hg.gate("rides", hold="30 seconds", control=control))
    with_gate = run_all(query(gated), "complete", "with")
    without = run_all(query(stream.frame()), "complete", "without")
    assert sorted(map(tuple, with_gate)) == sorted(map(tuple, without))
    assert sum(r.shed for r in records(control, "rides")) == 0
