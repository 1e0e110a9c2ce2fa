"""Do 95 % intervals hold the truth in 95 of 100 draws? Hundreds of draws, each estimated by Spark."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from headgate.spark import estimators as hg
from tests.spark.estimates_draws import SIZES, Population, draws

DRAWS = 400
#: values, strata
DESIGNS = [
    (v, s) for v in ("normal", "mild") for s in ("one", "kept, alike", "kept, unlike", "two rates")
]
SLIDING = ["every 10", "every 7"]
KINDS = ["coin", "counted"]


def estimators() -> dict[str, Column]:
    made = {
        "mean": hg.mean("y"),
        "sum": hg.sum("y"),
        "count": hg.count(),
        "some": hg.count(F.when(F.col("x") > 3.0, 1)),
        "part": hg.sum(F.when(F.col("x") > 3.0, F.col("y"))),
        "ratio": hg.ratio("y", "x"),
        "median": hg.median("y"),
        "high": hg.quantile("y", 0.9),
    }
    return {name: column.alias(name) for name, column in made.items()}


def truths(y: npt.NDArray[np.float64], x: npt.NDArray[np.float64]) -> dict[str, float]:
    return {
        "mean": y.mean(),
        "sum": y.sum(),
        "count": len(y),
        "some": (x > 3.0).sum(),
        "part": y[x > 3.0].sum(),
        "ratio": y.sum() / x.sum(),
        "median": float(np.median(y)),
        "high": float(np.quantile(y, 0.9, method="inverted_cdf")),
    }


class Covered:
    """The results of every draw beside the truth."""

    def __init__(
        self, table: pa.Table, keys: list[str], truth: dict[tuple[Any, ...], dict[str, float]]
    ) -> None:
        self._table, self._truth = table, truth
        self._keys = list(zip(*[table[key].to_pylist() for key in keys], strict=True))
        self._seen = self._field("count", "rows") >= 10

    def _field(self, name: str, field: str) -> npt.NDArray[np.float64]:
        column = self._table[name].combine_chunks().field(field)
        return np.array(column.to_numpy(zero_copy_only=False), np.float64)

    def _where(self, design: str) -> npt.NDArray[np.bool_]:
        return self._seen & np.array([key[0] == design for key in self._keys])

    def _true(self, name: str) -> npt.NDArray[np.float64]:
        return np.array([self._truth[key][name] for key in self._keys])

    def share(self, design: str, name: str) -> float:
        """How often the interval holds the truth, where ten rows or more were seen; no end holds all."""
        low, high, true = self._field(name, "low"), self._field(name, "high"), self._true(name)
        slack = 1e-9 * np.abs(true)
        held = ~(low > true + slack) & ~(high < true - slack)
        return float(held[self._where(design)].mean())

    def calibration(self, design: str, name: str) -> float:
        """The real error over the stated one, root mean squares."""
        true, here = self._true(name), self._where(design)
        real = (self._field(name, "estimate") - true) / true
        stated = self._field(name, "stderr") / true
        return float(np.sqrt(np.nanmean(real[here] ** 2) / np.nanmean(stated[here] ** 2)))


@pytest.fixture(scope="module")
def covered(spark: SparkSession) -> Covered:
    rng = np.random.default_rng(20180)
    tables, truth = [], {}
    for values, strata in [*DESIGNS, ("heavy", "one")]:
        sizes = {n: r for n, r in SIZES.items() if strata in ("one", "two rates") or n <= 1000}
        groups = [Population.of(rng, values, n, r, strata) for n, r in sizes.items()]
        for kind in KINDS:
            design = f"{values}, {strata}, {kind}"
            tables.append(draws(rng, design, groups, kind, DRAWS))
            truth.update({(design, g): truths(p.y, p.x) for g, p in enumerate(groups)})
    frame = spark.createDataFrame(pa.concat_tables(tables))
    result = frame.groupBy("design", "draw", "g").agg(*estimators().values())
    return Covered(result.toArrow(), ["design", "g"], truth)


@pytest.fixture(scope="module")
def sliding(spark: SparkSession) -> Covered:
    rng = np.random.default_rng(2018)
    tables, truth = [], {}
    for strata in SLIDING:
        groups = [Population.of(rng, "normal", 1500, 0.1, strata) for _ in range(2)]
        for kind in KINDS:
            design = f"{strata}, {kind}"
            tables.append(draws(rng, design, groups, kind, DRAWS))
            for g, p in enumerate(groups):
                for start in range(-20, 60, 10):
                    inside = (p.minute >= start) & (p.minute < start + 30)
                    truth[design, g, start] = truths(p.y[inside], p.x[inside])
    frame = spark.createDataFrame(pa.concat_tables(tables))
    frame = frame.withColumn("at", F.timestamp_seconds(F.col("minute") * 60 + 3600))
    window = F.window("at", "30 minutes", "10 minutes").alias("window")
    result = frame.groupBy("design", "draw", "g", window).agg(*estimators().values())
    start = (F.col("window.start").cast("long") / 60 - 60).cast("int")
    return Covered(
        result.withColumn("start", start).drop("window").toArrow(), ["design", "g", "start"], truth
    )


if __name__ == "__main__":
    import sys

    s = (
        SparkSession.builder.config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .master("local[2]")
        .getOrCreate()
    )
    s.sparkContext.setLogLevel("OFF")
    for fix, ds in (
        (covered, [f"{v}, {t}, {k}" for v, t in [*DESIGNS, ("heavy", "one")] for k in KINDS]),
        (sliding, [f"{t}, {k}" for t in SLIDING for k in KINDS]),
    ):
        import time

        t0 = time.time()
        c = fix.__wrapped__(s) if hasattr(fix, "__wrapped__") else fix._get_wrapped_function()(s)
        for d in ds:
            print(
                f"{d:30}",
                " ".join(f"{n} {c.share(d, n):.3f} ({c.calibration(d, n):.2f})" for n in estimators()),
            )
        print(time.time() - t0)
