"""A row's hash: every type, the same in stream and batch, nested rates, equal rows together."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest

import headgate as hg

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
