"""Backfill as an operation: in slices, each batch once, from what the gate noted."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import headgate as hg
from headgate.spark.backfill import slice_work
from headgate.spark.backfill.sinks import FileSink
from headgate.store.lease import Holder
from headgate.store.ledger.records import queries_of
from headgate.store.repaid.marks import marks_of
from headgate.store.repaid.slices import Given, Slice, Slices
from tests.spark.backfill.shed_query import BATCHES, GATE, ROWS, ShedQuery, ids_in, shed_query
from tests.spark.conftest import records


@pytest.fixture(scope="module")
def once(spark, tmp_path_factory: pytest.TempPathFactory) -> ShedQuery:
    return shed_query(spark, tmp_path_factory.mktemp("shed"))


@pytest.fixture
def shed(once: ShedQuery, tmp_path: Path) -> ShedQuery:
    return once.copied_to(tmp_path)


def _query(shed: ShedQuery) -> str:
    (query,) = queries_of(shed.control, GATE)
    return query


@pytest.mark.every_spark
@pytest.mark.matrix
def test_all_that_was_shed_is_repaid_once_and_marked(spark, shed: ShedQuery, tmp_path: Path) -> None:
    """No reader, no schema, no steps are given: the gate has noted them."""
    to = tmp_path / "late"
    first = hg.repay(spark, GATE, shed.control, to, batches=[1, 2], slice_batches=1)
    assert (first.slices, first.batches, first.left_open) == (2, 2, {})
    assert first.rows_read == 2 * ROWS
    rest = hg.repay(spark, GATE, shed.control, to, slice_rows=2 * ROWS)
    assert (rest.before, rest.batches, rest.slices, rest.complete) == (2, BATCHES - 2, 2, True)
    assert shed.missing(ids_in(spark, to)) == ({}, {}), "kept and repaid are the input"
    again = hg.repay(spark, GATE, shed.control, to)
    assert (again.slices, again.rows, again.before) == (0, 0, BATCHES)
    marks = marks_of(shed.control, GATE, _query(shed)).rows()
    assert marks == {r.batch: r.shed for r in records(shed.control, GATE)}
    late = spark.read.parquet(str(to))
    assert {"_batch", "twice", "route"} <= set(late.columns)
    assert not list((to / "_headgate").iterdir()), "nothing is left of attempts"


def test_a_function_that_failed_gets_the_same_slice_again(spark, shed: ShedQuery) -> None:
    got: list[tuple[str, list[int]]] = []

    def take(frame: DataFrame, slice_id: str) -> None:
        got.append((slice_id, sorted(row.id for row in frame.collect())))
        if len(got) == 2:
            raise RuntimeError("the sink is away")

    with pytest.raises(RuntimeError, match="away"):
        hg.repay(spark, GATE, shed.control, take, slice_batches=2)
    refused = hg.repay(spark, GATE, shed.control, shed.folder / "late", batches=[2, 3])
    assert set(refused.left_open) == {2, 3}
    assert "begun for a function" in refused.left_open[2], "it may have them"
    done = hg.repay(spark, GATE, shed.control, take, slice_batches=2)
    assert done.complete
    assert got[1] == got[2], "the same rows under the same id"
    by_id = dict(got)
    assert len(by_id) == 3
    assert shed.missing([i for ids in by_id.values() for i in ids]) == ({}, {})


def test_what_the_source_no_longer_holds_stays_open(spark, shed: ShedQuery, tmp_path: Path) -> None:
    query = next((shed.control / "gates" / GATE / "queries").iterdir())
    (followed,) = json.loads((query / "recipes.json").read_text())
    source = Path(followed["checkpoint"]).parent / "in"
    gone = source / "000003.json"
    was, text = gone.stat(), gone.read_bytes()
    gone.unlink()
    to = tmp_path / "late"
    try:
        done = hg.repay(spark, GATE, shed.control, to, slice_batches=2)
        assert list(done.left_open) == [3]
        assert "000003.json is gone" in done.left_open[3]
        assert done.batches == BATCHES - 1, "the batch beside it in its slice is repaid"
    finally:
        gone.write_bytes(text)
        os.utime(gone, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert hg.repay(spark, GATE, shed.control, to).batches == 1
    assert shed.missing(ids_in(spark, to)) == ({}, {})


def test_a_living_process_keeps_its_slice(
    spark, shed: ShedQuery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Slices(shed.control, GATE, _query(shed), me=Holder("far", host="elsewhere", boot="b", pid=7))
    assert other.take([4], Given("files", "/elsewhere", "parquet")) is not None
    monkeypatch.setattr(Slices, "lives", lambda self, one: True)
    done = hg.repay(spark, GATE, shed.control, tmp_path / "late")
    assert (done.elsewhere, done.batches, done.complete) == ([4], BATCHES - 1, False)


class _Killed(BaseException):
    """As if the process had ended: from then on it does nothing any more."""


#: All that a slice does outside this process, in their order; behind the last one it is done.
_STEPS = ("take", "begin", "write", "decide", "show")


@pytest.mark.parametrize("step", _STEPS)
def test_killed_between_any_two_steps_each_row_is_there_once(
    spark,
    shed: ShedQuery,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    dead = [False]

    def wrapped(name: str, real: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            if dead[0]:
                raise _Killed
            found = real(*given, **named)
            if name == step:
                dead[0] = True
                raise _Killed
            return found

        return call

    with monkeypatch.context() as patched:
        for kind, names in (
            (Slices, ("take", "take_over")),
            (Slice, ("begin", "decide", "mark", "give_up")),
            (FileSink, ("write", "show", "drop")),
        ):
            for name in names:
                patched.setattr(kind, name, wrapped(name, getattr(kind, name)))
        with pytest.raises(_Killed):
            hg.repay(spark, GATE, shed.control, tmp_path / "late", batches=[0, 1], slice_batches=2)
    done = hg.repay(spark, GATE, shed.control, tmp_path / "late", batches=[0, 1])
    assert done.complete
    ids = ids_in(spark, tmp_path / "late")
    shed_then = sum(r.shed for r in records(shed.control, GATE) if r.batch in (0, 1))
    assert len(ids) == len(set(ids)) == shed_then
    assert len(list((tmp_path / "late").glob("headgate_slice=*"))) == 1


def test_rows_that_count_and_could_not_be_shown_are_shown_by_the_next_run(
    spark, shed: ShedQuery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the decision nothing is dropped: it is the only copy."""
    with monkeypatch.context() as patched:
        patched.setattr(FileSink, "show", _away)
        with pytest.raises(OSError, match="away"):
            hg.repay(spark, GATE, shed.control, tmp_path / "late", batches=[0, 1], slice_batches=2)
    done = hg.repay(spark, GATE, shed.control, tmp_path / "late", batches=[0, 1])
    assert (done.complete, done.batches) == (True, 2)
    ids = ids_in(spark, tmp_path / "late")
    assert len(ids) == len(set(ids)) == done.rows > 0


