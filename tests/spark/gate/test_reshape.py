"""A batch that runs again after a redeploy: with the shape it began with, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

import headgate as hg
from headgate.spark.worker_errors import said_by_worker
from headgate.store.ledger.audit import audit
from tests.spark.conftest import records

N = 1000
SCHEMA = "id bigint, route string"


class Sink:
    """Notes the kept rows of each attempt, and fails as long as it is told to."""

    def __init__(self) -> None:
        self.broken = False
        self.attempts: list[tuple[int, set[int]]] = []

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.attempts.append((batch, {row.id for row in frame.collect()}))
        if self.broken:
            raise RuntimeError("the sink is away")


@pytest.fixture
def job(file_stream, each_batch) -> Any:
    stream = file_stream(SCHEMA)
    sink = Sink()

    def run(gate: Any, rows: int = 0, start: int = 0, broken: bool = False) -> Sink:
        if rows:
            stream.add([{"id": i, "route": f"r{i % 7}"} for i in range(start, start + rows)])
        sink.broken = broken
        each_batch(stream.frame().transform(gate), sink)
        return sink

    return run


CHANGES: list[dict[str, Any]] = [{"identity": ["id", "route"]}, {"seed": 5}, {"keep": "route = 'r1'"}]


@pytest.mark.parametrize("change", CHANGES)
def test_a_replay_under_another_shape_is_refused_and_the_former_one_goes_on(
    job, control: Path, change: dict[str, Any]
) -> None:
    given: dict[str, Any] = {"rate": 0.4, "identity": "id", "control": control}
    job(hg.gate("r", **given), rows=N)
    with pytest.raises(StreamingQueryException, match="away"):
        job(hg.gate("r", **given), rows=N, start=N, broken=True)
    with pytest.raises(StreamingQueryException) as refused:
        job(hg.gate("r", **{**given, **change}))
    (part,) = change
    text = said_by_worker(refused.value)
    assert text is not None
    assert text.startswith("gate 'r': batch 1 of query")
    assert "began under another shape" in text
    assert f"{part} was" in text
    assert "on_reshape" in text
    sink = job(hg.gate("r", **given))
    first, second = (kept for batch, kept in sink.attempts if batch == 1)
    assert first == second
    assert audit(control)[0].complete
    # And once the batch is through, the change is nobody's concern.
    sink = job(hg.gate("r", **{**given, **change}), rows=N, start=2 * N)
    assert [r.batch for r in records(control, "r")] == [0, 1, 2]
    assert len({r.shape for r in records(control, "r")}) == 2


def test_a_replay_that_is_accepted_is_recorded_as_it_was_judged(
    spark, job, control: Path, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"rate": 0.4, "identity": "id", "control": control}
    with pytest.raises(StreamingQueryException, match="away"):
        job(hg.gate("a", **given), rows=N, broken=True)
    sink = job(hg.gate("a", **{**given, "seed": 5, "on_reshape": "accept"}))
    (_, first), (_, second) = sink.attempts
    assert first != second
    load = lambda paths: spark.read.schema(SCHEMA).json(paths)  # noqa: E731
    reader = hg.file_rows(load, tmp_path / "checkpoint")
    shed = {row.id for row in hg.backfill(spark, "a", control, reader).collect()}
    assert shed == set(range(N)) - second


def test_a_plan_that_keeps_all_runs_again_under_any_shape(job, control: Path) -> None:
    with pytest.raises(StreamingQueryException, match="away"):
        job(hg.gate("k", rate=1.0, identity="id", control=control), rows=N, broken=True)
    sink = job(hg.gate("k", rate=1.0, seed=5, control=control))
    assert sink.attempts[0] == sink.attempts[1]


def test_on_reshape_is_one_of_two() -> None:
    with pytest.raises(hg.BadArgument, match="'refuse' or 'accept'"):
        hg.gate("k", rate=1.0, on_reshape="ignore")
