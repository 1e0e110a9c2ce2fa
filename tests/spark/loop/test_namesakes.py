"""Guards, joins and meters of results of one name: each query follows what its own frame says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

import headgate as hg
from headgate.sketches.keys import stable_key
from headgate.spark.guard.memory import GuardMemory
from headgate.spark.join.call import ROCKSDB
from headgate.spark.loop.loop import ControlLoop
from headgate.spark.worker_errors import said_by_worker
from headgate.store.lease import Holder, this_process
from headgate.store.ledger.records import queries_of
from headgate.store.plans import PlanStore
from headgate.store.settings_file import SettingsFile
from tests.eventually import eventually
from tests.harness.late_worker import run_stateful
from tests.spark.conftest import records
from tests.spark.gate.test_live import _rows

SCHEMA = "id bigint, at timestamp"
AT = "2030-01-01 00:00:00"


def _same(row: Any) -> tuple[int]:
    return (row.id,)


def _some(start: int) -> list[dict[str, Any]]:
    return [{"id": i, "at": AT} for i in range(start, start + 20)]


def _guard(stream: Any, control: Path, target: str) -> Any:
    return hg.guard(
        stream.frame(), _same, schema="id bigint", key="id", arrival="at", target=hg.average(target),
        control=control, name="g",
    )  # fmt: skip


def test_guards_that_were_made_before_either_ran_keep_their_own_targets(
    spark: Any, file_stream: Any, control: Path, start: Any
) -> None:
    stream = file_stream(SCHEMA)
    stream.add(_some(0))
    frames = [_guard(stream, control, target) for target in ("3 seconds", "7 seconds")]
    queries = [start(frame, f"checkpoint-{place}") for place, frame in enumerate(frames)]
    for query in queries:
        query.processAllAvailable()
    loop = ControlLoop.of(spark)
    loop.drain()
    running: Any = loop.folders.worker(control).running()
    targets = [running["g", str(query.id)].policy.target.tau_s for query in queries]
    assert targets == [3.0, 7.0]
    with pytest.raises(hg.BadArgument, match="gate 'g' is running in query"):
        _guard(stream, control, "9 seconds")


def test_guards_of_one_name_that_run_at_once_learn_each_from_its_own_rows(
    spark: Any, file_stream: Any, control: Path, start: Any
) -> None:
    streams = [file_stream(SCHEMA, name) for name in ("one", "other")]
    targets = ("3 seconds", "7 seconds")
    frames = [_guard(stream, control, each) for stream, each in zip(streams, targets, strict=True)]
    queries = [start(frame, f"checkpoint-{place}") for place, frame in enumerate(frames)]
    for _ in range(2):
        for place, stream in enumerate(streams):
            stream.add(_some(1000 * place))  # the same rows again: what is learned adds up
        for query in queries:
            query.processAllAvailable()
        ControlLoop.of(spark).drain()
    running: Any = ControlLoop.of(spark).folders.worker(control).running()
    for place, query in enumerate(queries):
        spec = running["g", str(query.id)]
        memory = GuardMemory(control, "g", spec.policy, spec.number, this_process().owner)
        costs = memory.costs(str(query.id), 2)
        known = [costs.frequency(stable_key(1000 * which)) for which in (0, 1)]
        assert known[place] == 2.0
        assert known[1 - place] == 0.0, "what the namesake's rows cost"


def test_two_guards_of_one_name_in_a_union_are_refused_in_our_words(
    file_stream: Any, run_all: Any, control: Path
) -> None:
    stream, other = file_stream(SCHEMA), file_stream(SCHEMA, "other")
    for each in (stream, other):
        each.add(_some(0))
    frames = [_guard(each, control, "3 seconds") for each in (stream, other)]
    with pytest.raises(StreamingQueryException) as error:
        run_all(frames[0].unionByName(frames[1]))
    assert (said_by_worker(error.value) or "").startswith("guard 'g' is twice in query"), error.value


@pytest.fixture
def rocksdb(spark: Any) -> Iterator[None]:
    before = spark.conf.get(ROCKSDB[0])
    spark.conf.set(*ROCKSDB)
    yield
    spark.conf.set(ROCKSDB[0], before)


def _join(streams: list[Any], control: Path, budget: float) -> Any:
    left, right = (stream.frame().withWatermark("at", "1 minute") for stream in streams)
    return hg.join(
        left, right, on=hg.equal("id"), within="10 seconds", time="at", budget=budget, control=control
    )


@pytest.mark.usefixtures("rocksdb")
def test_a_join_follows_its_own_budget_though_a_namesake_was_made_since(
    spark: Any, file_stream: Any, control: Path, tmp_path: Path
) -> None:
    streams = [file_stream(SCHEMA, side) for side in ("left", "right")]
    first, second = (_join(streams, control, budget) for budget in (1000.0, 4000.0))
    assert SettingsFile(control, "join").declared() is not None
    writer = first.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "cp"))
    for stream in streams:
        stream.add(_some(0))
    query = run_stateful(writer.start, tmp_path / "cp", lambda query: query.processAllAvailable())
    try:
        for batch in range(2):  # the first meets an opening, the other one what the loop publishes
            for stream in streams if batch else []:
                stream.add(_some(20 * batch))
            query.processAllAvailable()
            ControlLoop.of(spark).drain()
        found = [r.plan.work for r in records(control, "join")]
        assert len(found) >= 2
        (work,) = set(found)
        assert work is not None
        running: Any = ControlLoop.of(spark).folders.worker(control).running()
        assert running["join", str(query.id)].fixed_work == work.units
        del second
        with pytest.raises(hg.BadArgument, match="gate 'join' is running in query"):
            _join(streams, control, 9000.0)
    finally:
        query.stop()
        ControlLoop.of(spark).drain()


def test_results_go_to_the_site_whose_meter_measured_them(
    spark: Any, file_stream: Any, tmp_path: Path
) -> None:
    stream = file_stream()
    stream.add(_rows(0))
    sites = [
        hg.Site(spark, name, control=tmp_path / name, stw="100 seconds", hold="30 seconds")
        for name in ("rome", "oslo")
    ]
    try:
        frames = [
            stream.frame().withColumn("_sic", F.lit(0.001)).transform(site.result("q")) for site in sites
        ]
        writer = frames[0].writeStream.format("noop").option("checkpointLocation", str(tmp_path / "cp"))
        writer.trigger(availableNow=True).start().awaitTermination()
        ControlLoop.of(spark).drain()
        seen = []
        for site in sites:
            with site._shared as allocator:
                seen.append(allocator.state.accounts["q"].results)
        amounts = [0.0 if one is None else sum(a for _, a in one._batches) for one in seen]
        assert amounts == pytest.approx([2.0, 0.0])
    finally:
        for site in sites:
            site.stop()


def test_a_job_group_that_a_persons_code_set_is_not_taken_for_a_run(
    spark: Any, file_stream: Any, control: Path, tmp_path: Path
) -> None:
    """It names the jobs of the batch, and with them the tasks that begin the lease."""
    stream = file_stream(SCHEMA)
    stream.add(_some(0))

    def act(frame: Any, batch: int) -> None:
        frame.sparkSession.sparkContext.setJobGroup("nightly report", "a name of one's own")
        frame.count()

    writer = _guard(stream, control, "3 seconds").writeStream.foreachBatch(act)
    query = writer.option("checkpointLocation", str(tmp_path / "cp")).start()
    try:
        query.processAllAvailable()
        lease = PlanStore(control, "g", str(query.id)).lease
        assert _holder(lease).run == "", "nobody can tell the run from the job group"
    finally:
        query.stop()
    ControlLoop.of(spark).drain()
    eventually(lambda: _holder(lease).released, "the lease given back")
    assert queries_of(control, "g") == [str(query.id)]


def _holder(lease: Any) -> Holder:
    holder: Holder | None = lease.holder()
    assert holder is not None
    return holder
