"""The gate in front of every kind of query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import headgate as hg
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.audit import audit
from headgate.store.ledger.records import Record, queries_of
from tests.eventually import eventually
from tests.spark.conftest import forget_last_commit, records
from tests.spark.thinks_in_rows import ThinksInRows

SCHEMA = "id bigint, route string, fare double, at timestamp"


def _rows(start: int, n: int = 1000) -> list[dict[str, object]]:
    return [
        {
            "id": i,
            "route": f"r{i % 7}",
            "fare": 1.0,
            "at": f"2026-01-01T00:{i // 60 % 60:02d}:{i % 60:02d}Z",
        }
        for i in range(start, start + n)
    ]


def test_deduplication_keeps_one_of_each_kept_row(file_stream, run_all, control: Path) -> None:
    stream = file_stream(SCHEMA)
    stream.add(_rows(0))
    stream.add(_rows(0))
    gated = stream.frame().transform(hg.gate("dedup", rate=0.5, control=control))
    out = run_all(gated.withWatermark("at", "1 hour").dropDuplicates(["id", "at"]))
    first, second = records(control, "dedup")[:2]
    assert first.kept == second.kept == len(out), "a row and its duplicate share a fate"


def test_stream_stream_join_with_a_gate_on_each_side(file_stream, run_all, control: Path) -> None:
    left, right = file_stream(SCHEMA, "left"), file_stream(SCHEMA, "right")
    left.add(_rows(0))
    right.add(_rows(0))
    a = left.frame().transform(hg.gate("left", rate=0.5, control=control, identity="id", seed=5))
    b = right.frame().transform(hg.gate("right", rate=0.5, control=control, identity="id", seed=5))
    a = a.withWatermark("at", "1 hour").select("id", F.col("at").alias("a_at"), "_weight")
    b = b.withWatermark("at", "1 hour").select(F.col("id").alias("b_id"), F.col("at").alias("b_at"))
    joined = a.join(b, F.expr("id = b_id and b_at between a_at and a_at + interval 1 minute"))
    out = run_all(joined)
    kept = {side: records(control, side)[0].kept for side in ("left", "right")}
    assert len(out) == kept["left"] == kept["right"], (
        "one identity and one seed keep both halves of each pair"
    )
    assert all(x.complete for x in audit(control))


def test_several_gates_in_one_query_each_balance(file_stream, run_all, control: Path) -> None:
    stream = file_stream(SCHEMA)
    stream.add(_rows(0, 4000))
    frame = stream.frame().transform(hg.gate("outer", rate=0.5, control=control))
    frame = frame.where("fare > 0").transform(hg.gate("inner", rate=0.5, control=control))
    out = run_all(frame)
    (outer,), (inner,) = records(control, "outer"), records(control, "inner")
    assert (outer.arrived, inner.arrived) == (4000, outer.kept)
    assert inner.kept == len(out)
    assert {row["_weight"] for row in out} == {4.0}


@pytest.mark.every_spark
@pytest.mark.matrix
def test_foreach_batch_sinks_see_gated_rows(spark, file_stream, control: Path, tmp_path: Path) -> None:
    stream = file_stream(SCHEMA)
    stream.add(_rows(0, 2000))
    seen: list[int] = []
    gated = stream.frame().transform(hg.gate("each", rate=0.5, control=control))
    query = (
        gated.writeStream.foreachBatch(lambda frame, _: seen.append(frame.count()))
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    ControlLoop.of(spark).drain()
    assert sum(seen) == sum(r.kept for r in records(control, "each"))


@pytest.mark.matrix
def test_rate_source_with_a_processing_time_trigger(spark, control: Path) -> None:
    stream = spark.readStream.format("rate").option("rowsPerSecond", 500).load()
    gated = stream.transform(hg.gate("rate", hold="20 seconds", arrival="timestamp", control=control))

    def two_batches() -> list[Record]:
        ControlLoop.of(spark).drain()
        found = records(control, "rate") if queries_of(control, "rate") else []
        arrived = [r for r in found if r.arrived]
        return arrived if len(arrived) >= 2 else []

    query = gated.writeStream.format("noop").trigger(processingTime="500 milliseconds").start()
    try:
        done = eventually(two_batches, "two batches")
    finally:
        query.stop()
    assert all(r.shed == 0 and r.balanced for r in done)
    assert all(0 < r.delay_s < 60 for r in done)
    assert done[-1].size.size_known_by == "steps", "seconds, as its offsets count"


@pytest.mark.parametrize("source", ["rate", "rate-micro-batch"])
def test_a_batch_of_a_rate_source_that_runs_again_keeps_the_same_rows(
    spark, each_batch, control: Path, tmp_path: Path, source: str
) -> None:
    size = {"rate": "rowsPerSecond", "rate-micro-batch": "rowsPerBatch"}[source]
    stream = spark.readStream.format(source).option(size, 300).load()
    gated = stream.transform(hg.gate("again", rate=0.5, identity="value", control=control))
    kept: dict[int, list[list[Any]]] = {}

    def write(frame: Any, batch: int) -> None:
        kept.setdefault(batch, []).append(sorted(map(tuple, frame.collect())))

    def two_batches() -> bool:
        each_batch(gated, write)  # of rate: the rows of the seconds since the last time
        return sum(bool(tries[0]) for tries in kept.values()) >= 2

    eventually(two_batches, "two batches with rows")
    last = forget_last_commit(tmp_path / "checkpoint")
    each_batch(gated, write)
    first, again = kept[last]
    assert first == again
    assert len(first) > 50, "there are rows"
    assert all(x.complete for x in audit(control))


@dataclass(frozen=True)
class _Notes(ThinksInRows):
    """Writes down which batches it is told were planned before a restart."""

    told: list[tuple[int, bool]] = field(default_factory=list)

    def build(self, snapshot: Mapping[str, Any] | None = None) -> hg.Controller:
        inner, told = super().build(snapshot), self.told

        class Noting(hg.Controller):
            def opening(self, now: float) -> hg.Budget:
                return inner.opening(now)

            def decide(self, sample: hg.LoadSample) -> hg.Budget:
                told.append((sample.batch_id, sample.planned_before))
                return inner.decide(sample)

            def snapshot(self) -> Mapping[str, Any]:
                return inner.snapshot()

        return Noting()


@pytest.mark.every_spark
@pytest.mark.matrix
@pytest.mark.parametrize("source", ["rate-micro-batch", "files"])
def test_a_controller_is_told_which_batch_was_planned_before_a_restart(
    spark, file_stream, each_batch, control: Path, tmp_path: Path, source: str
) -> None:
    told: list[tuple[int, bool]] = []
    if source == "files":
        files = file_stream(SCHEMA)
        for number in range(4):
            files.add(_rows(1000 * number))
        stream = files.frame()
    else:
        stream = spark.readStream.format(source).option("rowsPerBatch", 300).load()
    gated = stream.transform(
        hg.gate("noted", hold="1 minute", controller=_Notes(told=told), control=control)
    )

    def write(frame: Any, batch: int) -> None:
        frame.collect()

    each_batch(gated, write)
    last = forget_last_commit(tmp_path / "checkpoint")
    assert told
    assert not any(before for _, before in told)
    told.clear()
    each_batch(gated, write)
    assert told[0] == (last, True)
    assert not any(before for _, before in told[1:])


def test_empty_batches_and_empty_files(file_stream, run_all, control: Path) -> None:
    stream = file_stream(SCHEMA)
    stream.add([])
    stream.add(_rows(0, 10))
    stream.add([])
    out = run_all(stream.frame().transform(hg.gate("empty", rate=0.5, control=control)))
    assert all(a.complete for a in audit(control))
    assert sum(r.kept for r in records(control, "empty")) == len(out)


@pytest.mark.matrix
def test_value_classes_shed_nothing_of_the_best_while_others_remain(
    file_stream, run_all, control: Path
) -> None:
    stream = file_stream(SCHEMA)
    for i in range(3):
        stream.add(_rows(i * 7000, 7000))
    gate = hg.gate("value", rate=0.4, control=control, keep="route = 'r0'")
    out = run_all(stream.frame().transform(gate))
    best = [row for row in out if row["route"] == "r0"]
    assert len(best) == 3000
    assert {row["_weight"] for row in best} == {1.0}
    last = records(control, "value")[-1]
    assert last.found.groups == {"1": 1000}
    assert last.kept / last.arrived == pytest.approx(0.4, abs=0.03), (
        "the budget is met with the class in it"
    )


@pytest.mark.matrix
def test_group_rates_apply_to_named_groups_only(file_stream, run_all, control: Path) -> None:
    stream = file_stream(SCHEMA)
    stream.add([*_rows(0, 7000), {"id": 9, "route": None, "fare": 1.0, "at": None}])
    policy = hg.GroupRates("route", {"r1": 0.1, None: 0.5, "nowhere": 0.2})
    out = run_all(stream.frame().transform(hg.gate("g", rate=1.0, policy=policy, control=control)))
    by_route: dict[object, int] = {}
    for row in out:
        by_route[row["route"]] = by_route.get(row["route"], 0) + 1
    assert 50 < by_route.pop("r1") < 160
    by_route.pop(None, None)
    assert set(by_route.values()) == {1000}
    (record,) = records(control, "g")
    assert record.balanced
    assert len(record.plan.exceptions) == 3


def test_monitor_mode_counts_the_named_groups(file_stream, run_all, control: Path) -> None:
    stream = file_stream(SCHEMA)
    stream.add([*_rows(0, 7000), {"id": 9, "route": None, "fare": 1.0, "at": None}])
    policy = hg.GroupRates("route", {"r1": 0.1, None: 0.4, "nowhere": 0.2})
    gate = hg.gate("g", rate=1.0, policy=policy, control=control, mode="monitor")
    assert len(run_all(stream.frame().transform(gate))) == 7001
    (record,) = records(control, "g")
    assert (record.shed, record.would_shed) == (0, 901)


def test_group_rates_on_a_batch_keep_the_same_rows(file_stream, run_all, control: Path) -> None:
    stream = file_stream(SCHEMA)
    stream.add(_rows(0, 3000))
    policy = hg.GroupRates(("route", "fare"), {("r1", 1.0): 0.2})
    streamed = run_all(stream.frame().transform(hg.gate("g", rate=0.5, policy=policy, control=control)))
    batch = stream.batch().transform(hg.gate("g", rate=0.5, policy=policy)).collect()
    assert {(r.id, r._weight) for r in streamed} == {(r.id, r._weight) for r in batch}