def test_a_function_that_had_its_rows_gets_them_no_more_where_the_mark_alone_is_missing(
    spark, shed: ShedQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[str] = []

    def take(frame: DataFrame, slice_id: str) -> None:
        got.append(slice_id)

    with monkeypatch.context() as patched:
        patched.setattr(Slice, "mark", _away)
        with pytest.raises(OSError, match="away"):
            hg.repay(spark, GATE, shed.control, take, batches=[0, 1], slice_batches=2)
    done = hg.repay(spark, GATE, shed.control, take, batches=[0, 1])
    assert (done.complete, done.batches, len(got)) == (True, 2, 1)


def _away(*given: Any, **named: Any) -> None:
    raise OSError("the mount is away")


def test_rows_that_changed_since_they_were_compared_do_not_count(
    spark, shed: ShedQuery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = slice_work.shed_of
    monkeypatch.setattr(slice_work, "shed_of", lambda part: real(part).where(F.col("id") % 7 != 0))
    done = hg.repay(spark, GATE, shed.control, tmp_path / "late", batches=[0])
    assert "the source has changed" in done.left_open[0]
    assert ids_in(spark, tmp_path / "late") == []
    monkeypatch.undo()
    assert hg.repay(spark, GATE, shed.control, tmp_path / "late", batches=[0]).complete


def test_a_folder_that_is_hadoops_is_renamed_by_hadoop(spark, tmp_path: Path) -> None:
    """As on HDFS; here with Hadoop's own local file system."""
    sink = FileSink(spark, str(tmp_path / "late"), "parquet")
    sink._local, sink.root = None, f"file:{tmp_path}/late"
    one = Slice(tmp_path, "000000000000-000000000001-00000000", sink.given, 1)
    assert sink.write(one, spark.range(5).withColumn("_batch", F.lit(3))) == {3: 5}
    sink.show(one, 1)
    sink.show(one, 1)  # somebody was faster
    assert spark.read.parquet(str(tmp_path / "late")).count() == 5
    again = replace(one, attempt=2)
    sink.write(again, spark.range(2).withColumn("_batch", F.lit(3)))
    with pytest.raises(Exception, match="already exists"):
        sink._rename(sink._hidden(again, 2), sink.shown(one.id))
    sink.drop(again, 2)
    assert not (tmp_path / "late" / "_headgate" / one.id / "2").exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"batches": []}, "names none"),
        ({"batches": [99]}, "not in the ledger"),
        ({"rows_per_s": 0}, "more than 0"),
        ({"slice_rows": 0}, "1 at least"),
        ({"format": "avro"}, "parquet, orc, json, csv"),
        ({"to": "s3a://bucket/late"}, "renamed in one step"),
        ({"to": ""}, "give a folder"),
        ({"since": "yesterday"}, "is no time"),
        ({"query": "other"}, "name one of them"),
        ({"rows": lambda batch: None, "prepare": lambda frame: frame}, "to the reader"),
    ],
)
def test_what_cannot_be_is_said_at_the_call(
    spark, shed: ShedQuery, tmp_path: Path, given: dict[str, Any], says: str
) -> None:
    with pytest.raises(hg.BadArgument, match=says):
        hg.repay(spark, GATE, shed.control, **{"to": tmp_path / "late", **given})
