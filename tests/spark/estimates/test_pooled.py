"""Error bars that are never of no width, that borrow spread from like groups, and add up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headgate.errors import BadArgument
from headgate.policies.by_group.counted import counted
from headgate.spark.estimates import estimators as hg
from headgate.spark.gate.call import gate
from tests.harness.session_settings import FEW_ROWS, with_settings

SCHEMA = "w int, g int, y double, b double, yes boolean, _weight double"


@pytest.fixture(scope="module", autouse=True)
def _few_rows(spark: SparkSession) -> Iterator[None]:
    with with_settings(spark, FEW_ROWS):
        yield


def rows_of(
    group: int, values: list[float], size: int, window: int = 0
) -> list[tuple[int, int, float, float, bool, float]]:
    """A group of so many rows, of which these were kept."""
    weight = float(counted([size / len(values)])[0])
    return [(window, group, value, 2.0, value > 1.0, weight) for value in values]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[int, Any]:
    """What is said of groups: equal rows, zeros, kept whole, one row, spread ones, in two windows."""
    rng = np.random.default_rng(7)
    rows = rows_of(0, [53.0] * 18, 516) + rows_of(1, [0.0] * 18, 516) + rows_of(2, [53.0] * 9, 9)
    rows += rows_of(3, [53.0], 20) + rows_of(4, [50.0, 60.0, 400.0, 55.0], 90)
    for group in range(5, 12):
        rows += rows_of(group, rng.lognormal(4.0, 0.7, 6).tolist(), 60)
    rows += rows_of(12, [7.0, 7.0, 7.0], 50, window=1)
    result = spark.createDataFrame(rows, SCHEMA).groupBy("w", "g").agg(
        hg.mean("y").alias("mean"), hg.sum("y").alias("sum"), hg.ratio("y", "b").alias("ratio"),
        hg.mean("yes").alias("share"), hg.mean("y", interval="plain").alias("plain"),
        hg.median("y").alias("median"), hg.count().alias("count"), F.max("y").alias("most"),
    )  # fmt: skip
    result = result.localCheckpoint()  # planning it takes longer than its rows
    better = result.transform(hg.pooled("w"))
    assert better.schema.simpleString() == result.schema.simpleString()
    before, after = ({row.g: row for row in frame.collect()} for frame in (result, better))
    return {group: (before[group], after[group]) for group in before}


def test_equal_rows_do_not_give_an_interval_of_no_width(found: dict[int, Any]) -> None:
    """Of 516 rows 18 were kept, all of 53, and the true mean was 71.4."""
    before, after = found[0]
    assert (before.plain.low, before.plain.high) == (before.plain.estimate, before.plain.estimate)
    for name in ("mean", "sum", "ratio"):
        for row in (before, after):
            assert row[name].low < row[name].estimate < row[name].high, name
            assert row[name].stderr > 0.0
    assert before.mean.stderr == pytest.approx(53.0 * math.sqrt((1 - 18 / 516) / 18 / 19), rel=1e-5)
    assert after.mean.estimate == before.mean.estimate
    # the other groups have a tail above
    assert after.mean.high - after.mean.estimate > after.mean.estimate - after.mean.low


def test_nothing_but_zeros_says_nothing_alone_and_something_among_others(found: dict[int, Any]) -> None:
    before, after = found[1]
    assert before.mean.stderr is before.mean.low is before.mean.high is None
    assert before.sum.high is None
    assert after.mean.high > 0.0 > after.mean.low


def test_what_was_kept_whole_stays_exact(found: dict[int, Any]) -> None:
    for row in found[2]:
        for name in ("mean", "sum", "ratio", "share", "median"):
            assert row[name].low == row[name].high == row[name].estimate, name
            assert row[name].stderr == 0.0, name
    for row in found[3]:
        assert row.mean.stderr is row.mean.low is None


def test_a_share_has_wilsons_interval(found: dict[int, Any]) -> None:
    before, after = found[1]
    reach = (1 - 18 / 516) / 18
    assert before.share.estimate == before.share.low == 0.0
    assert before.share.high == pytest.approx(3.8415 * reach / (1 + 3.8415 * reach), rel=1e-3)
    assert before.share.stderr > 0.0
    assert after.share == before.share


def test_only_error_bars_change(found: dict[int, Any]) -> None:
    for before, after in found.values():
        for name in ("share", "plain", "median", "count", "most"):
            assert after[name] == before[name], name
        for name in ("mean", "sum", "ratio"):
            for field in ("estimate", "rows", "share", "sample"):
                assert after[name][field] == before[name][field], (name, field)
    # alone in its window there is nobody to borrow from
    before, after = found[12]
    assert after == before
    assert before.mean.low < 7.0 < before.mean.high


def test_few_rows_borrow_what_others_know(found: dict[int, Any]) -> None:
    """Four rows, one far off: alone the interval is as long as t with three degrees of freedom."""
    before, after = found[4]
    assert after.mean.high - after.mean.low < before.mean.high - before.mean.low


def test_a_group_alone_in_its_window_borrows_from_those_of_other_windows(spark: SparkSession) -> None:
    rng = np.random.default_rng(3)
    rows = []
    for window in range(8):  # one group each; of the last, all kept rows are of one peak
        values = rng.choice([64.0, 1500.0], 4).tolist() if window < 7 else [64.0, 66.0, 64.0]
        rows += rows_of(0, values, 60, window)
    for group in range(5):
        rows += rows_of(group, rng.normal(300.0, 1.0, 3).tolist(), 60, window=8)
    window = F.window(F.timestamp_seconds(F.col("w") * 60), "1 minute").alias("window")
    result = spark.createDataFrame(rows, SCHEMA).groupBy(window, "g").agg(hg.mean("y").alias("mean"))
    result = result.localCheckpoint()
    last = F.timestamp_seconds(F.lit(8 * 60))

    def said(frame: Any) -> dict[Any, Any]:
        return {(row["window"].start, row["g"]): row for row in frame.collect()}

    found, own = said(result.transform(hg.pooled("window"))), said(result)
    alone = result.where(F.col("window.start") < last)
    # as if those that are alone were all there is, and those of a full window were all there is
    twins = said(alone.transform(hg.pooled()))
    twins |= said(result.where(F.col("window.start") == last).transform(hg.pooled("window")))
    assert found.keys() == twins.keys() == own.keys()
    for key, row in found.items():
        for field in ("estimate", "stderr", "low", "high"):
            assert row["mean"][field] == pytest.approx(twins[key]["mean"][field], rel=1e-9)
    peak = max(key for key in found if key[1] == 0 and key[0].minute == 7)
    assert own[peak]["mean"]["high"] < 100.0 < 300.0 < found[peak]["mean"]["high"]
    # what is told of by= has its own past, and a result without windows nobody else
    plain = said(alone.transform(hg.pooled(("window", "g"), by="g")))
    assert min(plain.items())[1]["mean"] == min(own.items())[1]["mean"]


def test_bad_use_is_told(spark: SparkSession) -> None:
    frame = spark.createDataFrame(rows_of(1, [1.0, 2.0], 9), SCHEMA)
    result = frame.groupBy("g").agg(hg.mean("y"))
    with pytest.raises(BadArgument, match="no column of the result, which has g, mean"):
        result.transform(hg.pooled("window"))
    with pytest.raises(BadArgument, match="no estimate whose error bar"):
        result.select("g").transform(hg.pooled())
    with pytest.raises(BadArgument, match="give a column's name"):
        hg.pooled([3])  # type: ignore[list-item]
    with pytest.raises(BadArgument, match="confidence"):
        hg.pooled(confidence=95)
    for make in (hg.mean, hg.sum):
        with pytest.raises(BadArgument, match='"plain" is Student'):
            make("y", interval="exact")
    rate = spark.readStream.format("rate").load().selectExpr("value", "1D _weight")
    with pytest.raises(BadArgument, match="name the column of its time window"):
        rate.agg(hg.mean("value")).transform(hg.pooled())


def test_differences_and_totals(found: dict[int, Any], spark: SparkSession) -> None:
    rows = rows_of(0, [5.0, 6.0, 9.0], 40) + rows_of(1, [15.0, 16.0, 29.0], 40) + rows_of(2, [4.0], 1)
    by_group = (
        spark.createDataFrame(rows, SCHEMA)
        .groupBy("g")
        .agg(hg.sum("y").alias("sum"), hg.mean("y").alias("mean"))
        .localCheckpoint()
    )
    sums = {row.g: row["sum"] for row in by_group.collect()}
    total = by_group.agg(hg.total("sum")).first()
    assert total is not None
    said = total["total(sum)"]
    assert said.groups == 3
    assert said.estimate == pytest.approx(sum(s.estimate for s in sums.values()))
    assert said.stderr == pytest.approx(math.hypot(sums[0].stderr, sums[1].stderr))
    down = math.hypot(*[sums[g].estimate - sums[g].low for g in (0, 1)])
    assert said.low == pytest.approx(said.estimate - down)
    means = by_group.where("g < 2").groupBy().pivot("g", [0, 1]).agg(F.first("mean"))
    row = means.select(hg.difference("1", "0").alias("d"), "*").first()
    assert row is not None
    assert row.d.estimate == pytest.approx(row["1"].estimate - row["0"].estimate)
    up = math.hypot(row["1"].high - row["1"].estimate, row["0"].estimate - row["0"].low)
    assert row.d.high == pytest.approx(row.d.estimate + up)
    assert row.d.low < row.d.estimate


def test_a_stream_pools_within_its_windows(
    file_stream: Callable[..., Any], run_all: Callable[..., list[Any]]
) -> None:
    source = file_stream("id bigint, at timestamp, route string, fare double")
    start = datetime(2030, 1, 1)
    late = (start + timedelta(hours=9)).isoformat() + "Z"
    for batch in range(2):
        times = [start + timedelta(minutes=20 * batch, seconds=3 * i) for i in range(300)]
        rows = [
            {"id": 1000 * batch + i, "at": at.isoformat() + "Z", "route": f"r{i % 5}", "fare": i % 37}
            for i, at in enumerate(times)
        ]
        source.add(rows + [{"id": 9999, "at": late, "route": "r0", "fare": 1.0}] * batch)
    # Two aggregates in a row: what the first one closes in a batch, the second one closes in the next.
    for number in (9998, 9997):
        source.add([{"id": number, "at": late, "route": "r0", "fare": 1.0}])

    def estimated(frame: Any) -> Any:
        calm = frame.transform(gate("calm", rate=0.3))
        by_route = calm.groupBy(F.window("at", "20 minutes").alias("window"), "route").agg(
            hg.mean("fare").alias("mean"), hg.count().alias("count")
        )
        return by_route.transform(hg.pooled("window"))

    expected = {(r.window.start, r.route): r for r in estimated(source.batch()).collect()}
    said = run_all(estimated(source.frame().withWatermark("at", "1 minute")), "append")
    assert len(said) == 10
    for row in said:
        twin = expected[row.window.start, row.route]
        assert row["count"] == twin["count"]
        for field in ("estimate", "stderr", "low", "high"):
            assert row["mean"][field] == pytest.approx(twin["mean"][field], rel=1e-9), field
