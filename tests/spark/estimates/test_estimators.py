"""The estimators equal their slow twins and the textbook, in batch and in streams; bad use is told."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headgate.errors import BadArgument
from headgate.policies.by_group.counted import counted
from headgate.spark.estimates import estimators as hg
from headgate.spark.estimates import not_estimable
from headgate.spark.estimates.intervals.student import t_quantile
from headgate.spark.estimates.sql import SAMPLE
from headgate.spark.gate.call import gate
from tests.harness.session_settings import FEW_ROWS, with_settings
from tests.spark.estimates import naive_estimates as naive

SCHEMA = "g int, y double, b double, _weight double"


@pytest.fixture(autouse=True)
def _few_rows(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    """But for the twins: those are of compiled plans."""
    with with_settings(spark, {} if "groups" in request.fixturenames else FEW_ROWS):
        yield


# ---------------------------------------------------------------- twins


def strata(rng: np.random.Generator, kind: str) -> tuple[list[float | None], list[float]]:
    """Values and weights of one group."""
    n = int(rng.integers(1, 40))
    values: list[float | None] = [float(x) for x in rng.normal(10.0, 4.0, n)]
    if rng.random() < 0.3:
        values = [None if rng.random() < 0.2 else x for x in values]
    made = {
        "kept": lambda: np.ones(n),
        "coin": lambda: np.full(n, 1.0 / rng.uniform(0.02, 0.9)),
        "counted": lambda: counted(np.full(n, (n + int(rng.integers(0, 500))) / n)),
        "cut": lambda: counted(np.full(n, 7.123)),
        "coins": lambda: 1.0 / rng.uniform(0.02, 1.0, n),
    }
    return values, [float(w) for w in made[kind]()]


@pytest.fixture(scope="module")
def groups(spark: SparkSession) -> tuple[Any, dict[int, Any]]:
    """Groups of every mixture, and Spark's frame of them."""
    rng = np.random.default_rng(11)
    kinds = ("kept", "coin", "counted", "cut", "coins")
    mixtures = [[a] for a in kinds] * 8 + [[a, b] for a in kinds for b in kinds] + [list(kinds)] * 3
    made: dict[int, Any] = {}
    for g, mixture in enumerate(mixtures):
        y: list[float | None] = []
        w: list[float] = []
        for part in mixture:
            values, weights = strata(rng, part)
            y, w = y + values, w + weights
        made[g] = (y, [float(x) for x in rng.uniform(0.5, 2.0, len(y))], w)
    made[len(made)] = ([1.0], [1.0], [10.0])
    made[len(made)] = ([1.0, 2.0], [1.0, 1.0], [1.0, 10.0])
    made[len(made)] = ([None, None], [1.0, 1.0], [3.0, 10.0])
    made[len(made)] = ([1.0, 2.0, None, None], [1.0] * 4, [1.0, 1.0, 3.0, 10.0])
    made[len(made)] = ([1.0, 2.0, None, None], [1.0] * 4, [1.0] * 4)
    rows = [(g, *row) for g, columns in made.items() for row in zip(*columns, strict=True)]
    return spark.createDataFrame(rows, SCHEMA).repartition(3), made


def agrees(found: Any, twin: naive.Estimate, what: object) -> None:
    for field, expected in twin.items():
        if field == "sample":
            continue
        value = found[field]
        assert (value is None) == (expected is None), (what, field, value, expected)
        if expected is not None:
            assert value == pytest.approx(expected, rel=1e-6, abs=1e-9), (what, field)


