"""A gate in a query has one owner: other gates of its name, other drivers, and the end of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

import headgate as hg
from headgate.run.spec import Spec
from headgate.spark.loop.loop import ControlLoop
from headgate.spark.worker_errors import said_by_worker
from headgate.store.lease import Holder, Lease, this_process
from headgate.store.ledger.records import Ledger, queries_of
from headgate.store.plans import PlanStore
from headgate.store.settings_file import SettingsFile
from tests.eventually import eventually
from tests.spark.conftest import records
from tests.spark.gate.test_live import _rows

N = 2000
ROME = Holder("rome-driver", host="rome", boot="b", pid=7, pid_started="1")


def _handled(spark: Any, control: Path, query: Any, batches: int) -> None:
    def look() -> bool:
        ControlLoop.of(spark).drain()
        return len(Ledger(control, "g", query.id).records()) >= batches

    eventually(look, f"{batches} batches of query {query.id} in the ledger")


def _recorded(spark: Any, control: Path, batches: int) -> None:
    def look() -> bool:
        ControlLoop.of(spark).drain()
        return bool(queries_of(control, "g")) and len(records(control, "g")) >= batches

    eventually(look, f"{batches} batches in the ledger")


def _ran_once(spark: Any, file_stream: Any, control: Path, start: Any) -> tuple[Any, DataFrame, Any]:
    """A stream, a frame behind a gate, and a query of it that has run one batch and was stopped."""
    stream = file_stream()
    stream.add(_rows(0))
    frame = stream.frame().transform(hg.gate("g", rate=0.5, control=control))
    query = start(frame)
    _recorded(spark, control, 1)
    query.stop()
    ControlLoop.of(spark).drain()
    return stream, frame, query


def test_a_second_gate_of_the_name_is_refused_while_the_first_one_runs(
    spark: Any, file_stream: Any, control: Path, start: Any
) -> None:
    stream = file_stream()
    stream.add(_rows(0))
    vip = hg.gate("g", rate=0.1, keep="id < 100", control=control)
    query = start(stream.frame().transform(vip))
    _recorded(spark, control, 1)
    with pytest.raises(hg.BadArgument, match=r"gate 'g' is running in query .*another name, or stop"):
        stream.frame().transform(hg.gate("g", rate=0.9, control=control))
    assert SettingsFile(control, "g").declared().rate == 0.1, "a refused call declares nothing"
    stream.frame().transform(vip)  # the same gate once more is the same gate
    stream.add(_rows(0))
    _recorded(spark, control, 2)
    assert [r.plan.rate_of(1) for r in records(control, "g")] == [1.0, 1.0], "the first has its policy"
    query.stop()
    ControlLoop.of(spark).drain()
    stream.frame().transform(hg.gate("g", rate=0.1, control=control))


def test_gates_of_one_name_that_were_made_before_either_ran_keep_their_own_policies(
    spark: Any, file_stream: Any, control: Path, start: Any
) -> None:
    stream, other = file_stream(), file_stream(name="other")
    for each in (stream, other):
        each.add(_rows(0))
    first = stream.frame().transform(hg.gate("g", rate=0.1, keep="id % 20 = 0", control=control))
    second = other.frame().transform(hg.gate("g", rate=0.5, keep="id % 20 = 1", control=control))
    queries = start(first), start(second, "checkpoint of the other")
    for batches in (1, 2, 3):  # the first meets an opening, the others what the loop publishes
        for query in queries:
            _handled(spark, control, query, batches)
        for each in (stream, other):
            each.add(_rows(0))
    for query, rate in zip(queries, (0.1, 0.5), strict=True):
        for record in Ledger(control, "g", query.id).records().values():
            assert record.plan.rate_of(1) == 1.0, (rate, record)
            assert record.kept == pytest.approx(rate * N, abs=150)
        assert query.isActive


def test_a_query_that_begins_again_meets_its_own_policy_though_a_namesake_was_made_since(
    spark: Any, file_stream: Any, control: Path, start: Any
) -> None:
    stream = file_stream()
    stream.add(_rows(0))
    frame = stream.frame().transform(hg.gate("g", rate=0.5, keep="id < 200", control=control))
    file_stream(name="other").frame().transform(hg.gate("g", rate=0.1, control=control))
    for batches in (1, 2):
        query = start(frame)
        _handled(spark, control, query, batches)
        query.stop()
        ControlLoop.of(spark).drain()
        stream.add(_rows(0))
    assert [(r.plan.rate_of(1), r.mode) for r in records(control, "g")] == [(1.0, "shed")] * 2


def test_gates_of_one_name_in_two_control_folders_are_both_steered(
    spark: Any, file_stream: Any, control: Path, tmp_path: Path, start: Any
) -> None:
    stream = file_stream()
    stream.add(_rows(0))
    frame = stream.frame().transform(hg.gate("g", rate=0.5, control=control))
    stream.frame().transform(hg.gate("g", rate=0.5, control=tmp_path / "two"))
    query = start(frame)
    _handled(spark, control, query, 1)
    lease = PlanStore(control, "g", query.id).lease
    before = lease.holder().beat  # type: ignore[union-attr]
    eventually(lambda: lease.holder().beat > before, "a heartbeat")  # type: ignore[union-attr]


def test_a_lease_lives_with_its_query_and_ends_with_it(
    spark: Any, file_stream: Any, control: Path, start: Any
) -> None:
    stream = file_stream()
    stream.add(_rows(0))
    query = start(stream.frame().transform(hg.gate("g", rate=0.5, control=control)))
    _recorded(spark, control, 1)
    lease = PlanStore(control, "g", query.id).lease

    def beats() -> int:
        holder = lease.holder()
        assert holder is not None
        assert holder.owner == this_process().owner
        assert holder.run == str(query.runId)
        return holder.beat

    before = beats()
    eventually(lambda: beats() > before, "a heartbeat")
    query.stop()
    eventually(lambda: lease.holder().released, "the lease given back")  # type: ignore[union-attr]
    assert not lease.alive()


class CannotBeOpened(Spec):
    """Something of the session's that fails whenever a query begins."""

    def open(self, query: str) -> Any:
        raise RuntimeError("cannot be opened")


