"""Sites on a real Spark: what rows are worth, who is heard, bad use, replays and restarts."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import headgate as hg
from headgate.core.row_budget import RowBudget
from headgate.sites.controller import SiteShareController
from headgate.sites.service.history import History
from headgate.spark.loop.loop import ControlLoop
from headgate.spark.loop.task_times import TaskTimes
from headgate.store.ledger.audit import audit
from tests.eventually import eventually
from tests.spark.conftest import records

N = 400
#: Ten rows a second for a window of 100 seconds: a row is worth 1 / (1000 x |S|), if 400 come in half a
#: minute (the target, which stands in for the spacing of the first batch) or faster.
AGREED = {"agreed": 10.0}


def _rows(start: int, n: int = N) -> list[dict[str, object]]:
    return [{"id": i, "route": f"r{i % 7}", "fare": i / 10} for i in range(start, start + n)]


@pytest.fixture
def open_site(spark, control: Path) -> Iterator[Callable[..., hg.Site]]:
    with contextlib.ExitStack() as stack:

        def make(name: str = "rome", **given: Any) -> hg.Site:
            values = {"control": control, "stw": "100 seconds", "hold": "30 seconds"} | given
            return stack.enter_context(hg.Site(spark, name, **values))

        yield make


class Steps:
    """A query that collects what each batch brought, one file after the other."""

    def __init__(self, spark, frame, checkpoint: Path, stream) -> None:
        self._spark, self._stream = spark, stream
        #: By batch: what each run of it brought.
        self.runs: dict[int, list[list[Any]]] = {}
        writer = frame.writeStream.option("checkpointLocation", str(checkpoint))
        self.query = writer.foreachBatch(self._take).start()

    def _take(self, frame, batch: int) -> None:
        found = sorted(map(tuple, frame.select("id", "_sic", "_weight").collect()))
        self.runs.setdefault(batch, []).append(found)

    def add(self, rows: list[dict[str, object]]) -> None:
        """One more batch, and its report."""
        self._stream.add(rows)
        self.settle()

    def settle(self) -> None:
        self.query.processAllAvailable()
        ControlLoop.of(self._spark).drain()

    def worth(self, batch: int) -> list[float]:
        """What rows of a batch are worth, each amount once."""
        return sorted({sic for _, sic, _ in self.runs[batch][-1]})


@pytest.fixture
def steps(spark, tmp_path: Path) -> Iterator[Callable[..., Steps]]:
    made: list[Steps] = []

    def make(frame, stream, checkpoint: str = "checkpoint") -> Steps:
        made.append(Steps(spark, frame, tmp_path / checkpoint, stream))
        return made[-1]

    yield make
    for one in made:
        one.query.stop()


@pytest.mark.every_spark
@pytest.mark.matrix
def test_rows_get_what_they_are_worth_and_results_are_measured(
    spark, open_site, file_stream, steps, control: Path
) -> None:
    site, stream = open_site(), file_stream()
    site.query("load", sources=["rome-cpu", "oslo-cpu"], weight=2.0)
    gated = stream.frame().transform(site.gate("cpu", query="load", source="rome-cpu", **AGREED))
    assert set(gated.columns) == {"id", "route", "fare", "_weight", "_sic"}
    run = steps(gated.transform(site.result("load")), stream)
    for batch in range(4):
        run.add(_rows(batch * N))
    assert run.worth(0) == [0.0], "nobody knows how many come"
    each = 1.0 / (1000 * 2)
    for batch in range(1, 4):
        assert run.worth(batch) == pytest.approx([each])
        assert len(run.runs[batch][-1]) == N, "idle: nothing is shed"
    kept = records(control, "cpu")
    assert [r.arrived for r in kept] == [N] * 4
    assert [r.plan.sic for r in kept][1:] == pytest.approx([each] * 3)
    assert all(a.complete for a in audit(control))
    status = site.status()
    view = status["queries"]["load"]
    assert (view["told_by"], view["root"], view["sources"], view["weight"]) == ("result", True, 2, 2.0)
    measured = site._shared._allocator.state.accounts["load"].results
    assert measured is not None
    assert sum(amount for _, amount in measured._batches) == pytest.approx(3 * N * each)
    accepted = site._shared._allocator.state.gates["cpu"].accepted
    assert sum(amount for _, amount in accepted._batches) == pytest.approx(3 * N * each)
    assert site.sic["load"] == pytest.approx(view["sic"], rel=0.5)
    (of,) = status["streams"].values()
    assert 0.0 < of["per_row_s"] < 1.0, "task time was measured"
    site.stop()
    assert list(History(site.folder / "sic.jsonl").lines())[-1]["queries"]["load"]["told_by"] == "result"


def test_without_an_agreement_a_row_is_worth_one_of_those_that_come(
    open_site, file_stream, steps
) -> None:
    site, stream = open_site(), file_stream()
    run = steps(stream.frame().transform(site.gate("plain", query="q", source="s")), stream)
    for batch in range(3):
        run.add(_rows(batch * N))
    (found,) = run.worth(2)
    # Between one batch in 30 s (the trigger that stood in for the first) and twenty a second.
    assert 1.0 / (20 * N * 100) < found < 1.0 / (N / 30 * 100)


def test_derived_rows_bring_their_worth_and_what_is_none_counts_nothing(
    open_site, file_stream, steps
) -> None:
    site = open_site()
    stream = file_stream("id bigint, route string, fare double, _sic double")
    run = steps(stream.frame().transform(site.gate("sent", query="q")), stream)
    rows = [{**row, "_sic": 0.001} for row in _rows(0)]
    rows += [{"id": 9000, "_sic": None}, {"id": 9001, "_sic": -5.0}, {"id": 9002, "_sic": 1e999}]
    run.add(rows)
    assert run.worth(0) == [0.0, 0.001]
    brought = site._shared._allocator.state.gates["sent"].brought
    assert sum(amount for _, amount in brought._batches) == pytest.approx(N * 0.001)
    assert site.status()["queries"]["q"]["share"] == 0.0


def test_two_gated_sources_in_one_stream(spark, open_site, file_stream, steps, control: Path) -> None:
    site = open_site()
    one, two = file_stream(name="one"), file_stream(name="two")
    frames = [
        stream.frame().transform(site.gate(name, query="both", source=name, **AGREED))
        for name, stream in (("one", one), ("two", two))
    ]
    run = steps(frames[0].unionByName(frames[1]).transform(site.result("both")), one)
    for batch in range(3):
        two.add(_rows(10_000 + batch * N))
        run.add(_rows(batch * N))

    def second() -> bool:  # the second source's file may be a batch of its own
        run.settle()
        return len(records(control, "two")) >= 2

    eventually(second, "the second stream's batch")
    run.add(_rows(5000))
    assert run.worth(max(run.runs)) == pytest.approx([1.0 / (1000 * 2)])
    assert sum(r.arrived for r in records(control, "one")) == 4 * N
    assert all(a.complete for a in audit(control))
    assert len(site._shared._allocator.state.streams) == 1
    assert site.status()["queries"]["both"]["share"] == 1.0


def test_a_join_of_two_gated_streams(open_site, file_stream, steps, control: Path) -> None:
    site = open_site()
    schema = "id bigint, route string, at timestamp"
    left, right = file_stream(schema, "left"), file_stream(schema, "right")
    gated = [
        stream.frame()
        .transform(site.gate(f"{name}-side", query="pairs", source=name, **AGREED))
        .withWatermark("at", "1 minute")
        for name, stream in (("left", left), ("right", right))
    ]
    both = gated[0].join(
        gated[1].withColumnRenamed("_sic", "other").drop("_weight", "route"), ["id", "at"]
    )
    with pytest.raises(hg.BadArgument, match="two gated streams"):
        gated[0].alias("l").join(gated[1].alias("r"), F.expr("l.id = r.id")).transform(
            site.result("pairs")
        )
    worth = both.withColumn("_sic", F.col("_sic") + F.col("other")).transform(site.result("pairs"))
    rows = [{"id": i, "route": "r", "at": "2026-01-01T00:00:00Z"} for i in range(N)]
    right.add(rows)
    run = steps(worth, left)
    run.add(rows)
    run.settle()
    assert sum(len(found[-1]) for found in run.runs.values()) == N
    assert sum(r.arrived for r in records(control, "left-side")) == N
    assert sum(r.arrived for r in records(control, "right-side")) == N


def test_a_replayed_batch_keeps_the_same_rows_at_the_same_worth_and_a_restart_goes_on(
    spark, open_site, file_stream, steps, control: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, stream = open_site(), file_stream()
    gated = stream.frame().transform(site.gate("again", query="q", source="s", start=0.5, **AGREED))
    monkeypatch.setattr(site._shared._allocator, "rate", lambda gate, now: 0.5)
    monkeypatch.setattr(SiteShareController, "_fits", lambda *_: RowBudget(30.0, max_keep=0.5))
    run = steps(gated, stream)
    for batch in range(3):
        run.add(_rows(batch * N))
    run.query.stop()
    ControlLoop.of(spark).drain()
    first = run.runs[2][0]
    assert 0 < len(first) < N
    assert {weight for _, _, weight in first} == {2.0}
    # The commit of the last batch is lost, and by now the site would keep less of it, at less worth.
    (tmp_path / "checkpoint" / "commits" / "2").unlink()
    (tmp_path / "checkpoint" / "commits" / ".2.crc").unlink(missing_ok=True)
    monkeypatch.setattr(site._shared._allocator, "rate", lambda gate, now: 0.1)
    monkeypatch.setattr(SiteShareController, "_fits", lambda *_: RowBudget(30.0, max_keep=0.1))
    site.query("q", sources=["s", "t", "u"])
    again = steps(gated, stream)
    again.settle()
    assert again.runs[2][0] == first
    again.add(_rows(3 * N))
    assert 0 < len(again.runs[3][0]) < 0.3 * N
    assert again.worth(3) == pytest.approx([1.0 / (1000 * 3)])
    found = records(control, "again")
    assert [r.batch for r in found] == [0, 1, 2, 3]
    assert all(r.arrived == r.kept + r.shed for r in found)
    assert all(a.complete for a in audit(control))


def test_a_stream_that_joins_an_overloaded_site_begins_at_its_level(
    open_site, file_stream, steps
) -> None:
    site, stream = open_site(), file_stream()
    # Under the lock, because the site decides once a second whether it is overloaded. None of its gates
    # runs yet, so nobody who would have to end first waits for the lock.
    with site._shared as allocator:
        allocator.overloaded, allocator._fits = True, 0.25
        gated = stream.frame().transform(site.gate("late", query="q", source="s"))
        allocator.overloaded, allocator._fits = False, 1.0
    run = steps(gated, stream)
    run.add(_rows(0, 2000))
    assert 0.2 < len(run.runs[0][0]) / 2000 < 0.3


@pytest.mark.matrix
def test_the_task_time_of_a_batch_counts_once(spark, open_site, file_stream, steps) -> None:
    site, stream = open_site(), file_stream()
    run = steps(stream.frame().transform(site.gate("timed", query="q", source="s")), stream)
    run.add(_rows(0))
    times = TaskTimes(spark)
    key = str(run.query.runId)
    first = times.of_batch(key, 0)
    assert first is not None
    assert first > 0.0
    assert times.of_batch(key, 0) is None, "nothing new is not nothing"
    run.add(_rows(N))
    late = TaskTimes(spark)
    assert late.of_batch(key, 0) == pytest.approx(first), "the next batch's jobs are its own"
    second = late.of_batch(key, 1)
    assert second is not None
    assert second > 0.0
    assert times.of_batch(key, 1) == pytest.approx(second)
    assert times.of_batch(key, 2) is None
    assert times.of_batch("no such run", 0) is None
    assert times.interval_s(key, run.query) is None, "as fast as it can"


def test_which_streams_are_at_work(spark, open_site, file_stream, tmp_path: Path) -> None:
    from headgate.spark.sites.site import _at_work

    stream = file_stream()
    stream.add(_rows(0))
    seen: list[list[str]] = []
    query = (
        stream.frame()
        .writeStream.foreachBatch(lambda frame, batch: seen.append(_at_work(spark)))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        assert str(query.id) in seen[0]
        idle = "that one without data is not at work"
        eventually(lambda: str(query.id) not in _at_work(spark), idle)
    finally:
        query.stop()


def test_a_site_whose_coordinator_is_gone_works(open_site, file_stream, steps) -> None:
    site = open_site(coordinator="http://127.0.0.1:9")
    stream = file_stream()
    run = steps(stream.frame().transform(site.gate("lonely", query="q", source="s", **AGREED)), stream)
    for batch in range(2):
        run.add(_rows(batch * N))
    assert len(run.runs[1][0]) == N
    eventually(lambda: site.status()["coordinator"] == ["gone"], "that it is gone")
    assert site.status()["queries"]["q"]["told_by"] == "site"


def test_a_coordinator_hears_of_the_site_and_of_its_end(open_site, file_stream, steps) -> None:
    pytest.importorskip("uvicorn", reason="pip install 'headgate[server]'")
    from headgate.coordinator.registry import Registry, RegistrySettings
    from headgate.coordinator.service import CoordinatorServer

    registry = Registry(RegistrySettings())
    with CoordinatorServer(registry, secret=None, host="127.0.0.1", port=0) as server:
        site, stream = open_site(coordinator=server.url), file_stream()
        gated = stream.frame().transform(site.gate("told", query="q", source="s", **AGREED))
        run = steps(gated.transform(site.result("q")), stream)
        for batch in range(2):
            run.add(_rows(batch * N))
        eventually(lambda: site.status()["queries"]["q"]["told_by"] == "coordinator", "its word")
        eventually(lambda: site.status()["coordinator"] == ["in touch"], "that it is in touch")
        # Asked directly: an open coordinator answers readers ten times a second, and this asks more.
        assert set(registry.view()["queries"]) == {"q"}
        site.leave("q")
        eventually(lambda: not registry.view()["queries"], "that the query has left")
        site.stop()


class TestBadUse:
    @pytest.fixture
    def site(self, open_site) -> hg.Site:
        return open_site()

    @pytest.fixture
    def stream(self, spark) -> Any:
        return spark.readStream.format("rate").load()

    def test_a_name_twice(self, open_site, site: hg.Site) -> None:
        with pytest.raises(hg.BadArgument, match=r"is open in this process.*stop\(\)"):
            open_site()
        site.stop()
        open_site()
        open_site("oslo")

    def test_a_name_twice_in_two_processes(self, open_site, site: hg.Site) -> None:
        held = site.folder / "running.lock"
        site.stop()
        code = (
            "import sys; from pathlib import Path\n"
            "from headgate.store.single_process_lock import single_process_lock\n"
            "lock = single_process_lock(Path(sys.argv[1]), 'taken')\n"
            "print('has it', flush=True); sys.stdin.read()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code, str(held)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as other:  # fmt: skip
            assert other.stdout is not None
            assert other.stdout.readline() == "has it\n"
            with pytest.raises(hg.ControlFolderError, match=r"running in another process.*another name"):
                open_site()
            other.kill()
        open_site()

    @pytest.mark.parametrize("name", ["", "a b", "../up", "-x", 7, None, "x" * 65])
    def test_names(self, open_site, site: hg.Site, name: Any) -> None:
        with pytest.raises(hg.BadArgument, match="name"):
            open_site(name)
        with pytest.raises(hg.BadArgument, match="name"):
            site.gate(name, query="q", source="s")
        with pytest.raises(hg.BadArgument, match="name"):
            site.gate("g", query=name, source="s")
        if name is not None:
            with pytest.raises(hg.BadArgument, match="name"):
                site.gate("g", query="q", source=name)
        for call in (site.query, site.result, site.leave):
            with pytest.raises(hg.BadArgument, match="name"):
                call(name)

    @pytest.mark.parametrize(
        "given",
        [
            {"hold": 0}, {"hold": -1}, {"hold": math.nan}, {"hold": "soon"}, {"hold": math.inf},
            {"cores": 0}, {"cores": -2}, {"cores": math.nan}, {"cores": "two"}, {"cores": True},
            {"stw": 0}, {"stw": "-1 second"}, {"stw": math.nan}, {"delay": "never"},
            {"headroom": 0}, {"headroom": 1.2}, {"headroom": None}, {"shedding": "best"},
            {"coordinator": "coordinator:80"}, {"coordinator": "ftp://x"}, {"coordinator": ""},
        ],
        ids=str,
    )  # fmt: skip
    def test_a_site(self, open_site, given: dict[str, Any]) -> None:
        with pytest.raises(hg.BadArgument):
            open_site(**given)
        open_site().stop()  # nothing of it is left that would be in the way

    def test_a_control_folder_that_cannot_be_written(self, open_site, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(hg.ControlFolderError):
            open_site(control=tmp_path / "file" / "control")
        with pytest.raises(hg.ControlFolderError):
            open_site(control="hdfs://namenode/control")

    @pytest.mark.parametrize(
        "given",
        [
            {"agreed": 0.0}, {"agreed": -3}, {"agreed": math.nan}, {"agreed": "many"},
            {"source": None, "agreed": 5.0}, {"hold": 0}, {"hold": "soon"}, {"start": 0.0},
            {"start": 2.0}, {"start": math.nan}, {"policy": "uniform"}, {"min_keep": 2.0},
            {"mode": "half"}, {"on_failure": "maybe"}, {"keep": "a", "policy": hg.Uniform()},
            {"policy": hg.ConceptDriven("value")},
        ],
        ids=str,
    )  # fmt: skip
    def test_a_gate(self, site: hg.Site, given: dict[str, Any]) -> None:
        with pytest.raises(hg.BadArgument):
            site.gate("g", **({"query": "q", "source": "s"} | given))

    @pytest.mark.parametrize(
        "given",
        [
            {"sources": []}, {"sources": "abc"}, {"sources": ["a b"]}, {"weight": 0.0},
            {"weight": -1.0}, {"weight": math.nan}, {"weight": math.inf}, {"weight": "2"},
            {"priority": 1.5}, {"priority": True},
        ],
        ids=str,
    )  # fmt: skip
    def test_a_query(self, site: hg.Site, given: dict[str, Any]) -> None:
        with pytest.raises(hg.BadArgument):
            site.query("q", **given)

    def test_sources(self, site: hg.Site, stream) -> None:
        site.query("q", sources=["s", "t"])
        with pytest.raises(hg.BadArgument, match="'u' is not one of query 'q'"):
            stream.transform(site.gate("u-gate", query="q", source="u"))
        stream.transform(site.gate("s-gate", query="q", source="s"))
        with pytest.raises(hg.BadArgument, match="already comes through gate 's-gate'"):
            stream.transform(site.gate("s-again", query="q", source="s"))

    def test_frames(self, spark, site: hg.Site, stream) -> None:
        gate = site.gate("frames", query="q", source="s")
        with pytest.raises(hg.WrongKindOfFrame, match="is a batch"):
            spark.range(3).transform(gate)
        with pytest.raises(hg.BadArgument, match="DataFrame"):
            gate("rows")  # type: ignore[arg-type]
        with pytest.raises(hg.BadArgument, match="leave source= out"):
            stream.withColumn("_sic", F.lit(1.0)).transform(gate)
        with pytest.raises(hg.UnknownColumn, match="_sic"):
            stream.transform(site.gate("derived", query="q"))
        with pytest.raises(hg.BadArgument, match="double"):
            stream.withColumn("_sic", F.lit("1")).transform(site.gate("derived", query="q"))
        with pytest.raises(hg.UnknownColumn, match="_sic"):
            stream.transform(site.result("q"))
        with pytest.raises(hg.WrongKindOfFrame, match="batch"):
            spark.range(3).withColumn("_sic", F.lit(1.0)).transform(site.result("q"))

    def test_a_gate_that_could_not_be_built_is_no_source(self, site: hg.Site, stream) -> None:
        with pytest.raises(hg.UnknownColumn):
            stream.transform(site.gate("odd", query="q", source="s", identity="nothing"))
        assert site.status()["gates"] == {}
        assert site.status()["queries"] == {}

    def test_a_site_that_was_stopped(self, site: hg.Site, stream) -> None:
        gate, result = site.gate("stopped", query="q", source="s"), site.result("q")
        site.stop()
        site.stop()
        with pytest.raises(hg.BadArgument, match="has been stopped"):
            stream.transform(gate)
        with pytest.raises(hg.BadArgument, match="has been stopped"):
            stream.withColumn("_sic", F.lit(1.0)).transform(result)


def test_the_end_of_an_earlier_run_that_is_told_late_does_not_silence_the_next_one(
    spark, open_site, file_stream, steps, control: Path
) -> None:
    site, stream = open_site(), file_stream()
    gated = stream.frame().transform(site.gate("restarted", query="q", source="s", **AGREED))
    run = steps(gated, stream)
    run.add(_rows(0))
    run.query.stop()
    again = steps(gated, stream)
    again.add(_rows(N))
    loop = ControlLoop.of(spark)
    loop.post(lambda: loop.on_terminated(str(run.query.id), str(run.query.runId)))
    loop.drain()
    again.add(_rows(2 * N))
    assert [r.batch for r in records(control, "restarted")] == [0, 1, 2]