@pytest.mark.every_spark
@pytest.mark.matrix
def test_every_estimator_equals_its_twin(groups: tuple[Any, dict[int, Any]]) -> None:
    frame, made = groups
    result = frame.groupBy("g").agg(
        hg.mean("y", interval="plain").alias("mean"),
        hg.sum("y", interval="plain").alias("sum"),
        hg.count().alias("count"),
        hg.ratio("y", F.col("b"), interval="plain").alias("ratio"),
        hg.median("y").alias("median"),
        hg.quantile("y", 0.8, confidence=0.9).alias("quantile"),
        hg.mean("y", confidence=0.5, interval="plain").alias("half"),
        hg.mean("y").alias("careful"),
        hg.mean("y", confidence=0.5).alias("careful half"),
        hg.sum("y").alias("careful sum"),
        hg.ratio("y", "b").alias("careful ratio"),
    )
    found = {row.g: row for row in result.collect()}
    assert found.keys() == made.keys()
    for g, (y, b, w) in made.items():
        agrees(found[g]["mean"], naive.mean(y, w), ("mean", g))
        agrees(found[g]["half"], naive.mean(y, w, 0.5), ("half", g))
        agrees(found[g]["sum"], naive.total(y, w), ("sum", g))
        agrees(found[g]["count"], naive.count(w), ("count", g))
        agrees(found[g]["ratio"], naive.ratio(y, b, w), ("ratio", g))
        agrees(found[g]["careful"], naive.careful_mean(y, w), ("careful", g))
        agrees(found[g]["careful half"], naive.careful_mean(y, w, 0.5), ("careful half", g))
        agrees(found[g]["careful sum"], naive.careful_total(y, w), ("careful sum", g))
        # Without a skew, and of rows that differ, the careful interval of a ratio is the plain one.
        agrees(found[g]["careful ratio"], naive.ratio(y, b, w), ("careful ratio", g))
        agrees(found[g]["median"], naive.quantile(y, w, 0.5), ("median", g))
        agrees(found[g]["quantile"], naive.quantile(y, w, 0.8, 0.9), ("quantile", g))


# ---------------------------------------------------------------- samples, all in one query

POPULATION, DRAWN = 800, 40
LARGE = [(1e6, 1.0), (1e9, 1e-1), (-1e6, 1e-3), (1e12, 1.0)]
NAN, INFINITY = float("nan"), float("inf")
Sample = list[tuple[float | None, float, float]]


def textbook() -> Any:
    return np.random.default_rng(5).gamma(3.0, 2.0, DRAWN)


def large(centre: float, spread: float) -> tuple[list[float], list[float]]:
    rng = np.random.default_rng(17)
    y = [float(v) for v in centre + spread * rng.normal(size=500)]
    return y, [float(v) for v in np.where(np.arange(500) % 3 == 0, 4.0, 1 / 0.3)]


def hostile() -> list[Sample]:
    """Zeros, what is no number, and what is too large for its square."""
    tiny, huge = map(float, counted([1.0000003, 1e6]))
    return [
        [(0.0, 0.0, 2.0)] * 3,
        [(NAN, 1.0, 2.0), (1.0, 1.0, 3.0)],
        [(INFINITY, 1.0, 2.0), (1.0, 1.0, 2.0)],
        [(1.0, 1.0, tiny), (2.0, -1.0, huge)],
        [(1e300, 1e300, 2.0), (-1e300, 1.0, 3.0)],
        [(1.0, 1.0, 1e300), (2.0, 1.0, 2.0)],
        [(1.0, 1.0, 0.5), (3.0, 1.0, 0.0)],
    ]


@pytest.fixture(scope="module")
def said(spark: SparkSession) -> dict[str, Any]:
    """What every estimator says of each sample: planning them takes longer than their rows."""
    tenth, quarter, part = map(float, counted([POPULATION / DRAWN, 4.0, 4.7]))
    samples: dict[str, Sample] = {
        "textbook": [(float(v), 1.0, tenth) for v in textbook()],
        "alike": [(0.1, 1.0, 4.0)] * 99,
        "nulls": [(5.0 if i < 30 else None, 1.0, 4.0) for i in range(40)],
        "none, coins": [(None, 1.0, 4.0)] * 50,
        "none, draw": [(None, 1.0, quarter)] * 50,
        "by chance": [(1.0 + i % 2, 1.0, 1.0) for i in range(30)] + [(None, 1.0, 50.0)] * 40,
        "whole but nulls": [(5.0 if i % 3 else None, 1.0, 1.0) for i in range(30)],
        "whole": [(5.0, 1.0, part)] * 10,
        "cut": [(5.0, 1.0, part)] * 7,
    }
    for centre, spread in LARGE:
        samples[f"{centre:g}"] = [(y, 1.0, w) for y, w in zip(*large(centre, spread), strict=True)]
    samples |= {f"hostile {place}": sample for place, sample in enumerate(hostile())}
    rows = [(g, *row) for g, sample in samples.items() for row in sample]
    frame = spark.createDataFrame(rows, SCHEMA.replace("g int", "g string")).repartition(4)
    with with_settings(spark, FEW_ROWS):
        # In ANSI mode a division by zero or an overflow would end the query.
        assert spark.conf.get("spark.sql.ansi.enabled") == "true"
        result = frame.groupBy("g").agg(
            hg.mean("y").alias("mean"), hg.mean("y", interval="plain").alias("plain"),
            hg.sum("y").alias("sum"), hg.sum("y", interval="plain").alias("plain sum"),
            hg.count("*").alias("count"), hg.count("y").alias("known"), hg.count("b").alias("b"),
            hg.count(F.when(F.col("y") > 5, 1)).alias("some"),
            hg.ratio("y", "b").alias("ratio"), hg.median("y").alias("median"),
        )  # fmt: skip
        return {row["g"]: row for row in result.collect()}


