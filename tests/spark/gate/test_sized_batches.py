"""Plans for the size of their own batch, resolved by the worker that pins them, on real streams."""

from __future__ import annotations

import importlib
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import headgate as hg
from headgate.settings import GateSettings
from headgate.spark.loop.loop import ControlLoop
from headgate.store.ledger.records import Record
from headgate.store.settings_file import SettingsFile
from tests.spark.conftest import records
from tests.spark.thinks_in_rows import ThinksInRows


def _rows(start: int, n: int) -> list[dict[str, Any]]:
    return [{"id": start + i, "route": f"r{i % 10}", "fare": float(i)} for i in range(n)]


def _gate(control: Path, **more: Any) -> Any:
    return hg.gate("sized", hold="1 minute", control=control, controller=ThinksInRows(), **more)


def _read(frame: Any, batch: int) -> None:
    frame.collect()


def _first_record(gated: Any, control: Path) -> Record:
    """What became of the first batch of a stream that goes on for ever."""
    writer = gated.writeStream.format("noop")
    query = writer.option("checkpointLocation", str(control.parent / "first")).start()
    try:
        while query.lastProgress is None:
            query.awaitTermination(0.1)
    finally:
        query.stop()
        ControlLoop.of(gated.sparkSession).drain()
    return records(control, "sized")[0]


@pytest.mark.matrix
def test_offsets_that_count_rows_are_known_from_the_first_batch(spark, control: Path, run_all) -> None:
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4000)
    stream = stream.option("startTimestamp", 0).option("advanceMillisPerBatch", 1000).load()
    writer = stream.transform(_gate(control)).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(control.parent / "c")).start()
    try:
        while query.lastProgress is None or query.lastProgress.batchId < 2:
            query.awaitTermination(0.2)
    finally:
        query.stop()
        ControlLoop.of(spark).drain()
    found = records(control, "sized")
    assert {(r.size.expected_rows, r.size.size_known_by) for r in found} == {(4000.0, "offsets")}
    assert {r.plan.default for r in found} == {0.25}
    assert all(800 < r.kept < 1200 and r.balanced for r in found)


def test_files_are_known_by_their_bytes_once_a_batch_has_shown_what_they_mean(
    file_stream, each_batch, control: Path
) -> None:
    stream = file_stream()
    sizes = [2000, 4000, 1200, 8000]
    for number, size in enumerate(sizes):
        stream.add(_rows(10_000 * number, size))
    each_batch(stream.frame().transform(_gate(control)), _read)
    found = records(control, "sized")
    assert [r.arrived for r in found] == sizes
    first, *others = found
    assert (first.plan.default, first.size.expected_rows) == (1.0, None), "nothing is known of bytes"
    assert all(r.size.size_known_by == "bytes" for r in others)
    assert [r.size.expected_rows for r in others] == pytest.approx(sizes[1:], rel=0.1)
    kept = [r.plan.default * r.arrived for r in others]
    assert kept == pytest.approx([1000, 1200, 1000], rel=0.12)


@pytest.mark.parametrize("which", ["classes", "groups"])
def test_other_policies_are_resolved_alike(file_stream, each_batch, control: Path, which: str) -> None:
    stream = file_stream()
    for number, size in enumerate([3000, 3000, 6000]):
        stream.add(_rows(10_000 * number, size))
    more = {"keep": "route = 'r0'"} if which == "classes" else {"policy": hg.ConceptDriven("route")}
    each_batch(stream.frame().transform(_gate(control, **more)), _read)
    last = records(control, "sized")[-1]
    assert last.size.expected_rows == pytest.approx(6000, rel=0.1)
    assert last.kept == pytest.approx(1000, rel=0.2), "not the share that a batch half its size needs"
    if which == "classes":
        assert last.plan.rate_of(1) == 1.0


