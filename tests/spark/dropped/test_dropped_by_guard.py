"""What a guard drops is set aside: exactly those rows, by reason, whatever Spark runs again."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import headgate as hg
from tests.spark.conftest import records

SCHEMA = "id bigint, kind string, at timestamp"


def plain(row: Any) -> dict[str, Any]:
    return {"id": row.id}


def picky(row: Any) -> dict[str, Any]:
    if row.id % 10 == 3:
        raise ValueError(f"row {row.id}")
    return {"id": row.id}


def some(start: int, count: int, at: str = "2030-01-01 00:00:00") -> list[dict[str, Any]]:
    return [
        {"id": i, "kind": "\u202e<b>'" if i % 7 else None, "at": at} for i in range(start, start + count)
    ]


@pytest.fixture
def guarded(file_stream, control: Path, tmp_path: Path):
    """A stream of two batches through a guard that drops three rows in ten, and sets them aside."""

    def make(function: Any = plain, **more: Any) -> Any:
        stream = file_stream(SCHEMA)
        if not more.pop("again", False):
            stream.add(some(0, 100))
            stream.add(some(100, 60))
        given = {"schema": "id bigint", "key": "kind", "arrival": "at", "name": "g", "policy": 0.3}
        given |= {"target": hg.average("1 second"), "dropped": tmp_path / "aside"}
        return hg.guard(stream.frame(), function, **{"control": control, **given, **more})

    return make


@pytest.mark.every_spark
@pytest.mark.matrix
def test_kept_and_dropped_are_the_input_and_the_ledger_counts_both(
    spark, guarded, run_all, control: Path, tmp_path: Path
) -> None:
    kept = run_all(guarded(picky, on_error="dead-letter"))
    found = hg.dropped(spark, tmp_path / "aside", "g")
    assert found.columns == ["id", "kind", "at", "_reason", "_batch", "_query"]
    rows = found.collect()
    assert sorted([r.id for r in kept] + [r.id for r in rows]) == list(range(160))
    whole = {r["id"]: r for r in [*some(0, 100), *some(100, 60)]}
    assert all((r.kind, str(r["at"])) == (whole[r.id]["kind"], whole[r.id]["at"]) for r in rows)
    booked = records(control, "g")
    for record in booked:
        reasons = Counter(r._reason for r in rows if r._batch == record.batch)
        assert dict(reasons) == record.found.groups
        assert {r._query for r in rows} == {record.query}
    assert {"chance", "dead_letter"} == {r._reason for r in rows}
    assert hg.dropped(spark, tmp_path / "aside", "g", first=1).agg(F.min("_batch")).first()[0] == 1
    nothing = hg.dropped(spark, tmp_path / "aside", "g", first=2)
    assert (nothing.columns, nothing.count()) == (["_reason", "_batch", "_query"], 0)


def test_a_batch_that_fails_behind_the_guard_is_set_aside_once(
    spark, guarded, each_batch, control: Path, tmp_path: Path
) -> None:
    """The first run looks twice at its rows and dies before its report; the second one counts."""
    kept: dict[int, list[int]] = {}

    def act(batch: Any, number: int) -> None:
        batch.count()  # another pass, whose rows are dropped anew
        kept[number] = [r.id for r in batch.collect()]
        if number == 1 and len(kept) == 2 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            raise RuntimeError("the sink is gone")

    with pytest.raises(Exception, match="the sink is gone"):
        each_batch(guarded(), act)
    aside = tmp_path / "aside" / "g"
    (query,) = (path.name for path in aside.iterdir())
    left = {path.name for path in (aside / query / "rows" / f"{1:012d}").iterdir()}
    assert left, "files of a batch that nobody reported"
    assert {r._batch for r in hg.dropped(spark, tmp_path / "aside", "g").collect()} == {0}
    each_batch(guarded(again=True), act)
    rows = hg.dropped(spark, tmp_path / "aside", "g").collect()
    assert sorted(kept[0] + kept[1] + [r.id for r in rows]) == list(range(160))
    assert [r.shed for r in records(control, "g")] == [sum(r._batch == n for r in rows) for n in (0, 1)]
    assert not left & {path.name for path in (aside / query / "rows" / f"{1:012d}").iterdir()}


def test_rows_that_came_too_late_are_set_aside_under_their_reason(
    spark, file_stream, run_all, control: Path, tmp_path: Path
) -> None:
    old = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() - 3600))
    stream = file_stream(SCHEMA)
    for n in range(4):
        stream.add(some(50 * n, 50, old))
    target, aside = hg.average("1 second"), tmp_path / "aside"
    frame = hg.guard(
        stream.frame(), plain, schema="id bigint", key="kind", arrival="at", name="late",
        target=target, control=control, dropped=aside,
    )  # fmt: skip
    kept = run_all(frame)
    rows = hg.dropped(spark, aside, "late").collect()
    assert Counter([r.id for r in kept] + [r.id for r in rows]) == Counter(range(200))
    assert {r._reason for r in rows} <= {"latency", "price"}
    counted = Counter[str]()
    for record in records(control, "late"):
        counted.update(record.found.groups)
    assert counted == Counter(r._reason for r in rows) != Counter()


def test_what_cannot_be_set_aside_is_refused_at_the_call(spark, guarded, file_stream, tmp_path) -> None:
    with pytest.raises(hg.BadArgument, match="needs control="):
        guarded(control=None)
    with pytest.raises(hg.BadArgument, match="give a folder that the driver"):
        guarded(dropped="s3://bucket/aside")
    frame = spark.range(5)
    with pytest.raises(hg.BadArgument, match="needs a stream"):
        hg.guard(
            frame, plain, schema="id bigint", key="id", target=hg.average("1 second"),
            control=tmp_path / "c", dropped=tmp_path / "aside",
        )  # fmt: skip
    stream = file_stream(SCHEMA, "other").frame()
    given: dict[str, Any] = {"schema": "id bigint", "key": "kind", "arrival": "at", "name": "h"}
    given |= {"target": hg.average("1 second"), "control": tmp_path / "c", "dropped": tmp_path / "aside"}
    with pytest.raises(hg.BadArgument, match="'_reason', which dropped rows get"):
        hg.guard(stream.withColumn("_reason", F.lit(1)), plain, **given)
    for odd in (F.make_dt_interval(F.lit(1)), F.make_interval(F.lit(1)), F.array(F.lit(None))):
        with pytest.raises(hg.BadArgument, match="which Parquet cannot hold"):
            hg.guard(stream.withColumn("i", odd), plain, **given)


def test_what_cannot_be_read_is_refused_in_words(spark, tmp_path: Path) -> None:
    with pytest.raises(hg.BadArgument, match="has dropped nothing into"):
        hg.dropped(spark, tmp_path, "g")
    with pytest.raises(hg.BadArgument, match=r"gate name '\.\./g'"):
        hg.dropped(spark, tmp_path, "../g")
    with pytest.raises(hg.BadArgument, match="side='up'"):
        hg.dropped(spark, tmp_path, "g", side="up")
    with pytest.raises(hg.BadArgument, match="first=-1"):
        hg.dropped(spark, tmp_path, "g", first=-1)
    lists = tmp_path / "g" / "q" / "lists"
    lists.mkdir(parents=True)
    for files in (["../../../../etc/passwd"], ["row-0-x.parquet"], [7], 7, None):
        (lists / f"{0:012d}.json").write_text(json.dumps({"v": 1, "files": files, "rows": {}}))
        with pytest.raises(hg.DamagedFile, match="lists no dropped rows"):
            hg.dropped(spark, tmp_path, "g")