def test_one_stratum_gives_the_textbooks_error(said: dict[str, Any]) -> None:
    """Cochran: (1 - f) s²/n for the mean, N² times that for the sum, f (1 - f) ... of a share."""
    row, y, population, n = said["textbook"], textbook(), POPULATION, DRAWN
    error = math.sqrt((1 - n / population) * y.var(ddof=1) / n)
    mean, plain = row["mean"], row["plain"]
    assert mean.stderr == pytest.approx(error, rel=1e-6)
    assert plain.stderr == mean.stderr
    assert plain.high - plain.estimate == pytest.approx(t_quantile(n - 1, 0.95) * error, rel=1e-5)
    assert mean.high > plain.high  # towards the tail
    assert plain.low < mean.low < mean.estimate
    assert row["sum"].stderr == pytest.approx(population * error, rel=1e-6)
    count, some = row["count"], row["some"]
    assert (count.estimate, count.stderr) == (population, 0.0)
    assert (count.low, count.high) == (population, population)
    p = (y > 5).mean()
    assert some.estimate == pytest.approx(population * p, rel=1e-6)
    share = math.sqrt((1 - n / population) * p * (1 - p) / (n - 1))
    assert some.stderr == pytest.approx(population * share, rel=1e-6)
    assert some.low < some.estimate < some.high <= population


@pytest.mark.parametrize(("centre", "spread"), LARGE)
def test_large_values_of_small_spread_keep_their_error(
    said: dict[str, Any], centre: float, spread: float
) -> None:
    y, w = large(centre, spread)
    shifted = naive.mean([v - centre for v in y], w)
    assert said[f"{centre:g}"]["mean"].stderr == pytest.approx(shifted["stderr"], rel=1e-4)


def test_equal_values_have_no_plain_error(said: dict[str, Any]) -> None:
    plain = said["alike"]["plain"]
    assert (plain.estimate, plain.stderr) == (pytest.approx(0.1), 0.0)
    # as if one row more had been seen, off by as much as the mean
    assert said["alike"]["mean"].stderr == pytest.approx(0.1 * math.sqrt(0.75 / 99 / 100), rel=1e-6)


def test_nulls_are_skipped_and_counted_apart(said: dict[str, Any]) -> None:
    mean, known, count = (said["nulls"][name] for name in ("mean", "known", "count"))
    assert (mean.estimate, mean.rows, mean.share) == (5.0, 30, 0.25)
    assert (known.estimate, known.rows) == (120.0, 30)
    assert (count.estimate, count.rows) == (160.0, 40)


def test_none_seen_does_not_mean_none_there(said: dict[str, Any]) -> None:
    for name in ("none, coins", "none, draw"):
        known = said[name]["known"]
        assert (known.estimate, known.low, known.rows) == (0.0, pytest.approx(0.0), 0)
        assert 8.0 < known.high < 12.0  # about three rows at the rate of one in four
    every = said["none, draw"]["b"]
    assert every.high == every.estimate == 200.0
    assert 180.0 < every.low < 192.0


