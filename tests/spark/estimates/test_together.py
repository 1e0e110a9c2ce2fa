"""Rows that a gate keeps or sheds together: error bars from identities instead of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate.errors import BadArgument, UnknownColumn
from headgate.policies.by_group.counted import counted
from headgate.spark.estimates import estimators as hg
from headgate.spark.estimates.together import IDENTITIES
from headgate.spark.gate.call import gate
from tests.harness.session_settings import FEW_ROWS, with_settings

#: Draws of one population, the users of each, and the rows of a user.
DRAWS, USERS, ROWS = 400, 150, 8


def people(spark: SparkSession) -> DataFrame:
    """The same users again and again, one population a draw: what a user pays is the user's habit."""
    return spark.range(DRAWS * USERS * ROWS).selectExpr(
        "id",
        f"id div {USERS * ROWS} draw",
        f"(id div {ROWS}) % {USERS} user",
        f"10 + ((id div {ROWS}) % {USERS} * 7919) % 50 + (id * 31) % 5 fare",
        f"id % {ROWS} = 0 early",
        f"id % {ROWS} % 2 route",
    )


def truth() -> dict[str, float]:
    user = np.arange(USERS * ROWS) // ROWS
    # (id * 31) % 5 goes through all five values, wherever a draw begins
    fare = 10 + (user * 7919) % 50 + (np.arange(USERS * ROWS) * 31) % 5
    return {"sum": fare.sum(), "mean": fare.mean(), "rides": float(len(fare)), "users": float(USERS)}


def share_held(rows: list[Any], name: str, true: float) -> float:
    return float(np.mean([row[name]["low"] <= true <= row[name]["high"] for row in rows]))


