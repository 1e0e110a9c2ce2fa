"""docs/estimates.md: its examples run, its errors are Spark's, and what it offers instead works."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from headgate.spark.estimates import estimators as hg
from headgate.spark.estimates import not_estimable
from headgate.spark.gate.call import gate
from tests.harness.session_settings import FEW_ROWS, with_settings

PAGE = Path(__file__).parents[3] / "docs" / "estimates.md"


@pytest.fixture(autouse=True)
def _few_rows(spark: SparkSession) -> Iterator[None]:
    with with_settings(spark, FEW_ROWS):
        yield


def test_the_errors_on_the_page_are_sparks(spark: SparkSession) -> None:
    """docs/estimates.md, "Errors you may meet": each text is what Spark says, in the page's order."""
    events = spark.range(300).selectExpr("timestamp_seconds(id) timestamp", "id value", "'north' route")
    calm = events.transform(gate("estimates", rate=0.5))
    volume = calm.agg(hg.sum("value").alias("volume"))
    mistakes: list[Callable[[], Any]] = [
        lambda: events.agg(hg.mean("value")),
        lambda: calm.agg(hg.mean("valeu")),
        lambda: calm.agg(hg.mean("route")).collect(),
        lambda: calm.agg(hg.mean(F.to_date("timestamp"))),
        lambda: calm.withColumn("m", hg.mean("value")),
        lambda: volume.where("volume > 3"),
    ]
    told = re.findall(r"^```text\n(.*?)\n```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(told) == len(mistakes)
    for text, mistake in zip(told, mistakes, strict=True):
        with pytest.raises(PySparkException) as caught:
            mistake()
        assert str(caught.value).startswith(text)
    with pytest.raises(PySparkException, match="`_weight` cannot be resolved"):
        calm.select("value").agg(hg.mean("value"))
    with pytest.raises(PySparkException, match="MISSING_GROUP_BY"):
        calm.withColumn("m", hg.mean("value").over(Window.partitionBy("route")))


def test_what_the_page_offers_instead(spark: SparkSession) -> None:
    frame = spark.range(4).selectExpr("id value", "string(id) digits", "'north' route", "1D _weight")
    row = frame.drop("_weight").agg(hg.mean("value", weight=F.lit(1.0)).alias("m")).first()
    assert row is not None
    assert (row.m.estimate, row.m.stderr) == (1.5, 0.0)
    row = frame.agg(hg.mean("digits").alias("m"), hg.count("route").alias("c")).first()
    assert row is not None
    assert (row.m.estimate, row.c.estimate) == (1.5, 4.0)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        row = frame.agg(hg.mean("route").alias("m")).first()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert row is not None
    assert (row.m.estimate, row.m.rows) == (None, 0)


def test_the_page_runs(spark: SparkSession, tmp_path: Path) -> None:
    """docs/estimates.md, block by block."""
    import headgate
    from headgate.spark.estimates import estimators

    class Names:
        def __getattr__(self, name: str) -> Any:
            found = [getattr(m, name, None) for m in (estimators, not_estimable)]
            return next((f for f in found if f is not None), None) or getattr(headgate, name)

    events = spark.range(3000).selectExpr(
        "timestamp_seconds(id) timestamp",
        "id value",
        "string(id % 3) route",
        "id % 10 = 0 vip",
        "id % 50 user",
    )
    page = PAGE.read_text()
    names: dict[str, Any] = {"hg": Names(), "events": events, "spark": spark, "path": str(tmp_path)}
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 10
    for block in blocks:
        exec(block, names)
    assert names["sharper"].columns == names["by_route"].columns
    # what is planned once need not be planned for each question
    by_route = names["by_route"].localCheckpoint()
    counted_rows = [
        names[name].select(F.lit(name).alias("of"))
        for name in ("flat", "wide", "rough", "sharper", "rose")
    ]
    numbers = Counter(row.of for row in reduce(DataFrame.union, counted_rows).collect())
    assert numbers["flat"] == numbers["sharper"] == by_route.count() >= 9
    assert numbers["wide"] >= 1
    assert numbers["rough"] == 3
    # every ten minutes the values are larger by 600
    assert numbers["rose"] == 3 * 4
    assert {row.estimate for row in names["vips"].select("vips.estimate").collect()} == {100.0}
    # of one class that is never shed, beside rows that are: exact as a group of its own
    assert {row.stderr for row in names["vips"].select("volume.stderr").collect()} == {None}
    total = {row.vip: row for row in names["total"].collect()}
    vip = total[True]
    assert (vip.estimate, vip.stderr, vip.groups) == (sum(range(0, 3000, 10)), 0.0, 3)
    assert total[False].stderr > 0.0
    for number in (0, 0):  # a batch, and its replay
        names["store"](by_route, number)
    stored = spark.read.parquet(str(tmp_path)).select("window", "route").collect()
    assert len(stored) == 2 * by_route.count()
    assert len(set(stored)) == by_route.count()
    rows = names["of_users"].select("count", "users").collect()
    assert len(rows) == 3 * 5
    assert all(row["count"].low <= 200.0 <= row["count"].high for row in rows)
    assert all(row["users"].low <= 50.0 <= row["users"].high for row in rows)
