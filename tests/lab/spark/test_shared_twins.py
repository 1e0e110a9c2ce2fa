"""What Spark says behind `hg.together` is what the laboratory measures."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headgate.spark.estimates import estimators as hg
from headgate_lab.bench.coverage.intervals import intervals
from headgate_lab.bench.coverage.populations import Population
from headgate_lab.bench.coverage.shared_fate import Clusters


def test_spark_says_of_identities_what_the_laboratory_measures(spark: SparkSession) -> None:
    rng = np.random.default_rng(11)
    identities, cells = rng.integers(0, 60, 900), rng.integers(0, 6, 900)
    values = rng.lognormal(2.0, 1.0, 60)[identities] + rng.random(900)
    people = Population(cells, values, np.zeros(6, np.int64), None, identities)
    share, seed = 0.25, 4
    (draw,) = Clusters.of(people).drawn((share,), 1, seed)
    luck = np.random.default_rng([seed, 0]).random(60)
    kept = np.flatnonzero(luck[identities] < share)
    table = pa.table(
        {
            "cell": cells[kept], "user": identities[kept], "y": values[kept],
            "_weight": np.full(len(kept), 1.0 / share),
        }
    )  # fmt: skip
    users = spark.createDataFrame(table).transform(
        hg.together("user", within="cell", sums={"y": "y", "rows": F.lit(1)})
    )
    result = users.groupBy("cell").agg(hg.ratio("y", "rows").alias("mean"), hg.sum("y").alias("sum"))
    said = {row.cell: row for row in result.collect()}
    measured = {"mean": draw.mean, "sum": intervals(draw.sums, "sum", coins=True, share=False)["alone"]}
    assert sorted(said) == draw.sums.cell.tolist() == list(range(6))
    for name, ends in measured.items():
        for at, cell in enumerate(draw.sums.cell.tolist()):
            for end in ("low", "high"):
                assert said[cell][name][end] == pytest.approx(float(ends[end][at]), rel=2e-5), (
                    name,
                    cell,
                )
    assert [said[cell]["mean"].rows for cell in range(6)] == draw.sums.n.tolist()