def by_users(frame: DataFrame, *within: str) -> DataFrame:
    users = frame.transform(
        hg.together(("draw", "user"), within=within, sums={"fare": "fare", "rides": F.lit(1)})
    )
    return users.groupBy("draw", *within).agg(
        hg.sum("fare").alias("sum"), hg.ratio("fare", "rides").alias("mean"),
        hg.sum("rides").alias("rides"), hg.sum(IDENTITIES).alias("users"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def kept(spark: SparkSession) -> DataFrame:
    """What a gate keeps of them, users as a whole."""
    users = gate("users", rate=0.2, identity=["draw", "user"])
    return people(spark).transform(users).localCheckpoint()


@pytest.fixture(scope="module")
def honest(kept: DataFrame) -> list[Any]:
    """What is said of each draw from its users."""
    return by_users(kept).collect()


def test_users_that_are_kept_whole_have_the_error_of_users(kept: DataFrame, honest: list[Any]) -> None:
    """As rows that were drawn one by one, the eight of a user would say eight times as much."""
    as_rows = kept.groupBy("draw").agg(
        hg.sum("fare").alias("sum"), hg.mean("fare").alias("mean"), hg.count().alias("rides")
    )
    naive, true = as_rows.collect(), truth()
    assert len(naive) == len(honest) == DRAWS
    for name in ("sum", "mean", "rides"):
        assert share_held(naive, name, true[name]) < 0.65, name
        assert 0.92 <= share_held(honest, name, true[name]) <= 0.98, name
    assert 0.92 <= share_held(honest, "users", true["users"]) <= 0.98
    said = {row["draw"]: row for row in naive}
    for row in honest:
        for name in ("sum", "mean", "rides"):
            assert row[name].estimate == pytest.approx(said[row["draw"]][name].estimate)
        assert row["sum"].rows * ROWS == said[row["draw"]]["sum"].rows


@pytest.mark.long  # hundreds of draws; what weights do is in test_the_formula
def test_several_weights_and_rows_that_are_never_shed(spark: SparkSession) -> None:
    """A rate that changed, and a class that is kept: no total is off, and no error bar too small."""
    frame = people(spark)
    busy = frame.where("id % 2 = 0").transform(
        gate("one", rate=0.2, identity=["draw", "user"], seed=5, keep="early and user < 30")
    )
    calm = frame.where("id % 2 = 1").transform(
        gate("two", rate=0.4, identity=["draw", "user"], seed=5, keep="early and user < 30")
    )
    rows, true = by_users(busy.unionByName(calm)).collect(), truth()
    for name in ("sum", "mean", "rides", "users"):
        estimates = np.array([row[name].estimate for row in rows])
        error = float(estimates.std()) / math.sqrt(DRAWS)
        assert abs(estimates.mean() - true[name]) < 4.0 * error, name
        stated = math.sqrt(np.mean([row[name].stderr ** 2 for row in rows]))
        assert 0.95 <= stated / estimates.std() <= 1.5, name
        assert share_held(rows, name, true[name]) >= 0.93, name


def test_a_total_over_groups_that_share_users(kept: DataFrame, honest: list[Any]) -> None:
    """Users ride both routes: luck of one route is luck of the other, and does not cancel out."""
    by_route = by_users(kept, "route").groupBy("draw")
    totals = by_route.agg(
        hg.total("sum").alias("apart"), hg.total("sum", together=True).alias("shared")
    ).collect()
    true = truth()["sum"]
    assert share_held(totals, "apart", true) < 0.88
    assert share_held(totals, "shared", true) >= 0.93
    whole = {row["draw"]: row["sum"] for row in honest}
    for row in totals:
        assert row["apart"].stderr < row["shared"].stderr
        assert row["shared"].stderr >= whole[row["draw"]].stderr * (1.0 - 1e-9)
        assert row["shared"].estimate == pytest.approx(whole[row["draw"]].estimate)


def test_the_formula(spark: SparkSession) -> None:
    """One user a weight, as by hand; and a user of two weights and a row that was never shed."""
    rows = [("a", 3.0, 10.0), ("a", 4.0, 10.0), ("b", 5.0, 10.0)]
    rows += [("c", 1.0, 4.0), ("c", 2.0, 8.0), ("c", 6.0, 1.0), ("d", 9.0, 1.0), ("e", None, 5.0)]
    frame = spark.createDataFrame(rows, "user string, fare double, _weight double")
    made = frame.transform(hg.together("user", sums={"fare": "fare", "rides": F.lit(1)}))
    assert made.columns == ["user", "fare", "rides", IDENTITIES, "_weight"]
    found = {(r.user, r["_weight"]): (r.fare, r.rides, r[IDENTITIES]) for r in made.collect()}
    assert found == {
        ("a", 10.0): (7.0, 2.0, 1.0),
        ("b", 10.0): (5.0, 1.0, 1.0),
        ("c", 1.0): (6.0, 1.0, 1.0),
        ("c", 8.0): (20.0 / 8.0, 12.0 / 8.0, 0.0),
        ("d", 1.0): (9.0, 1.0, 1.0),
        ("e", 5.0): (None, 1.0, 1.0),
    }
    said = made.agg(hg.sum("fare", interval="plain").alias("sum")).first()
    assert said is not None
    assert said["sum"].estimate == pytest.approx(70.0 + 50.0 + 26.0 + 9.0)
    squares = 90.0 * 7.0**2 + 90.0 * 5.0**2 + 56.0 * 2.5**2
    assert said["sum"].stderr == pytest.approx(math.sqrt(squares))


def test_counted_weights_become_coins(spark: SparkSession) -> None:
    """What was drawn is users, and how many rows those have is luck, whatever the draw of rows was."""
    weight = float(counted([4.0])[0])
    rows = [("a", 3.0, weight), ("a", 4.0, weight), ("b", 5.0, weight)]
    frame = spark.createDataFrame(rows, "user string, fare double, _weight double")
    result = frame.transform(hg.together("user", sums={"rides": F.lit(1)})).agg(
        hg.sum("rides").alias("rides")
    )
    assert result.select("rides.stderr").first()[0] > 0.0  # type: ignore[index]
    assert frame.agg(hg.count().alias("rides")).select("rides.stderr").first()[0] == 0.0  # type: ignore[index]


@pytest.fixture
def _few_rows(spark: SparkSession) -> Iterator[None]:
    with with_settings(spark, FEW_ROWS):
        yield


@pytest.mark.usefixtures("_few_rows")
def test_a_stream_gives_what_the_batch_gives(
    file_stream: Callable[..., Any], run_all: Callable[..., list[Any]]
) -> None:
    source = file_stream("id bigint, at timestamp, user bigint, fare double")
    start = datetime(2030, 1, 1)
    late = start + timedelta(hours=9)
    for batch in range(2):
        times = [start + timedelta(minutes=20 * batch, seconds=3 * i) for i in range(300)]
        # late rows of a window that is open yet, and one that closes all of these
        times += [start + timedelta(minutes=20 * batch - 1)] * (20 * batch) + [late] * batch
        source.add(
            [
                {"id": i, "at": at.isoformat() + "Z", "user": i % 40, "fare": i % 37}
                for i, at in enumerate(times)
            ]
        )
    # Two aggregates in a row: what the first one closes in a batch, the second one closes in the next.
    for number in (9998, 9997):
        source.add([{"id": number, "at": late.isoformat() + "Z", "user": 1, "fare": 1.0}])

    def estimated(frame: DataFrame) -> DataFrame:
        calm = frame.transform(gate("calm", rate=0.3, identity="user"))
        windows = calm.withColumn("window", F.window("at", "20 minutes"))
        users = windows.transform(
            hg.together("user", within="window", sums={"fare": "fare", "rides": F.lit(1)})
        )
        return users.groupBy("window").agg(hg.ratio("fare", "rides").alias("mean"))

    expected = {r.window.start: r for r in estimated(source.batch()).collect()}
    said = run_all(estimated(source.frame().withWatermark("at", "5 minutes")), "append")
    assert len(said) == 2
    for row in said:
        for field in ("estimate", "stderr", "low", "high", "rows"):
            assert row["mean"][field] == pytest.approx(expected[row.window.start]["mean"][field]), field


def test_bad_use_is_told(spark: SparkSession) -> None:
    frame = people(spark)
    calm = frame.transform(gate("users", rate=0.5, identity="user"))
    with pytest.raises(BadArgument, match=r"sums=\{\}: give what to add up"):
        hg.together("user", sums={})
    with pytest.raises(BadArgument, match=r"identity=\(\): name the columns that the gate's"):
        hg.together((), sums={"fare": "fare"})
    with pytest.raises(BadArgument, match="two columns 'user' in the result"):
        hg.together("user", sums={"user": F.lit(1)})
    with pytest.raises(BadArgument, match=r"sums\['fare'\]=3: give a column's name"):
        hg.together("user", sums={"fare": 3})  # type: ignore[dict-item]
    with pytest.raises(UnknownColumn, match="identity='usr': the DataFrame has no such column"):
        calm.transform(hg.together("usr", sums={"fare": "fare"}))
    with pytest.raises(UnknownColumn, match="within='window': the DataFrame has no such column"):
        calm.transform(hg.together("user", within="window", sums={"fare": "fare"}))
    with pytest.raises(UnknownColumn, match="weight='_weight': the DataFrame has no such column"):
        frame.transform(hg.together("user", sums={"fare": "fare"}))
    with pytest.raises(BadArgument, match="together='yes': True if rows of several groups"):
        hg.total("sum", together="yes")  # type: ignore[arg-type]
