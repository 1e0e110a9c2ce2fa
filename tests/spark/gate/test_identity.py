"""A row's hash: every type, the same in stream and batch, nested rates, equal rows together."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import functions as F

import headgate as hg
from headgate.spark.gate.identity import _parts, require_columns
from tests.harness.session_settings import with_settings

ROW_TYPES = (
    "id bigint, name string, price decimal(18,4), at timestamp, day date, tags array<string>, "
    "place struct<lat:double,lon:double>, extra map<string,int>, deep struct<m:map<string,int>>, "
    "raw binary, flag boolean"
)


def _row(i: int) -> tuple[object, ...]:
    return (
        i,
        None if i % 3 == 0 else f"name {i}",
        Decimal(i) / 7,
        datetime(2026, 1, 1, 0, 0, i % 60),
        None,
        [f"t{i % 5}", None],
        (i / 3, None),
        {"a": i, "b": 1},
        ({"x": i},),
        bytes([i % 256]),
        i % 2 == 0,
    )


@pytest.fixture(scope="module")
def rows(spark):
    schema = ROW_TYPES
    return spark.createDataFrame([_row(i) for i in range(4000)], schema).cache()


def test_every_type_is_hashed_and_the_rate_is_met(rows) -> None:
    kept = rows.transform(hg.gate("types", rate=0.3))
    assert 0.25 < kept.count() / 4000 < 0.35


@pytest.mark.parametrize(
    "column", [c.split()[0] for c in ROW_TYPES.replace("map<string,int>", "m").split(", ")]
)
def test_each_column_can_be_the_identity(rows, column: str) -> None:
    kept = rows.transform(hg.gate("one", rate=0.5, identity=column))
    assert 0 <= kept.count() <= 4000


def test_the_decision_does_not_depend_on_partitioning_or_order(rows) -> None:
    gate = hg.gate("types", rate=0.3)
    ids = {r.id for r in rows.transform(gate).select("id").collect()}
    shuffled = rows.repartition(7).orderBy("name").transform(gate)
    assert {r.id for r in shuffled.select("id").collect()} == ids


def test_equal_rows_share_a_fate_and_weights_stay_unbiased(spark) -> None:
    twins = spark.createDataFrame([(i % 200,) for i in range(4000)], "k int")
    counts = twins.transform(hg.gate("twins", rate=0.5)).groupBy("k").count().collect()
    assert {r["count"] for r in counts} == {20}, "all twenty copies of a row, or none"
    totals = [
        twins.transform(hg.gate("twins", rate=0.5, seed=s)).agg({"_weight": "sum"}).collect()[0][0] or 0
        for s in range(12)
    ]
    assert sum(totals) / len(totals) == pytest.approx(4000, rel=0.1)


def test_all_null_rows_and_empty_frames_pass(spark) -> None:
    nulls = spark.createDataFrame([(None, None)] * 50, "a int, b string")
    assert nulls.transform(hg.gate("nulls", rate=0.5)).count() in (0, 50)
    assert spark.createDataFrame([], "a int").transform(hg.gate("empty", rate=0.5)).count() == 0


def test_rate_one_keeps_every_row_with_weight_one(rows) -> None:
    kept = rows.transform(hg.gate("all", rate=1.0)).select("_weight").collect()
    assert len(kept) == 4000
    assert {r._weight for r in kept} == {1.0}


def test_gates_of_other_names_decide_independently_and_weights_multiply(rows) -> None:
    both = rows.transform(hg.gate("first", rate=0.5)).transform(hg.gate("second", rate=0.5))
    kept = both.select("_weight").collect()
    assert 0.2 < len(kept) / 4000 < 0.3
    assert {r._weight for r in kept} == {4.0}


def test_columns_with_dots_and_backticks_are_columns_like_others(spark) -> None:
    odd = spark.createDataFrame([(i, i) for i in range(100)], "`a.b` int, `c``d` int")
    assert odd.transform(hg.gate("odd", rate=0.5)).columns == ["a.b", "c`d", "_weight"]


# ---------------------------------------------------------------- columns, found as Spark finds them


@pytest.fixture
def logged(spark, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What pyspark logs of errors that it raises, where it knows the lines that operations stand on."""
    monkeypatch.setattr("pyspark.errors.utils._enable_debugging_cache", True)
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("DataFrame", "SQL")]
    keep = Keep()
    for logger in loggers:
        logger.addHandler(keep)
    with with_settings(spark, {"spark.sql.dataFrameQueryContext.enabled": "true"}):
        yield lines
    for logger in loggers:
        logger.removeHandler(keep)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text("aB.` *", min_size=1, max_size=9))