@pytest.mark.every_spark
@pytest.mark.matrix
def test_a_replay_and_a_backfill_meet_the_resolved_plans(
    spark, file_stream, each_batch, control: Path, tmp_path: Path
) -> None:
    stream, kept = file_stream(), {}
    for number, size in enumerate([2000, 5000]):
        stream.add(_rows(10_000 * number, size))
    gated = stream.frame().transform(_gate(control, identity="id"))

    def write(frame: Any, batch: int) -> None:
        kept.setdefault(batch, []).append({row.id for row in frame.collect()})

    each_batch(gated, write)
    rates = {r.batch: r.plan.default for r in records(control, "sized")}
    assert rates[1] == pytest.approx(0.2, rel=0.1)
    (tmp_path / "checkpoint" / "commits" / "1").unlink()  # as if killed before it was over
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    each_batch(gated, write)
    first, again = kept[1]
    assert first == again
    assert {r.batch: r.plan.default for r in records(control, "sized")} == rates
    schema = "id bigint, route string, fare double"
    read = hg.file_rows(lambda paths: spark.read.schema(schema).json(paths), tmp_path / "checkpoint")
    shed = {row.id for row in hg.backfill(spark, "sized", control, read).collect()}
    assert not shed & first
    assert len(shed | kept[0][0] | first) == 7000


def test_a_checkpoint_of_another_query_is_told_and_not_used(
    file_stream, run_all, control: Path, tmp_path: Path
) -> None:
    stream = file_stream()
    for number in range(3):
        stream.add(_rows(10_000 * number, 2000))
    run_all(stream.frame().select(F.count("*")), "complete", checkpoint="another")
    run_all(stream.frame().transform(_gate(control, checkpoint=tmp_path / "another")))
    found = records(control, "sized")
    assert all("is of another query" in r.why for r in found)
    assert found[-1].size.expected_rows == pytest.approx(2000, rel=0.1), "the driver knows the right one"


def test_a_policy_that_cannot_travel_is_refused_at_the_call(file_stream, control: Path) -> None:
    class Locked(hg.Policy):
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def plan(self, budget: hg.Budget, groups: hg.GroupStats) -> hg.Plan:
            return hg.Plan(budget.keep)

    stream = file_stream()
    stream.add(_rows(0, 10))
    with pytest.raises(hg.BadArgument, match="cannot be sent to Spark's workers"):
        stream.frame().transform(_gate(control, policy=Locked()))


def test_what_people_changed_holds_for_the_first_batch_of_a_new_query(spark, control: Path) -> None:
    """The gate was switched off, and a first batch is far larger than `first_rows` lets through."""
    SettingsFile(control, "sized").declare(GateSettings(hold="1 second"))
    SettingsFile(control, "sized").change(mode="off")
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4000).load()
    gated = stream.transform(hg.gate("sized", hold="1 second", control=control, first_rows=100))
    assert _first_record(gated, control).shed == 0


def test_a_very_first_batch_is_bounded_and_that_is_said(
    spark, control: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4000).load()
    gated = stream.transform(hg.gate("sized", hold="10 seconds", control=control, first_rows=100))
    first = _first_record(gated, control)
    assert first.plan.default == pytest.approx(0.25)
    assert "keeps at most 1000 rows" in first.why
    assert "keeps at most 1000 rows" in caplog.text


def test_a_policy_that_is_a_plain_object_is_resolved_too(spark, control: Path) -> None:
    """Its text has an address in it, which is another one in a worker."""

    class Plain(hg.Policy):
        def plan(self, budget: hg.Budget, groups: hg.GroupStats) -> hg.Plan:
            return hg.Plan(budget.keep)

    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4000).load()
    assert _first_record(stream.transform(_gate(control, policy=Plain())), control).plan.default == 0.25


def test_a_policy_that_workers_cannot_import_is_refused_at_the_call(
    spark, file_stream, control: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text(
        "import headgate as hg\n"
        "class Mine(hg.Policy):\n"
        "    def plan(self, budget, groups):\n"
        "        return hg.Plan(budget.keep)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    mine = importlib.import_module("only_here").Mine()
    stream = file_stream()
    stream.add(_rows(0, 10))
    with pytest.raises(hg.WorkerError, match="only_here"):
        stream.frame().transform(_gate(control, policy=mine))
