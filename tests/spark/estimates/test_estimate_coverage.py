"""Do 95 % intervals hold the truth in 95 of 100 draws? Hundreds of draws, each estimated by Spark.

Populations are fixed and drawn from again and again, as a gate does; a result counts if it saw ten
rows. Bounds are 93 to 97 %, pooled over the groups and strata of a kind of draw: thousands of
intervals, so that chance moves a share by about half a point. Single designs may be a point outside.
By default that is asked of one kind of values; that Spark says what the laboratory measures of many is
in tests/lab/spark/test_interval_twins.py.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.spark.estimates import estimators as hg
from tests.spark.estimates.estimates_draws import SIZES, Population, draws

STRATA = ["one", "kept, alike", "kept, unlike", "two rates"]
DRAWS = 300
#: What is asked of a group takes Spark half a millisecond: with 120 draws of two kinds of strata, chance
#: moves a share by some 0.6 of a point, and the bounds are two away. ``make test-all`` asks all.
if not os.environ.get("HEADGATE_SEARCH"):
    STRATA, DRAWS = STRATA[2:], 120
#: Strata of ten minutes lie in windows that slide by ten; those of seven are cut by them.
SLIDING = ["every 10", "every 7"]
KINDS = ["coin", "counted"]
VALUES = ["normal", "mild", "heavy"]
ALGEBRAIC = ["mean", "sum", "count", "some", "part", "ratio"]
QUANTILES = ["median", "high"]


def estimators(names: list[str]) -> list[Column]:
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
    return [made[name].alias(name) for name in dict.fromkeys(["count", *names])]


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

    def _where(self, designs: list[str]) -> npt.NDArray[np.bool_]:
        return self._seen & np.isin(np.array([key[0] for key in self._keys]), designs)

    def _true(self, name: str) -> npt.NDArray[np.float64]:
        return np.array([self._truth[key][name] for key in self._keys])

    def share(self, name: str, *designs: str) -> float:
        """How often the interval holds the truth, where ten rows or more were seen; no end holds all."""
        low, high, true = self._field(name, "low"), self._field(name, "high"), self._true(name)
        slack = 1e-9 * np.abs(true)
        held = ~(low > true + slack) & ~(high < true - slack)
        return float(held[self._where(list(designs))].mean())

    def calibration(self, name: str, *designs: str) -> float:
        """The real error over the stated one, root mean squares."""
        true, here = self._true(name), self._where(list(designs))
        real = (self._field(name, "estimate") - true) / true
        stated = self._field(name, "stderr") / true
        return float(np.sqrt(np.nanmean(real[here] ** 2) / np.nanmean(stated[here] ** 2)))


def stored(spark: SparkSession, tables: list[pa.Table], folder: Path) -> DataFrame:
    """The draws as a frame of files: as a local relation they would stay in the driver's heap."""
    path = folder / "draws.parquet"
    pq.write_table(pa.concat_tables(tables), path)
    return spark.read.parquet(str(path))


def designs(values: str, kind: str) -> list[str]:
    return [f"{values}, {strata}, {kind}" for strata in STRATA]


def of_values(spark: SparkSession, folder: Path, values: str, names: list[str]) -> Covered:
    rng = np.random.default_rng([20180, VALUES.index(values)])
    tables, truth = [], {}
    for strata in STRATA if values != "heavy" else ["one"]:
        most = 1000 if strata.startswith("kept") else 5000
        groups = [Population.of(rng, values, n, r, strata) for n, r in SIZES.items() if n <= most]
        for kind in KINDS:
            design = f"{values}, {strata}, {kind}"
            tables.append(draws(rng, design, groups, kind, DRAWS))
            truth.update({(design, g): truths(p.y, p.x) for g, p in enumerate(groups)})
    frame = stored(spark, tables, folder).groupBy("design", "draw", "g")
    return Covered(frame.agg(*estimators(names)).toArrow(), ["design", "g"], truth)


@pytest.fixture(scope="module")
def covered(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Covered]:
    """By the kind of values, when a test first asks for it."""
    folder = tmp_path_factory.mktemp
    return cache(lambda values: of_values(spark, folder("draws"), values, ALGEBRAIC))


