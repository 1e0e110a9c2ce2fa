"""Gates on both sides of an equi-join: groups that can meet keep their rows, and pairs are weighted."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import headgate as hg
from headgate.core.partners import Partners, packed, unpacked
from headgate.policies.by_group.key_filter import KeyFilter
from tests.harness.session_settings import FEW_ROWS, with_settings
from tests.spark.conftest import records

LEFT = "id bigint, job string, cpu double, submitted timestamp"
RIGHT = "n bigint, task string, finished timestamp"
START = datetime(2026, 1, 1, tzinfo=UTC)


def _at(minute: float) -> str:
    return (START + timedelta(minutes=minute)).isoformat()


def _left(batch: int, minute: float) -> list[dict[str, Any]]:
    """Job a is heavy, b is rare, alone is heavy and never finishes."""
    jobs = ["a"] * 600 + ["b"] * 5 + ["alone"] * 600
    return [
        {"id": 10_000 * batch + i, "job": job, "cpu": 1.0 + i % 3, "submitted": _at(minute)}
        for i, job in enumerate(jobs)
    ]


def _right(batch: int, minute: float) -> list[dict[str, Any]]:
    tasks = ["a"] * 300 + ["b"] * 4 + ["other"] * 300
    return [{"n": 10_000 * batch + i, "task": t, "finished": _at(minute)} for i, t in enumerate(tasks)]


@pytest.fixture
def streams(file_stream):
    left, right = file_stream(LEFT, "left"), file_stream(RIGHT, "right")
    for batch in range(6):
        left.add(_left(batch, minute=batch))
        right.add(_right(batch, minute=batch + 0.5))
    return left, right


def test_batch_frames_leave_out_what_cannot_meet_and_estimate_the_pairs(streams) -> None:
    left, right = (side.batch() for side in streams)
    sides = hg.gate_join("pairs", left, right, on={"job": "task"}, rate=0.05)
    calm, others = (side.collect() for side in sides)
    assert {row["job"] for row in calm} == {row["task"] for row in others} == {"a", "b"}
    given = left.collect()
    assert len(calm) == pytest.approx(0.05 * len(given), rel=0.1)
    partners, heavy = Counter(row["task"] for row in right.collect()), Counter[str]()
    for row in others:
        heavy[row["task"]] += row["_weight_right"]
    # The sum of a column over all pairs, as a join of both sides has it.
    for job, wrong in (("a", 0.15), ("b", 0.3)):
        truth = sum(row["cpu"] for row in given if row["job"] == job) * partners[job]
        estimate = sum(row["cpu"] * row["_weight"] for row in calm if row["job"] == job) * heavy[job]
        assert estimate == pytest.approx(truth, rel=wrong), job


@pytest.mark.matrix
def test_streams_learn_who_can_meet_and_every_pair_group_is_there(
    spark, streams, run_all, control: Path
) -> None:
    left, right = (side.frame() for side in streams)
    left = left.withWatermark("submitted", "2 minutes")
    right = right.withWatermark("finished", "2 minutes")
    calm, others = hg.gate_join(
        "pairs", left, right, on={"job": "task"}, within="1 minute", time=("submitted", "finished"),
        rate=0.1, control=control,
    )  # fmt: skip
    near = F.expr("finished BETWEEN submitted AND submitted + INTERVAL 1 MINUTE")
    joined = calm.join(others, (F.col("job") == F.col("task")) & near)
    with with_settings(spark, FEW_ROWS):
        pairs = run_all(joined)
    assert {row["job"] for row in pairs} == {"a", "b"}
    exact = streams[0].batch().join(streams[1].batch(), (F.col("job") == F.col("task")) & near).count()
    weight = sum(row["_weight"] * row["_weight_right"] for row in pairs)
    assert weight == pytest.approx(exact, rel=0.02)
    full = [r for r in records(control, "pairs-left") if r.arrived]
    first, last = full[1], full[-1]
    assert first.plan.draw is None or first.plan.draw.present is None, "too early to call a group absent"
    assert last.plan.draw is not None
    assert last.plan.draw.present is not None
    assert all(r.balanced for r in records(control, "pairs-left"))
    # At first a and alone share the budget; then alone keeps one row, and a has it.
    assert last.kept < first.kept or last.plan.level > 1.5 * first.plan.level


def test_partners_are_unknown_until_rows_have_waited_long_enough() -> None:
    lately = Partners(60.0)
    for at, bits in ((0, b"\x01"), (0, b"\x01"), (0, b"\x01"), (119_000_000, b"\x02")):
        lately.add(at, bits)
        assert lately.text() is None
    for at in (121_000_000, 122_000_000, None):  # the last batch has no row of this stream
        lately.add(at, b"\x04" if at else b"\x08")
    text = lately.text()
    assert text is not None
    assert unpacked(text) == b"\x0c", "what came two minutes ago and more is forgotten"
    lately.add(10**15, b"\x10")  # one row from the future does not make it forget
    assert unpacked(str(lately.text())) == b"\x1c"
    assert Partners(None).text() is None


def test_a_filter_survives_its_text() -> None:
    kept = KeyFilter.of([0, 5, 32767])
    assert KeyFilter.from_text(packed(kept.bitmap)) == kept
    with pytest.raises(hg.SnapshotError, match="is cut off"):
        KeyFilter.from_text("???")
    with pytest.raises(hg.SnapshotError, match="4096 bytes"):
        KeyFilter.from_text(packed(b"\x01"))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"on": "job"}, "no such column"),
        ({"on": {"job": "task"}}, "needs within="),
        ({"on": {"job": "task"}, "within": "1 minute", "time": "cpu"}, "not a timestamp"),
        ({"on": {"job": "task"}, "within": "soon", "time": ("submitted", "finished")}, "positive"),
        ({"on": {"job": "task"}, "keep": "cpu > 1"}, "does not go"),
    ],
)
def test_bad_use_is_told_at_the_call(streams, control: Path, given: Any, says: str) -> None:
    left, right = (side.frame() for side in streams)
    with pytest.raises((hg.BadArgument, hg.UnknownColumn), match=says):
        hg.gate_join("pairs", left, right, rate=0.5, control=control, **given)
    with pytest.raises(hg.WrongKindOfFrame, match="one side is a stream"):
        hg.gate_join("pairs", left, streams[1].batch(), on={"job": "task"}, rate=0.5)
    with pytest.raises(hg.BadArgument, match="needs rate="):
        hg.gate_join("pairs", *(s.batch() for s in streams), on={"job": "task"})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("orders", r"is 'orders', a str, not a DataFrame: .*spark\.readStream\.table\('orders'\)"),
        (None, "is None, not a DataFrame: .*return"),
        ([1, 2], "is a list, not a DataFrame"),
    ],
)
def test_a_side_that_is_no_frame(spark, given: Any, says: str) -> None:
    frame = spark.range(3)
    with pytest.raises(hg.BadArgument, match=rf"^left= {says}"):
        hg.gate_join("pairs", given, frame, on="id", rate=0.5)
    with pytest.raises(hg.BadArgument, match=rf"^right= {says}"):
        hg.gate_join("pairs", frame, given, on="id", rate=0.5)


def test_the_name_comes_first(spark) -> None:
    frame = spark.range(3)
    with pytest.raises(hg.BadArgument, match="name was given a DataFrame"):
        hg.gate_join(frame, frame, "pairs", on="id", rate=0.5)
