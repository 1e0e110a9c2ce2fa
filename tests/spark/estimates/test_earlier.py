"""A group's earlier windows say what its spread is: the same, stored or in one result, and replayed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.errors import BadArgument
from headgate.policies.by_group.counted import counted
from headgate.spark.estimates import estimators as hg
from headgate.spark.estimates.earlier import MOST_WINDOWS
from tests.harness.session_settings import FEW_ROWS, with_settings

WINDOWS = MOST_WINDOWS + 3
SCHEMA = "minute int, g string, y double, _weight double"
#: By the number of the window and the group.
Said = dict[tuple[int, str | None], Any]


@pytest.fixture(scope="module", autouse=True)
def _few_rows(spark: SparkSession) -> Iterator[None]:
    with with_settings(spark, FEW_ROWS):
        yield


def _result(spark: SparkSession) -> DataFrame:
    """Thirteen windows of ten minutes; a group without a name, a quiet one, one that is new at last."""
    rng = np.random.default_rng(12)
    weight = float(counted([9.0])[0])
    rows: list[tuple[int, str | None, float, float]] = []
    for window in range(WINDOWS):
        # the first window is wild: whoever looks eleven windows back sees it
        spread = 100.0 if window == 0 else 1.0
        for name, scale in (("a", 1.0), ("b", 9.0), (None, 3.0)):
            values = rng.normal(50.0, spread * scale, 3).tolist()
            rows += [(10 * window, name, value, weight) for value in values]
        rows += [(10 * window, "constant", 7.0, weight)] * 3
    rows += [(10 * (WINDOWS - 1), "new", value, weight) for value in (1.0, 2.0, 4.0)]
    at = F.timestamp_seconds(F.col("minute") * 60)
    frame = spark.createDataFrame(rows, SCHEMA)
    return frame.groupBy(F.window(at, "10 minutes").alias("window"), "g").agg(
        hg.mean("y").alias("mean"), hg.sum("y").alias("sum"), hg.count().alias("count")
    )


@pytest.fixture(scope="module")
def stored(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    path = str(tmp_path_factory.mktemp("earlier") / "results")
    _result(spark).coalesce(1).write.parquet(path)
    return spark.read.parquet(path)


def _of(frame: DataFrame) -> Said:
    rows = frame.select(F.unix_timestamp("window.start").alias("at"), "*").collect()
    return {(row["at"] // 600, row["g"]): row for row in rows}


def _alike(a: Any, b: Any) -> bool:
    """But for the order in which Spark adds up."""
    ends = [[row[e][f] for e in ("mean", "sum") for f in ("stderr", "low", "high")] for row in (a, b)]
    return bool(ends[0] == pytest.approx(ends[1], rel=1e-9))


def _last(frame: DataFrame, yes: bool = True) -> DataFrame:
    last = F.col("window.start") == F.timestamp_seconds(F.lit(600 * (WINDOWS - 1)))
    return frame.where(last if yes else ~last)


@pytest.fixture(scope="module")
def whole(stored: DataFrame) -> Said:
    """All windows as one result, each group with its own past."""
    return _of(stored.transform(hg.pooled("window", by="g")))


@pytest.fixture(scope="module")
def without(stored: DataFrame) -> Said:
    """And with nobody's past."""
    return _of(stored.transform(hg.pooled("window")))


@pytest.mark.matrix
def test_stored_windows_say_what_those_of_one_result_say(
    stored: DataFrame,
    whole: Said,
    without: Said,
) -> None:
    pool = hg.pooled("window", by="g")
    last, before = _last(stored), _last(stored, False)
    from_store = _of(last.transform(hg.pooled("window", by="g", earlier=before)))
    # a replay finds what the batch has stored itself, a retried write has stored it twice
    again = stored.unionByName(before)
    replayed = _of(last.transform(hg.pooled("window", by="g", earlier=again)))
    assert from_store.keys() == replayed.keys() == {key for key in whole if key[0] == WINDOWS - 1}
    for key, row in from_store.items():
        assert _alike(row, replayed[key]), key
        assert _alike(row, whole[key]), key
    assert stored.transform(pool).columns == stored.columns
    for key, row in whole.items():
        told = without[key]
        assert row["count"] == told["count"], "counts need no spread"
        assert row["mean"]["estimate"] == told["mean"]["estimate"]
        assert row["mean"]["sample"] == told["mean"]["sample"], "what later windows will read"
        if key[0] == 0 or key[1] == "new":  # no history yet
            assert _alike(row, told), key


