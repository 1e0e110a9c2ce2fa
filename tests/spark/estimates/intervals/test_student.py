"""Student's t as a Spark expression, against printed tables."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headgate.spark.estimates.intervals.student import t_quantile, t_sql

#: Degrees of freedom -> two-sided quantiles at 90, 95 and 99 %, from printed tables.
TABLE = {
    1: (6.3138, 12.7062, 63.6567), 2: (2.9200, 4.3027, 9.9248), 3: (2.3534, 3.1824, 5.8409),
    5: (2.0150, 2.5706, 4.0321), 10: (1.8125, 2.2281, 3.1693), 20: (1.7247, 2.0860, 2.8453),
    30: (1.6973, 2.0423, 2.7500), 31: (1.6955, 2.0395, 2.7440), 40: (1.6839, 2.0211, 2.7045),
    60: (1.6706, 2.0003, 2.6603), 120: (1.6577, 1.9799, 2.6174), 10**9: (1.6449, 1.9600, 2.5758),
}  # fmt: skip


@pytest.mark.parametrize(("column", "confidence"), enumerate((0.9, 0.95, 0.99)))
def test_t_is_the_tables(spark: SparkSession, column: int, confidence: float) -> None:
    true = {n: row[column] for n, row in TABLE.items()}
    assert [t_quantile(n, confidence) for n in true if n < 200] == pytest.approx(
        [q for n, q in true.items() if n < 200], abs=6e-5
    )
    frame = spark.createDataFrame([(float(n),) for n in true], "n double")
    found = [r.t for r in frame.select(F.expr(t_sql("n", confidence)).alias("t")).collect()]
    assert found == pytest.approx(list(true.values()), abs=6e-5)


def test_t_between_whole_numbers_falls_steadily(spark: SparkSession) -> None:
    frame = spark.range(1, 5000).selectExpr("id / 100D n")
    found = np.array([r.t for r in frame.select(F.expr(t_sql("n", 0.95)).alias("t")).collect()])
    assert (np.diff(found)[100:] < 0).all()
    assert found[:100] == pytest.approx(12.7062, abs=1e-4)  # below one degree of freedom it is one