def test_names_are_cut_as_spark_cuts_them(spark, name: str) -> None:
    parser = spark._jvm.org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
    try:
        expected = parser.parseAttributeName(name).mkString("|").split("|")
    except AnalysisException:
        expected = None
    assert _parts(name) == expected


NESTED = (
    "id bigint, Name string, name2 string, place struct<lat:double,Lon:double,in:struct<x:int>>, "
    "tags array<string>, stops array<struct<at:timestamp,n:int not null>>, extra map<string,int>, "
    "codes map<int,string>, deep map<string,struct<y:date>>, `a.b` int, `c``d` int, "
    "both struct<k:int,K:string>"
)
NAMES = [
    "id", "ID", "name", "Name", "NAME2", "nope", "", "place", "place.lat", "PLACE.LON", "place.in.x",
    "place.in.nope", "place.nope", "nope.x", "place.lat.x", "id.x", "tags.x", "stops.at", "stops.N",
    "stops.nope", "stops.at.x", "extra.anything", "deep.k.y", "deep.k.nope", "codes.1", "a.b", "`a.b`",
    "`c``d`", "c`d", "`place`.`lat`", "`place.lat`", "both.k", "both.K", "*", "place.*", "t.id",
    "t.place.lat", "T.id", "t.nope", "u.id", "t.t.id", "`t`.`id`", "id.", ".id", "a..b", " id",
    "current_date",
]  # fmt: skip


@pytest.mark.parametrize("sensitive", ["false", "true"])
def test_columns_are_found_as_spark_finds_them(spark, sensitive: str) -> None:
    spark.conf.set("spark.sql.caseSensitive", sensitive)
    try:
        frame = spark.createDataFrame([], NESTED).alias("t")
        for name in NAMES:
            try:
                expected = frame.select(F.col(name).alias("c")).schema["c"].dataType
            except AnalysisException:
                expected = None
            if name == "current_date":  # a function to Spark, and no column
                expected = None
            try:
                (found,) = require_columns(frame, [name], "by")
            except hg.UnknownColumn:
                found = None
            assert found == expected, name
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_columns_that_no_schema_shows(spark, tmp_path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "rows"))
    rows = spark.read.parquet(str(tmp_path / "rows"))
    (kind,) = require_columns(rows, ["_metadata.file_name"], "by")
    assert kind.simpleString() == "string"
    spark.range(3).createOrReplaceTempView("seen")
    (kind,) = require_columns(spark.table("seen"), ["seen.id"], "by")
    assert kind.simpleString() == "bigint"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nope", r"by='nope': the DataFrame has no such column; it has id, Name, .*both"),
        ("place.nope", r"by='place\.nope': the DataFrame has no such column"),
        ("nope.lat", "no such column"),
        ("stops.nope", "no such column"),
        ("`place.lat`", "no such column"),
        ("a.b", r"by='a\.b': without backticks .* name the column '`a\.b`'"),
        ("c`d", r"by='c`d' is not how a column is named: .*backticks"),
        ("", "is not how a column is named"),
        (3, "by=3 is not how a column is named"),
        (None, "by=None is not how a column is named"),
    ],
)
def test_an_unknown_column_is_told_by_us_alone(spark, logged, name, says: str) -> None:
    frame = spark.createDataFrame([], NESTED)
    with pytest.raises(hg.UnknownColumn, match=says):
        require_columns(frame, [name], "by")
    assert logged == []


def test_pyspark_would_log_it(spark, logged) -> None:
    with pytest.raises(AnalysisException):
        spark.range(1).select("nope")
    assert len(logged) == 1, "or the test above cannot fail"


def test_two_columns_of_one_name(spark) -> None:
    once = spark.range(3)
    (kind,) = require_columns(once.select("id", "id"), ["id"], "by")
    assert kind.simpleString() == "bigint", "one column, twice, is one column"
    two = once.selectExpr("id", "id + 1 as ID")
    with pytest.raises(hg.UnknownColumn, match=r"by='id': .* 2 columns of this name \(id, ID\); rename"):
        require_columns(two, ["id"], "by")