def test_ten_windows_are_remembered_and_no_more(
    stored: DataFrame,
    whole: Said,
    without: Said,
) -> None:
    later = stored.where("window.start > '1970-01-01 00:00:00Z'")
    tame = _of(later.transform(hg.pooled("window", by="g")))
    for name in ("a", "b", None):
        # ten windows after the wild one it still counts, eleven after it does not
        assert whole[MOST_WINDOWS, name]["mean"]["stderr"] > tame[MOST_WINDOWS, name]["mean"]["stderr"]
        for window in (MOST_WINDOWS + 1, MOST_WINDOWS + 2):
            assert _alike(whole[window, name], tame[window, name])
    # a quiet group among wild ones: its own past says that it is quiet
    key = (WINDOWS - 1, "a")
    assert whole[key]["mean"]["stderr"] < without[key]["mean"]["stderr"]


def test_a_window_without_like_groups_has_its_own_past(stored: DataFrame) -> None:
    alone = stored.where("g = 'a' AND window.start > '1970-01-01 00:00:00Z'").drop("g")
    said = {row["window"].start: row for row in alone.transform(hg.pooled("window", by=())).collect()}
    plain = {row["window"].start: row for row in alone.collect()}
    first, *later = sorted(said)
    assert said[first] == plain[first]
    widths = [said[at]["mean"]["high"] - said[at]["mean"]["low"] for at in later]
    own = [plain[at]["mean"]["high"] - plain[at]["mean"]["low"] for at in later]
    assert np.median(widths) < 0.85 * np.median(own)


def test_windows_that_slide_look_back_on_those_that_ended(spark: SparkSession) -> None:
    weight = float(counted([9.0])[0])
    rng = np.random.default_rng(5)
    rows = [(m, "a", float(rng.normal(0.0, 50.0 if m < 5 else 1.0)), weight) for m in range(35)]
    frame = spark.createDataFrame(rows, SCHEMA)
    window = F.window(F.timestamp_seconds(F.col("minute") * 60), "10 minutes", "5 minutes")
    result = frame.groupBy(window.alias("window"), "g").agg(hg.mean("y").alias("mean"))
    plain, said = _of5(result), _of5(result.transform(hg.pooled("window", by="g")))
    # The window from minute 0 on has the one from -5 on before it, but that has not ended by then.
    assert said[0] == plain[0]
    # Those from 5 and 10 on look back on those from -5 and 0 on, which are wild.
    for window in (1, 2):
        assert said[window]["mean"]["stderr"] > 2.0 * plain[window]["mean"]["stderr"]


def _of5(frame: DataFrame) -> dict[int, Any]:
    rows = frame.select(F.unix_timestamp("window.start").alias("at"), "*").collect()
    return {row["at"] // 300: row for row in rows}


def test_bad_use_of_earlier_windows_is_told(spark: SparkSession, stored: DataFrame) -> None:
    with pytest.raises(BadArgument, match="by='route' is no column of the result"):
        stored.transform(hg.pooled("window", by="route"))
    with pytest.raises(BadArgument, match="give a DataFrame of stored results"):
        hg.pooled("window", by="g", earlier="results")  # type: ignore[arg-type]
    with pytest.raises(BadArgument, match="the same one in every window"):
        hg.pooled("window", earlier=stored)
    with pytest.raises(BadArgument, match="give a column's name"):
        hg.pooled("window", by=[3])  # type: ignore[list-item]
    with pytest.raises(BadArgument, match="earlier= has no column 'sum'"):
        stored.transform(hg.pooled("window", by="g", earlier=stored.drop("sum")))
    flat = stored.withColumn("mean", F.col("mean.estimate"))
    with pytest.raises(BadArgument, match="no estimate: store results with whole"):
        stored.transform(hg.pooled("window", by="g", earlier=flat))
    with pytest.raises(BadArgument, match="need one column of time windows, and the result has 0"):
        stored.withColumn("window", F.col("window.start")).transform(hg.pooled("window", by="g"))
    rate = spark.readStream.format("rate").load().selectExpr("timestamp", "value", "1D _weight")
    window = F.window("timestamp", "1 minute").alias("window")
    stream = rate.withWatermark("timestamp", "1 minute").groupBy(window).agg(hg.mean("value"))
    with pytest.raises(BadArgument, match="pool inside foreachBatch"):
        stream.transform(hg.pooled("window", by=()))
    with pytest.raises(BadArgument, match="earlier= is a stream"):
        stored.transform(hg.pooled("window", by="g", earlier=stream))