def test_one_that_cannot_be_opened_takes_no_other_ones_heartbeat(
    spark: Any, file_stream: Any, control: Path, start: Any
) -> None:
    stream, frame, first = _ran_once(spark, file_stream, control, start)
    loop = ControlLoop.of(spark)
    PlanStore(control, "broken", first.id).folder.mkdir(parents=True)
    loop.register(CannotBeOpened("broken", control))
    try:
        stream.add(_rows(N))
        second = start(frame)
        _recorded(spark, control, 2)
        lease = PlanStore(control, "g", second.id).lease
        before = lease.holder().beat  # type: ignore[union-attr]
        eventually(lambda: lease.holder().beat > before, "a heartbeat")  # type: ignore[union-attr]
    finally:
        del loop.specs._of_name["broken"]


@pytest.fixture
def lives_in_rome(control: Path) -> Iterator[Callable[[str], None]]:
    """Another driver holds the lease of a query, and beats."""
    ended = threading.Event()
    threads = []

    def begin(query: str) -> None:
        lease = Lease(PlanStore(control, "g", query).folder)
        assert lease.beat(ROME), "the last holder gave it back"

        def beat() -> None:
            while not ended.wait(0.5):
                lease.beat(ROME)

        threads.append(threading.Thread(target=beat))
        threads[-1].start()

    yield begin
    ended.set()
    for thread in threads:
        thread.join()


def test_a_second_driver_of_a_query_is_refused_while_the_first_one_lives(
    spark: Any, file_stream: Any, control: Path, start: Any, lives_in_rome: Any
) -> None:
    stream, frame, first = _ran_once(spark, file_stream, control, start)
    lives_in_rome(first.id)
    stream.add(_rows(N))
    second = start(frame)
    with pytest.raises(StreamingQueryException):
        second.awaitTermination(60)
    said = said_by_worker(second.exception())
    assert said is not None
    assert "steered by process 7 on rome, which is alive" in said
    assert len(records(control, "g")) == 1, "nothing was written into the other one's books"
