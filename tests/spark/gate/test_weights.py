"""What a weight says of its draw, natively; `tests/policies/by_group/test_draw.py` has the pure half."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headgate.policies.by_group.counted import MOST, counted
from headgate.spark.gate.weights import chained, counted_column, is_counted
from tests.spark.estimates import naive_estimates as naive


def is_odd(weight: float) -> bool:
    return naive.kind(weight) == "counted"


def test_rates_that_people_write_are_coins(spark: SparkSession) -> None:
    rates = [0.1, 1 / 3, 0.02, 0.05, 0.7, 1 / 7, 1.0, *(2.0**-k for k in range(30))]
    coins = [1.0 / rate for rate in rates] + [1e9, 123456.5, 1e300]
    made = [1.5, 10 / 3, 4.0, 1.0000001, 1e6, 1234.5678]
    rows = [(w, False) for w in coins] + [(float(w), True) for w in counted(made)]
    frame = spark.createDataFrame(rows, "w double, expected boolean")
    found = frame.select("w", "expected", is_counted(F.col("w")).alias("found")).collect()
    assert [r.w for r in found if r.found != r.expected] == []
    assert [is_odd(w) for w, _ in rows] == [expected for _, expected in rows]
    # From here on nothing is counted.
    assert counted([MOST, 1e9]).tolist() == [MOST, 1e9]


def test_counted_weights_are_made_natively_too(spark: SparkSession) -> None:
    rng = np.random.default_rng(3)
    weights = np.concatenate([[1.0, 2.0, MOST, 1e9], 1.0 / rng.uniform(1e-6, 1.0, 500)])
    frame = spark.createDataFrame([(float(w),) for w in weights], "w double")
    made = [r.c for r in frame.select(counted_column(F.col("w")).alias("c")).collect()]
    assert made == counted(weights).tolist()


def test_the_weight_behind_two_gates_is_a_coins(spark: SparkSession) -> None:
    odd = float(counted([2.5])[0])
    pairs = [(odd, 1.0), (1.0, odd), (odd, 3.0), (odd, odd), (2.0, 5.0)]
    frame = spark.createDataFrame(pairs, "a double, b double")
    product = chained(F.col("a"), F.col("b"))
    found = frame.select(product.alias("w"), is_counted(product).alias("c")).collect()
    assert [r.c for r in found] == [True, True, False, False, False]
    assert [r.w for r in found] == pytest.approx([a * b for a, b in pairs], rel=1e-15)
    pairs = [(None, odd), (None, 3.0), (None, 1.0)]  # a row that met no gate before
    frame = spark.createDataFrame(pairs, "a double, b double")
    assert [r.w for r in frame.select(product.alias("w")).collect()] == [odd, 3.0, 1.0]
    assert is_odd(3.0 * odd)  # the plain product would have passed for a counted weight
