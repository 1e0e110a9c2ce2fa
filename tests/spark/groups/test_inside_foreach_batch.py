"""`ConceptDriven` inside `foreachBatch`: two native passes, and books that say what was processed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.spark.loop.loop import ControlLoop
from tests.spark.conftest import records
from tests.spark.groups.skewed_rides import SCHEMA, filled
from tests.spark.groups.skewed_rides import policy as _policy


@pytest.mark.matrix
def test_a_target_holds_inside_foreach_batch_with_two_native_passes(
    spark, file_stream, control: Path, tmp_path: Path
) -> None:
    """It asks for a tenth once the run has started up; the ledger counts what was processed."""
    seen: dict[int, list[Any]] = {}
    gate = hg.gate("fares", policy=_policy(), hold="1 millisecond", control=control, min_keep=0.1)

    def process(frame: Any, batch: int) -> None:
        ControlLoop.of(spark).drain()
        seen[batch] = frame.transform(gate).collect()

    rides = filled(file_stream(SCHEMA), batches=4)
    writer = rides.frame().writeStream.foreachBatch(process)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()
    ControlLoop.of(spark).drain()
    found = {r.batch: r for r in records(control, "fares")}
    assert sorted(found) == sorted(seen) == [0, 1, 2, 3]
    for batch, record in found.items():
        assert (record.arrived, record.kept) == (1994, len(seen[batch]))
        assert record.balanced
        assert sum(row["_weight"] for row in seen[batch]) == pytest.approx(1994, abs=0.1)
    assert found[0].shed == 0
    # The third batch brings what came while a start lasted: on a fast machine it runs whole, too.
    assert found[3].kept == pytest.approx(0.1 * 1994, rel=0.1)
    assert found[3].found.measures["groups"] == 10
    load = lambda paths: spark.read.schema(SCHEMA).json(paths)  # noqa: E731
    shed = hg.backfill(spark, "fares", control, hg.file_rows(load, tmp_path / "checkpoint")).collect()
    kept = {row["id"] for rows in seen.values() for row in rows}
    assert {row["id"] for row in shed} == {r["id"] for r in rides.batch().collect()} - kept


@pytest.mark.parametrize("given", [{"rate": 0.1}, {}], ids=["rate", "accuracy"])
def test_every_gate_with_a_control_folder_keeps_books_inside_foreach_batch(
    spark, file_stream, control: Path, tmp_path: Path, given: Any
) -> None:
    rides = filled(file_stream(SCHEMA), batches=2)
    policy = _policy() if given else _policy(accuracy=hg.Accuracy("fare", within=0.3))
    gate = hg.gate("fares", policy=policy, control=control, **given)
    seen: dict[int, int] = {}

    def process(frame: Any, batch: int) -> None:
        calm = frame.transform(gate)
        assert not calm.isEmpty()  # the first action only looks, and must not be taken for the batch
        seen[batch] = calm.count()

    writer = rides.frame().writeStream.foreachBatch(process)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()
    ControlLoop.of(spark).drain()
    found = records(control, "fares")
    assert [r.arrived for r in found] == [1994] * 2
    for record in found:
        # A little off where only the first action, which looked at some rows, could be counted.
        assert record.kept == pytest.approx(seen[record.batch], rel=0.35)
        assert 0 < record.kept < 1994


def test_threads_inside_foreach_batch_do_not_kill_the_query(
    file_stream, control: Path, tmp_path: Path
) -> None:
    """A plain thread does not say which batch it works for: the gate fails open, and says so."""
    rides = filled(file_stream(SCHEMA), batches=2)
    calm = rides.frame().transform(hg.gate("fares", policy=_policy(), rate=0.1, control=control))
    seen: dict[int, int] = {}

    def process(frame: Any, batch: int) -> None:
        worker = threading.Thread(target=lambda: seen.update({batch: frame.count()}))
        worker.start()
        worker.join()

    writer = calm.writeStream.foreachBatch(process)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()
    assert sorted(seen) == [0, 1]
