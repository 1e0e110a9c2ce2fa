"""Figures 7 and 8 of cod-2018 in their smallest form, on the shared session."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from headgate_lab.figures.cod import fig7 as cod_fig7
from headgate_lab.figures.cod import fig8 as cod_fig8
from headgate_lab.figures.cod import latency as cod_latency
from headgate_lab.figures.cod.data import Source
from headgate_lab.figures.cod.latency import AGGREGATES, LATENCY, LATENCY_P95, POLICIES, Size, copied
from headgate_lab.figures.cod.policies import KEPT, OURS, UNIFORM
from headgate_lab.figures.figure import Drawn
from headgate_lab.papers.cod import WindowRows

SMALL = Size(30_000, 1, 1)


@pytest.fixture
def here(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Both figures on the shared session, with small windows of made streams; the cores asked for."""
    asked: list[int] = []

    def session(scratch: Path, cores: int) -> Any:
        asked.append(cores)
        return contextlib.nullcontext(spark)

    monkeypatch.delenv("HEADGATE_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    for module in (cod_fig7, cod_fig8):
        monkeypatch.setattr(module, "local_session", session)
        monkeypatch.setattr(module, "QUICK", SMALL)
    return asked


def _check(drawn: Drawn, places: set[str]) -> None:
    assert {row.x for row in drawn.rows} == places
    for x in places:
        assert [row.policy for row in drawn.rows if row.x == x] == list(POLICIES)
        assert drawn.at(x, "spark", KEPT).mean == 1.0
        for policy in POLICIES:
            average, tail = (drawn.at(x, policy, name).mean for name in (LATENCY, LATENCY_P95))
            assert 0 < average <= tail
    assert all(math.isfinite(claim.number) and claim.number > 0 for claim in drawn.claims)
    assert len({claim.claim for claim in drawn.claims}) == len(drawn.claims)
    assert "made streams" in drawn.title


@pytest.mark.parametrize("aggregates", [("mean",), pytest.param(AGGREGATES, marks=pytest.mark.long)])
def test_figure_7_asks_for_one_core_and_for_two(
    spark: SparkSession, here: list[int], aggregates: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (cod_fig7, cod_latency):
        monkeypatch.setattr(module, "AGGREGATES", aggregates)
    told: list[tuple[int, int]] = []
    before = spark.conf.get("spark.sql.adaptive.enabled")
    drawn = cod_fig7.build(1, True, lambda *both: told.append(both))
    assert spark.conf.get("spark.sql.adaptive.enabled") == before
    assert here == [1, 2]
    points = 2 * len(aggregates)
    assert told == [(n, points) for n in range(1, points + 1)]
    places = {f"{name}, {cores}" for name in aggregates for cores in ("1 core", "2 cores")}
    _check(drawn, places)
    for x in places:
        assert drawn.at(x, OURS, KEPT).mean == pytest.approx(0.02, abs=1e-4)  # one group: to the row
        assert drawn.at(x, UNIFORM, KEPT).mean == pytest.approx(0.02, abs=0.004)
    saved = next(c for c in drawn.claims if c.claim.startswith("mean: one core"))
    plain = drawn.at("mean, 2 cores", "spark", LATENCY).mean
    assert saved.number == plain / drawn.at("mean, 1 core", OURS, LATENCY).mean
    assert saved.holds == (saved.number > 1)


@pytest.mark.long
def test_figure_8_says_what_is_really_kept(here: list[int]) -> None:
    drawn = cod_fig8.build(1, True, lambda *both: None)
    assert here == [2]
    data = ("DEC", "GCM", "DEBS", "GCM by job")
    _check(drawn, {f"{name} {aggregate}" for name in data for aggregate in AGGREGATES})
    assert drawn.at("DEC mean", OURS, KEPT).mean == pytest.approx(0.03, abs=1e-4)
    assert drawn.at("GCM mean", OURS, KEPT).mean == pytest.approx(0.03, abs=1e-4)
    # of taxi routes one row each, which is more than half
    assert drawn.at("DEBS mean", OURS, KEPT).mean > 0.5
    assert drawn.at("DEBS mean", UNIFORM, KEPT).mean == pytest.approx(0.03, abs=0.005)
    verdict = drawn.claims[-1]
    assert (verdict.holds, verdict.number) == (False, drawn.at("DEBS mean", OURS, KEPT).mean)


def test_copies_keep_rows_per_group_where_groups_are_many() -> None:
    many = WindowRows.of(np.arange(300) // 2, np.arange(300.0))
    table = copied(many, 1000)
    assert len(table) == 1200
    keys, counts = np.unique(table["key"].to_numpy(), return_counts=True)
    assert len(keys) == 4 * 150
    assert set(counts.tolist()) == {2}
    assert table["value"].to_numpy().mean() == many.values.mean()
    assert len(np.unique(table["id"].to_numpy())) == 1200
    few = copied(WindowRows.of([0, 0, 1], [1.0, 2.0, 3.0]), 7)
    assert np.bincount(few["key"].to_numpy()).tolist() == [6, 3]
    assert len(copied(many, 10)) == 300  # never less than the window


def test_windows_are_written_once(tmp_path: Path) -> None:
    plan = cod_latency.Replay(Source("dec"), 0.02, Size(1000, 2, 2))
    first = plan.write(tmp_path)
    assert [path.name for path in first] == ["dec-00.parquet", "dec-01.parquet"]
    before = [path.stat().st_mtime_ns for path in first]
    assert plan.write(tmp_path) == first
    assert [path.stat().st_mtime_ns for path in first] == before


def test_a_trimmed_mean_leaves_out_both_ends(spark: SparkSession) -> None:
    rows = [(key, float(value)) for key, n in ((0, 40), (1, 7)) for value in [*range(n - 1), 10_000]]
    frame = spark.createDataFrame(rows, "key bigint, value double")
    column = cod_latency.column_of("trimmed mean").alias("x")
    found = {row["key"]: row["x"] for row in frame.groupBy("key").agg(column).collect()}
    assert found[0] == np.mean(range(2, 38))  # two of forty at either end
    assert found[1] == pytest.approx(np.mean([*range(6), 10_000]))  # too few for that
