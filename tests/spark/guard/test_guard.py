"""`guard` on real queries: streams and batches, its ledger, its memory, and what it refuses."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import headgate as hg
from headgate.store.ledger.audit import audit
from tests.spark.conftest import records

#: No row of these is late by that, though a busy machine may keep a worker waiting for seconds.
TARGET = hg.average("1 minute")
SCHEMA = "id bigint, kind string"


def cheap(row: Any) -> dict[str, Any]:
    return {"id": row.id, "kind": row.kind.upper()}


def slow(row: Any) -> tuple[int, str]:
    time.sleep(0.02 if row.kind == "dear" else 0.0002)
    return row.id, row.kind


def rows(spark, count: int, partitions: int = 2):
    kind = F.when(F.col("id") % 10 == 0, "dear").otherwise("cheap")
    return spark.range(0, count, 1, partitions).select("id", kind.alias("kind"))


def test_a_batch_frame_with_time_enough_is_the_function_and_nothing_else(spark) -> None:
    out = hg.guard(rows(spark, 200), cheap, schema=SCHEMA, key="kind", target=TARGET)
    assert out.columns == ["id", "kind", "_queue_ms", "_cost_ms", "_weight"]
    found = out.collect()
    assert sorted(r.id for r in found) == list(range(200))
    assert {r.kind for r in found} == {"CHEAP", "DEAR"}
    assert all(r._weight == 1.0 and r._cost_ms >= 0 and r._queue_ms >= 0 for r in found)


def test_a_batch_frame_with_too_much_work_ends_near_its_target(spark) -> None:
    """20 s of work on two cores; a mean wait of 0.5 s leaves about one second for it."""
    out = hg.guard(
        rows(spark, 20_000), slow, schema=SCHEMA, key="kind", target=hg.average("500 ms"), name="much"
    )
    found = out.collect()
    mean = sum(r._queue_ms for r in found) / len(found)
    # The check is exact, on the real wait; the sample of rows that come too late is beside it.
    assert mean <= 750
    assert sum(r._queue_ms for r in found if r._weight < 100) <= 510 * len(found)
    assert 500 < len(found) < 20_000


def test_a_nested_key_and_several_keys(spark) -> None:
    frame = rows(spark, 40).withColumn("tags", F.array("kind", F.lit("x")))
    out = hg.guard(frame, cheap, schema=SCHEMA, key=["kind", "tags"], target=TARGET)
    assert out.count() == 40


@pytest.fixture
def guarded(file_stream, run_all, control: Path):
    """A stream through a guard, batch by batch; gives the rows of its sink."""

    def run(function: Any, batches: list[list[dict[str, Any]]], **more: Any) -> list[Any]:
        stream = file_stream("id bigint, kind string, at timestamp")
        for batch in batches:
            stream.add(batch)
        settings = {"schema": SCHEMA, "key": "kind", "arrival": "at", "target": TARGET, "name": "g"}
        return run_all(hg.guard(stream.frame(), function, control=control, **{**settings, **more}))

    return run


def some(start: int, count: int, at: str = "2030-01-01 00:00:00") -> list[dict[str, Any]]:
    return [
        {"id": i, "kind": "dear" if i % 10 == 0 else "cheap", "at": at}
        for i in range(start, start + count)
    ]


@pytest.mark.every_spark
@pytest.mark.matrix
def test_a_stream_is_recorded_and_balances(guarded, control: Path) -> None:
    out = guarded(cheap, [some(0, 100), some(100, 50)])
    assert sorted(r.id for r in out) == list(range(150))
    found = records(control, "g")
    assert [(r.kind, r.arrived, r.kept, r.shed) for r in found] == [
        ("guard", 100, 100, 0),
        ("guard", 50, 50, 0),
    ]
    assert found[0].found.measures.keys() == {"queue_ms", "longest_queue_ms", "cost_ms"}
    (verdict,) = audit(control)
    assert verdict.balanced
    assert verdict.complete


def test_late_rows_are_dropped_by_reason_once_the_run_is_warm(guarded, control: Path) -> None:
    """Rows an hour old: processed while workers start, and then too late to matter."""
    old = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() - 3600))
    out = guarded(cheap, [some(100 * n, 100, old) for n in range(5)])
    found = records(control, "g")
    assert [r.kept for r in found[:2]] == [100, 100]
    assert found[-1].shed == sum(found[-1].found.groups.values()) > 0
    assert set(found[-1].found.groups) <= {"latency", "price"}
    assert sum(r.kept for r in found) == len(out)
    assert all(r.balanced for r in found)


def test_what_was_learned_is_there_after_a_restart(guarded, control: Path) -> None:
    guarded(slow, [some(0, 60)])
    value = json.loads((control / "gates" / "g" / "costs.json").read_text())
    assert value["through"]
    assert not list((control / "gates" / "g" / "lessons").rglob("*.json")), "merged and cleared away"


@pytest.mark.matrix
def test_errors_by_policy(guarded, control: Path) -> None:
    def picky(row: Any) -> dict[str, Any]:
        if row.id % 10 == 3:
            raise ValueError(f"row {row.id}")
        return {"id": row.id, "kind": row.kind}

    out = guarded(picky, [some(0, 30)], on_error="dead-letter")
    assert len(out) == 27
    (record,) = records(control, "g")
    assert (record.kept, record.shed, record.found.groups) == (27, 3, {"dead_letter": 3})
    assert record.state == "idle"
    letters = [
        json.loads(line)
        for path in (control / "gates" / "g" / "dead-letters").iterdir()
        for line in path.read_text().splitlines()
    ]
    assert sorted(letter["row"]["id"] for letter in letters) == [3, 13, 23]


@pytest.mark.matrix
def test_a_failing_function_fails_the_query_and_says_why(guarded) -> None:
    def broken(row: Any) -> dict[str, Any]:
        raise ValueError("no model")

    with pytest.raises(Exception, match=r"the function failed on a row with key 'dear'.*no model"):
        guarded(broken, [some(0, 3)])


def test_an_out_of_reach_target_is_said_in_the_log(guarded, caplog) -> None:
    now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    with caplog.at_level(logging.WARNING, logger="headgate"):
        guarded(cheap, [some(10 * n, 10, now) for n in range(10)], target=hg.average("1 ms"))
    assert "out of reach. Reachable is about" in caplog.text


def test_status_shows_a_guard_and_set_refuses_it(guarded, control: Path) -> None:
    from click.testing import CliRunner

    from headgate.cli import main

    guarded(cheap, [some(0, 5)])
    shown = CliRunner().invoke(main, ["status", str(control), "--json"])
    assert shown.exit_code == 0, shown.output
    (gate,) = json.loads(shown.stdout)["gates"]
    assert (gate["kind"], gate["mode"], gate["target_s"]) == ("guard", "balanced", 60.0)
    text = CliRunner().invoke(main, ["status", str(control)])
    assert "no query is running" in text.output, text.output
    (lease,) = (control / "gates" / "g" / "queries").glob("*/lease.json")
    lease.write_text(json.dumps({**json.loads(lease.read_text()), "released": False}))
    os.utime(lease, (time.time() - 3600,) * 2)
    text = CliRunner().invoke(main, ["status", str(control)])
    assert "no driver is steering it" in text.output, text.output
    assert "guard g" in CliRunner().invoke(main, ["ledger", "show", str(control)]).output
    refused = CliRunner().invoke(main, ["set", str(control), "g", "--rate", "0.5"])
    assert refused.exit_code != 0
    assert "is a guard" in refused.output


def test_behind_a_gate_weights_multiply(spark, file_stream, run_all, control: Path) -> None:
    stream = file_stream("id bigint, kind string, at timestamp")
    stream.add(some(0, 200))
    gated = stream.frame().transform(hg.gate("front", rate=0.5, control=control))
    settings = {"schema": SCHEMA, "key": "kind", "target": TARGET, "arrival": "at"}
    out = run_all(hg.guard(gated, cheap, name="g", control=control, **settings))
    assert 60 < len(out) < 140
    assert all(r._weight == pytest.approx(2.0) for r in out)
    with pytest.raises(hg.BadArgument, match="already in this query"):
        hg.guard(gated, cheap, name="front", **settings)
    with pytest.raises(hg.BadArgument, match="wait from their arrival"):
        hg.guard(gated, cheap, name="other", **{**settings, "arrival": None})


def test_a_windowed_query_behind_a_guard(spark, file_stream, run_all, control: Path) -> None:
    stream = file_stream("id bigint, kind string, at timestamp")
    stream.add(some(0, 100))

    def stamped(row: Any) -> tuple[Any, str]:
        return row.at, row.kind

    out = hg.guard(
        stream.frame(), stamped, schema="at timestamp, kind string", key="kind", arrival="at",
        target=TARGET, control=control,
    )  # fmt: skip
    counted = out.groupBy(F.window("at", "1 hour"), "kind").agg(F.sum("_weight").alias("n"))
    assert {r.kind: r.n for r in run_all(counted, mode="complete")} == {"cheap": 90.0, "dear": 10.0}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"key": "nope"}, "no such column"),
        ({"key": ()}, "at least one column"),
        ({"key": "KIND"}, "exact name"),
        ({"name": None}, "give the guard a name"),
        ({"arrival": "nope"}, "no such column"),
        ({"arrival": "kind"}, "not a timestamp"),
        ({"schema": "id nonsense,"}, "no schema"),
        ({"schema": "_weight double"}, "adds itself"),
        ({"target": 1.0}, "hg.average"),
        ({"policy": "magic"}, "'balanced'"),
        ({"policy": 1.5}, "share to drop"),
        ({"form": "numpy"}, "form='numpy'"),
        ({"chunk": 0}, "chunk=0"),
        ({"seed": 1.5}, "seed=1.5"),
        ({"on_error": "ignore"}, "on_error='ignore'"),
        ({"on_error": "dead-letter"}, "needs dead_letters="),
        ({"dead_letters": "x"}, "needs on_error="),
        ({"keep": "kind +"}, "not a predicate"),
        ({"name": "a/b"}, "gate name"),
        ({"trigger": "10 minutes"}, "target of 600 s or more"),
    ],
)
def test_bad_use_is_told_at_the_call(spark, more: dict[str, Any], said: str) -> None:
    settings = {"schema": SCHEMA, "key": "kind", "target": TARGET, "name": "bad"}
    with pytest.raises(hg.BadArgument, match=said):
        hg.guard(rows(spark, 1), lambda row: cheap(row), **{**settings, **more})


def test_columns_that_a_worker_cannot_tell_apart_are_told(spark) -> None:
    frame = rows(spark, 1)
    twice = frame.select("*", frame.kind)
    with pytest.raises(hg.BadArgument, match="more than one column 'kind'"):
        hg.guard(twice, cheap, schema=SCHEMA, key="id", target=TARGET)
    inside = frame.select("id", "kind", F.struct(F.current_timestamp().alias("at")).alias("meta"))
    with pytest.raises(hg.BadArgument, match="column of its own"):
        hg.guard(inside, cheap, schema=SCHEMA, key="id", arrival="meta.at", target=TARGET)


def test_a_column_with_a_dot_can_be_the_key(spark) -> None:
    frame = rows(spark, 30).withColumnRenamed("kind", "what.kind")
    out = hg.guard(
        frame, lambda row: (row["what.kind"],), schema="kind string", key="what.kind", target=TARGET,
        name="dotted",
    )  # fmt: skip
    assert out.count() == 30


def test_one_name_is_a_gates_or_a_guards(spark, file_stream, control: Path) -> None:
    frame = file_stream("id bigint, kind string, at timestamp").frame()
    frame.transform(hg.gate("one", rate=0.5, control=control))
    settings = {"schema": SCHEMA, "key": "kind", "arrival": "at", "target": TARGET, "control": control}
    with pytest.raises(hg.BadArgument, match="is a gate"):
        hg.guard(frame, cheap, name="one", **settings)
    hg.guard(frame, cheap, name="two", **settings)
    with pytest.raises(hg.BadArgument, match="is a guard"):
        frame.transform(hg.gate("two", rate=0.5, control=control))
    with pytest.raises(hg.BadArgument, match="is a guard"):
        hg.backfill(spark, "two", control, lambda offsets: frame)


@pytest.mark.parametrize("latency", ["-1 second", 0, "soon"])
def test_a_target_that_is_no_duration_is_told(latency: Any) -> None:
    with pytest.raises(hg.BadArgument, match="average="):
        hg.average(latency)


def test_a_function_that_cannot_travel_is_told(spark) -> None:
    import threading

    lock = threading.Lock()

    def locked(row: Any) -> Any:
        with lock:
            return row.id, row.kind

    with pytest.raises(hg.BadArgument, match="cannot be sent to Spark's workers"):
        hg.guard(rows(spark, 1), locked, schema=SCHEMA, key="kind", target=TARGET)