def test_values_that_were_all_shed_are_not_known(said: dict[str, Any]) -> None:
    """Kept whole in quiet times, at 2 % in busy ones, and no kept row of these has a value by chance."""
    row = said["by chance"]
    for name in ("mean", "plain", "sum", "plain sum", "ratio", "median"):
        assert row[name].estimate is not None, name
        assert row[name].stderr is row[name].low is row[name].high is None, name
    assert row["known"].low == row["known"].estimate == 30.0 < row["known"].high
    for name in ("mean", "plain", "sum", "plain sum", "ratio", "median"):
        exact = said["whole but nulls"][name]
        assert (exact.stderr, exact.low, exact.high) == (0.0, exact.estimate, exact.estimate), name


def test_cut_strata_are_taken_for_coins(said: dict[str, Any]) -> None:
    """Seven of ten rows of a stratum of 47: what lies behind a filter has no exact count."""
    whole, cut = said["whole"], said["cut"]
    assert (whole["count"].estimate, whole["count"].stderr) == (47.0, 0.0)
    assert cut["count"].estimate == pytest.approx(32.9)
    assert cut["count"].stderr == pytest.approx(math.sqrt(7 * 4.7 * 3.7), rel=1e-5)
    assert cut["plain sum"].stderr == pytest.approx(5.0 * math.sqrt(7 * 4.7 * 3.7), rel=1e-5)


def test_a_query_never_dies_of_its_numbers(said: dict[str, Any]) -> None:
    found = [said[f"hostile {place}"] for place in range(len(hostile()))]
    assert [row["mean"].rows for row in found] == [len(sample) for sample in hostile()]
    # of nothing but zeros a sample does not say how large the others are
    assert found[0]["sum"].high is found[0]["mean"].high is None
    assert found[0]["ratio"].estimate is None


# ---------------------------------------------------------------- nothing, everything


def test_without_rows_there_is_no_estimate(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], SCHEMA)
    row = frame.agg(
        hg.mean("y"), hg.sum("y"), hg.ratio("y", "b"), hg.median("y"), hg.quantile("y", 0.9),
        hg.count().alias("c"),
    ).first()  # fmt: skip
    assert row is not None
    nothing = dict.fromkeys(("estimate", "stderr", "low", "high", "share", "sample")) | {"rows": 0}
    for name in ("mean(y)", "sum(y)", "ratio(y, b)", "median(y)", "quantile(y, 0.9)"):
        assert row[name].asDict() == nothing, name
    assert row.c.asDict() == nothing | {"estimate": 0.0}


def test_what_was_never_shed_is_exact_and_sparks(spark: SparkSession) -> None:
    rng = np.random.default_rng(23)
    rows = [(1, float(v), 2.0, None if i % 2 else 1.0) for i, v in enumerate(rng.normal(size=501))]
    rows += [(1, None, 1.0, 1.0)] * 9
    plain = [F.avg("y"), F.sum("y"), F.count("y"), F.median("y"), F.count(F.lit(1))]
    ours = [hg.mean("y"), hg.sum("y"), hg.count("y"), hg.median("y"), hg.count()]
    row = spark.createDataFrame(rows, SCHEMA).coalesce(1).agg(*plain, *ours).first()
    assert row is not None
    for expected, found in zip(row[:5], row[5:], strict=True):
        assert found.estimate == found.low == found.high == expected
        assert (found.stderr, found.share) == (0.0, 1.0)
    assert [found.rows for found in row[5:]] == [501, 501, 501, 501, 510]


def test_names_and_types(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, 2.0, 1.0, 1.0)], SCHEMA)
    result = frame.groupBy("g").agg(
        hg.mean("y"), hg.count(), hg.sum(F.col("y")), hg.mean(F.col("b")).alias("x")
    )
    assert result.columns == ["g", "mean(y)", "count", "sum(y)", "x"]
    sample = ",".join(f"{name}:double" for name in SAMPLE)
    kind = (
        "struct<estimate:double,stderr:double,low:double,high:double,rows:bigint,share:double,"
        f"sample:struct<{sample}>>"
    )
    assert {field.dataType.simpleString() for field in result.schema.fields[1:]} == {kind}
    read = result.select("x.estimate", F.col("mean(y)")["high"]).first()
    assert read is not None
    assert tuple(read) == (1.0, 2.0)


