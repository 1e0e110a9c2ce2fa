"""What stands in for aggregates that came later is exact; what cannot be had is said at the call."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import headgate as hg
from headgate.spark.versions import aggregates
from headgate.spark.versions.aggregates import first_rows, sorted_rows
from headgate.spark.versions.supported import SparkVersion
from tests.spark.conftest import records


@pytest.fixture
def on_spark_4_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregates, "version_of", lambda spark: SparkVersion.read("4.0.5"))


def _rows() -> list[tuple[str, int | None, int, dict[str, int]]]:
    chance = random.Random(3)
    rows: list[tuple[str, int | None, int, dict[str, int]]] = [("none", None, 0, {})]
    for n in range(300):
        value = None if n % 11 == 0 else chance.randrange(20)
        rows.append((f"g{n % 3}", value, n, {"n": n}))
    return rows


@pytest.mark.every_spark
@pytest.mark.matrix
@pytest.mark.parametrize("least", [True, False])
@pytest.mark.parametrize("k", [1, 5, 1000])
def test_the_first_rows_of_a_group_are_those_of_a_sort(spark: SparkSession, k: int, least: bool) -> None:
    """Twenty values in a hundred rows: most ties are broken by the second column."""
    frame = spark.createDataFrame(_rows(), "g string, v int, n int, m map<string, int>")
    ranked = F.when(F.col("v").isNotNull(), F.struct("v", "n"))
    row = F.struct("n", "m")
    found = frame.groupBy("g").agg(
        first_rows(spark, row, ranked, k, least).alias("now"),
        sorted_rows(row, ranked, k, least).alias("older"),
    )
    for group, now, older in found.collect():
        mine = [(v, n) for g, v, n, _ in _rows() if g == group and v is not None]
        truth = [n for _, n in sorted(mine, reverse=not least)[:k]]
        assert [r["n"] for r in older] == truth
        assert [r["n"] for r in now or []] == truth
        assert all(r["m"] == {"n": r["n"]} for r in older)


@pytest.mark.usefixtures("on_spark_4_0")
def test_a_plan_from_history_is_refused_where_spark_cannot_count_groups(
    file_stream: Any, control: Path
) -> None:
    gate = hg.gate("g", rate=0.5, policy=hg.ConceptDriven("route", counts="history"), control=control)
    says = r"gate 'g': .* needs Spark 4\.1 or newer, and this is 4\.0\.5: use counts=\"batch\""
    with pytest.raises(hg.UnsupportedSpark, match=says):
        file_stream().frame().transform(gate)
    assert not (control / "gates" / "g").exists(), "a refused call leaves nothing behind"


@pytest.mark.usefixtures("on_spark_4_0")
def test_groups_that_kept_no_row_are_counted_without_their_names(
    file_stream: Any, run_all: Callable[..., Any], control: Path
) -> None:
    stream = file_stream()
    for batch in range(2):
        stream.add([{"id": 100 * batch + i, "route": f"r{i}", "fare": 1.0} for i in range(100)])
    policy = hg.ConceptDriven("route", overflow="smallest")
    gate = hg.gate("g", rate=0.1, policy=policy, control=control)
    run_all(stream.frame().transform(gate))
    last = records(control, "g")[-1]
    assert last.kept + last.shed == last.arrived == 100
    assert last.found.measures["groups_yielded"] > 0
    assert last.found.groups == {}
