"""Rows that share a fate, without Spark: what is drawn, what is said of it, and what holds the truth."""

from __future__ import annotations

import numpy as np
import pytest
from rich.progress import Progress

from headgate_lab.bench.coverage import coverage
from headgate_lab.bench.coverage.coverage import Size, measure
from headgate_lab.bench.coverage.populations import Grouping, Population, population_of
from headgate_lab.bench.coverage.shared_fate import SHARED, Clusters, mean_of, shared_fate
from headgate_lab.bench.coverage.shared_totals import shared_totals

QUERY = Grouping("tweets", "text_len", ("route",), 60.0)


def _users(users: int = 300, rows: int = 8) -> Population:
    """Two windows of two groups; each user has rows in all four, and habits."""
    rng = np.random.default_rng(9)
    identities = np.repeat(np.arange(users), 4 * rows)
    cells = np.tile(np.repeat(np.arange(4), rows), users)
    values = rng.normal(20.0, 5.0, users)[identities] + rng.normal(0.0, 1.0, len(cells))
    return Population(cells, values, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), identities)


def test_identities_are_kept_with_all_their_rows() -> None:
    people = _users(40)
    clusters = Clusters.of(people)
    assert (len(clusters.sums.values), set(clusters.numbers.tolist())) == (160, {8.0})
    for draw in clusters.drawn((0.2, 0.5), 3, 1):
        assert (draw.rows.n == 8 * draw.sums.n).all()
        assert draw.rows.n * draw.rows.mean == pytest.approx(draw.sums.n * draw.sums.mean)
        middle = 0.5 * (np.asarray(draw.mean["low"]) + np.asarray(draw.mean["high"]))
        assert middle == pytest.approx(draw.rows.mean)


def test_the_mean_by_identities_is_the_textbooks_ratio() -> None:
    sums, numbers = np.array([3.0, 8.0, 20.0]), np.array([1.0, 2.0, 4.0])
    ends = mean_of(np.zeros(3, np.int64), sums, numbers, 5.0)
    rate = 31.0 / 7.0
    square = np.square(sums - rate * numbers).sum() * 20.0 * 1.5 / (5.0 * 7.0) ** 2
    half = 4.302653 * np.sqrt(square)
    assert (ends["low"][0], ends["high"][0]) == pytest.approx((rate - half, rate + half), rel=1e-4)


def test_rows_of_one_fate_need_the_error_of_identities() -> None:
    people = _users()
    for row in shared_fate(QUERY, people, ("user",), (0.1, 0.2), 200, 1):
        assert row["as rows"] < 65.0, row
        assert 91.0 <= row["together"] <= 98.0, row
        assert row["together width"] == pytest.approx(1.0, abs=0.2)
        assert row["rows of one"] == "8.0"
    total = shared_totals(QUERY, people, ("user",), (0.1, 0.2), 200, 1)
    assert total is not None
    assert total["apart"] < total["at once"] - 5.0
    assert total["together"] > 92.0
    assert 91.0 <= total["at once"] <= 98.0
    single = Population(people.cells, people.values, np.arange(4), None, people.identities)
    assert shared_totals(QUERY, single, ("user",), (0.1,), 1, 1) is None


def test_the_bench_tells_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "GROUPINGS", ())
    monkeypatch.setattr(coverage, "SHARED", ((QUERY, ("user",)),))
    monkeypatch.setattr(coverage, "population_of", lambda q, identity=(): _users())
    with Progress(disable=True) as progress:
        tables = measure(Size(5), progress)["context"]["tables"]
    assert [row["statistic"] for row in tables["rows kept together"]] == ["mean", "sum"]
    assert len(tables["totals over groups that share identities"]) == 1


def test_real_rows_have_identities() -> None:
    query, identity = next((q, i) for q, i in SHARED if q.data == "DEBS taxis")
    people = population_of(query, identity=identity)
    if people is None:
        pytest.skip("the data file is not here")
    assert people.identities is not None
    assert len(people.identities) == len(people.values)
    assert 1 < len(np.unique(people.identities)) == people.identities.max() + 1 < len(people.values)
