"""What Spark says and what the laboratory measures are the same arithmetic: intervals of one draw."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headgate.policies.by_group.counted import counted
from headgate.spark.estimates import estimators as hg
from headgate_lab.bench.coverage.draws import DRAWS, kept_cells
from headgate_lab.bench.coverage.history import with_earlier
from headgate_lab.bench.coverage.intervals import METHODS
from headgate_lab.bench.coverage.populations import Population
from tests.harness.session_settings import FEW_ROWS, with_settings

#: Behind which transform Spark says what the laboratory calls so.
POOLS = {"pooled": "window", "pooled over windows": ()}
#: And with the windows before: three windows of the same twenty groups.
EARLIER = "pooled, earlier"
CELLS = 63
WINDOWS = np.array([*(np.arange(60) // 20), 3, 4, 5])


def _population() -> Population:
    """Three windows of twenty groups: constant ones, skewed ones, of a few rows and of many.

    And three windows of one group each, which have nobody in their windows to borrow from.
    """
    rng = np.random.default_rng(3)
    cells, values = [], []
    for cell in range(CELLS):
        size = int(rng.integers(3, 300))
        of_group = rng.lognormal(rng.normal(2.0, 0.5), 1.0, size)
        if cell % 4 == 0:
            of_group = np.where(rng.random(size) < 0.03, 90.0, float(cell % 8))
        cells.append(np.full(size, cell))
        values.append(of_group)
    return Population(np.concatenate(cells), np.concatenate(values), WINDOWS)


@pytest.fixture(autouse=True)
def _few_rows(spark: SparkSession) -> Iterator[None]:
    with with_settings(spark, FEW_ROWS):
        yield


@pytest.mark.parametrize(
    "draw", [pytest.param(d, marks=[pytest.mark.long] if d == "coins" else []) for d in DRAWS]
)
def test_spark_says_what_the_laboratory_measures(spark: SparkSession, draw: str) -> None:
    people, share = _population(), 0.1
    ((_, kept),) = kept_cells(people, draw, (share,), 1, 5)
    luck = np.random.default_rng([5, 0]).random(len(people.values))
    rows = _rows(people, kept.cell, kept.n, draw, share, luck)
    frame = spark.createDataFrame(rows).withColumn(
        "window", F.expr("named_struct('start', timestamp_seconds(600 * window), "
                         "'end', timestamp_seconds(600 * window + 600))")
    )  # fmt: skip
    result = frame.groupBy("window", "cell", (F.col("cell") % 20).alias("group")).agg(
        hg.mean("y").alias("mean"), hg.sum("y").alias("sum"),
        hg.mean("y", interval="plain").alias("plain"),
    )  # fmt: skip
    result = result.localCheckpoint()  # planning it takes longer than its rows
    frames = {"alone": result} | {m: result.transform(hg.pooled(within)) for m, within in POOLS.items()}
    frames[EARLIER] = result.transform(hg.pooled("window", by="group"))
    said = {m: {row.cell: row for row in f.collect()} for m, f in frames.items()}
    for statistic in ("mean", "sum"):
        measured, _ = with_earlier(kept, np.arange(CELLS) % 20, statistic, coins=draw == "coins")
        for method in (*METHODS[1:], EARLIER):
            _agree(said[method], kept.cell, measured[method], statistic)
        if statistic == "mean":
            _agree(said["alone"], kept.cell, measured["plain"], "plain")


def _rows(
    people: Population, cells: object, n: object, draw: str, share: float, luck: object
) -> pa.Table:
    """The kept rows of the draw, as a gate would leave them."""
    numbers = dict(zip(np.asarray(cells).tolist(), np.asarray(n).tolist(), strict=True))
    chosen, weights = [], []
    for cell, kept in numbers.items():
        here = np.flatnonzero(people.cells == cell)
        order = here[np.argsort(np.asarray(luck)[here])][: int(kept)]
        chosen.append(order)
        ratio = len(here) / kept
        weight = float(counted([ratio])[0]) if draw == "fixed" else 1.0 / share
        weights.append(np.full(len(order), weight))
    rows = np.concatenate(chosen)
    return pa.table(
        {
            "cell": people.cells[rows],
            "window": people.windows[people.cells[rows]],
            "y": people.values[rows],
            "_weight": np.concatenate(weights),
        }
    )


def _agree(said: dict[int, object], cells: object, measured: object, name: str) -> None:
    known = 0
    for at, cell in enumerate(np.asarray(cells).tolist()):
        row = said[cell][name]  # type: ignore[index]
        if row.rows < 2 or row.share >= 1.0 - 1e-9:
            continue
        for end in ("low", "high"):
            expected = float(measured[end][at])  # type: ignore[index]
            where = (name, cell, end)
            assert (row[end] is None) == np.isnan(expected), where
            if row[end] is not None:
                known += 1
                assert row[end] == pytest.approx(expected, rel=2e-5, abs=1e-6), where
    assert known > 20