def test_booleans_and_other_weights(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(i % 4 == 0, 2.0) for i in range(40)], "vip boolean, w double")
    row = frame.agg(
        hg.mean("vip", weight="w").alias("m"), hg.count(weight=F.col("w") * 2).alias("c")
    ).first()
    assert row is not None
    assert (row.m.estimate, row.c.estimate) == (0.25, 160.0)


# ---------------------------------------------------------------- gates and streams


# Append mode, too, is in test_pooled.py and in test_together.py.
@pytest.mark.parametrize("mode", [pytest.param("append", marks=pytest.mark.long), "update"])
def test_a_stream_gives_what_the_batch_gives(
    mode: str, file_stream: Callable[..., Any], run_all: Callable[..., list[Any]]
) -> None:
    source = file_stream("id bigint, at timestamp, route string, fare double")
    start = datetime(2030, 1, 1)
    added: list[list[dict[str, Any]]] = [[], []]
    for part in range(3):
        rows = [(i, start + timedelta(minutes=20 * part, seconds=3 * i)) for i in range(400)]
        # late rows, for windows that were told already in update mode and are open yet
        rows += [(400 + i, start + timedelta(minutes=20 * part - 4)) for i in range(20 * (part > 0))]
        rows += [(999, start + timedelta(hours=9))] * (part == 2)  # and one that closes them
        added[min(part, 1)] += [
            {"id": 1000 * part + i, "at": at.isoformat() + "Z", "route": f"r{i % 2}", "fare": i % 37}
            for i, at in rows
        ]
    for rows in added:
        source.add(rows)

    def estimated(frame: Any) -> Any:
        calm = frame.transform(gate("calm", rate=0.4, keep="route = 'r1'"))
        windows = F.window("at", "30 minutes", "10 minutes").alias("window")
        return calm.groupBy(windows, "route").agg(
            hg.mean("fare").alias("mean"), hg.count().alias("count"), hg.sum("fare").alias("sum"),
            hg.ratio("fare", "id").alias("ratio"), hg.median("fare").alias("median"),
        )  # fmt: skip

    expected = {(r.window.start, r.route): r for r in estimated(source.batch()).collect()}
    stream = estimated(source.frame().withWatermark("at", "1 minute"))
    found = {(r.window.start, r.route): r for r in run_all(stream, mode)}
    assert len(found) >= 16
    assert mode == "append" or found.keys() == expected.keys()
    for key, row in found.items():
        for name in ("mean", "count", "sum", "ratio", "median"):
            agrees(row[name], expected[key][name].asDict(), (key, name))
    assert {row["count"].share for key, row in found.items() if key[1] == "r1"} == {1.0}
    assert all(
        0.2 < row["count"].share < 0.6
        for key, row in found.items()
        if key[1] == "r0" and row["count"].rows > 30
    )


# ---------------------------------------------------------------- bad use


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, -0.1, float("nan"), True, "0.95"])
def test_a_confidence_is_between_0_and_1(confidence: Any) -> None:
    for make in (hg.mean, hg.sum, hg.count, hg.median):
        with pytest.raises(BadArgument, match="confidence"):
            make("fare", confidence=confidence)
    with pytest.raises(BadArgument, match="confidence"):
        hg.ratio("a", "b", confidence=confidence)


@pytest.mark.parametrize("p", [0, 1, 50, -0.5, None, True])
def test_a_quantile_is_between_0_and_1(p: Any) -> None:
    with pytest.raises(BadArgument, match="between 0 and 1"):
        hg.quantile("fare", p)


@pytest.mark.parametrize("column", [3, None, "", ["fare"]])
def test_a_column_is_a_name_or_a_column(column: Any) -> None:
    with pytest.raises(BadArgument, match="give a column's name or a Column"):
        hg.mean(column)


def test_a_missing_weight_is_named(spark: SparkSession) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="_weight"):
        spark.range(3).agg(hg.mean("id"))


@pytest.mark.parametrize("name", not_estimable.__all__)
def test_what_a_sample_does_not_tell_is_refused(name: str) -> None:
    with pytest.raises(BadArgument, match=rf"hg\.{name} does not exist: .*(F\.|hg\.)"):
        getattr(not_estimable, name)("fare")