@pytest.fixture(scope="module")
def quantiles(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Covered:
    return of_values(spark, tmp_path_factory.mktemp("draws"), "mild", QUANTILES)


@pytest.fixture(scope="module")
def sliding(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Covered:
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
    frame = stored(spark, tables, tmp_path_factory.mktemp("draws"))
    frame = frame.withColumn("at", F.timestamp_seconds(F.col("minute") * 60 + 3600))
    window = F.window("at", "30 minutes", "10 minutes").alias("window")
    result = frame.groupBy("design", "draw", "g", window).agg(*estimators(ALGEBRAIC))
    start = (F.col("window.start").cast("long") / 60 - 60).cast("int")
    return Covered(
        result.withColumn("start", start).drop("window").toArrow(), ["design", "g", "start"], truth
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["mean", "sum", "count", "some", "ratio"])
@pytest.mark.parametrize("values", [pytest.param("normal", marks=pytest.mark.long), "mild"])
def test_intervals_hold_the_truth(
    covered: Callable[[str], Covered], values: str, name: str, kind: str
) -> None:
    found, here = covered(values), designs(values, kind)
    if (name, kind) == ("count", "counted"):
        assert found.share(name, *here) == 1.0
        return
    assert 0.93 <= found.share(name, *here) <= 0.97
    assert 0.95 <= found.calibration(name, *here) <= 1.05
    for design in here:
        assert 0.92 <= found.share(name, design) <= 0.98, design


@pytest.mark.parametrize("values", [pytest.param("normal", marks=pytest.mark.long), "mild"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_sum_over_part_of_the_rows_is_a_domain(
    covered: Callable[[str], Covered], kind: str, values: str
) -> None:
    found, here = covered(values), designs(values, kind)
    # A condition that few rows meet leaves fewer than ten of them: wide t intervals.
    assert 0.93 <= found.share("part", *here) <= 0.98
    assert 0.95 <= found.calibration("part", *here) <= 1.05


@pytest.mark.long
def test_heavy_skew_is_where_it_fails(covered: Callable[[str], Covered]) -> None:
    """A lognormal with a sigma of 1.5: the docs say that 25 to 100 rows do not do, but better than t."""
    for kind in KINDS:
        assert 0.82 <= covered("heavy").share("mean", f"heavy, one, {kind}") <= 0.93
        assert 0.93 <= covered("heavy").share("some", f"heavy, one, {kind}") <= 0.97


@pytest.mark.long  # that they are those of slow twins is in test_estimators.py
@pytest.mark.parametrize("kind", KINDS)
def test_quantiles(quantiles: Covered, kind: str) -> None:
    alike = [f"mild, {strata}, {kind}" for strata in STRATA if not strata.startswith("kept")]
    for name in QUANTILES:
        assert 0.93 <= quantiles.share(name, *alike) <= 0.975
        assert quantiles.share(name, f"mild, kept, unlike, {kind}") >= 0.93
    assert 0.85 <= quantiles.calibration("median", *alike) <= 1.05


@pytest.mark.long  # what cut strata are taken for is in test_estimators.py
@pytest.mark.parametrize("name", ["mean", "sum", "count", "some", "part", "ratio"])
def test_sliding_windows(sliding: Covered, name: str) -> None:
    for strata in SLIDING:
        assert 0.93 <= sliding.share(name, f"{strata}, coin") <= 0.97
    if name == "count":
        assert sliding.share(name, "every 10, counted") == 1.0
    else:
        assert 0.93 <= sliding.share(name, "every 10, counted") <= 0.97
    # Windows cut the strata of seven minutes: taken for coins, their error is overstated.
    assert sliding.share(name, "every 7, counted") >= 0.93


def _print(found: Covered, names: list[str]) -> None:
    for design in dict.fromkeys(key[0] for key in found._keys):
        cells = [f"{n} {found.share(n, design):.3f} ({found.calibration(n, design):.2f})" for n in names]
        print(f"{design:30}", *cells, flush=True)


if __name__ == "__main__":  # prints every share, for the docs
    DRAWS, STRATA = 300, ["one", "kept, alike", "kept, unlike", "two rates"]
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    for values in (*VALUES, "sliding"):
        with tempfile.TemporaryDirectory() as scratch:
            if values == "sliding":
                factory = SimpleNamespace(mktemp=lambda _, folder=scratch: Path(folder))
                _print(sliding.__wrapped__(session, factory), ALGEBRAIC)  # type: ignore[attr-defined]
            else:
                names = [*ALGEBRAIC, *QUANTILES] if values == "mild" else ALGEBRAIC
                _print(of_values(session, Path(scratch), values, names), names)
