"""The laboratory's trials of intervals: draws, tallies, and what the tables say."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from rich.progress import Progress

from headgate.errors import BadArgument
from headgate_lab.bench.coverage import coverage, populations
from headgate_lab.bench.coverage.coverage import Size, measure, run
from headgate_lab.bench.coverage.draws import DRAWS, Kept, kept_cells
from headgate_lab.bench.coverage.intervals import METHODS, intervals
from headgate_lab.bench.coverage.page import markdown
from headgate_lab.bench.coverage.populations import GROUPINGS, Grouping, Population
from headgate_lab.bench.coverage.tally import BANDS, Tally

SHARES = (0.05, 0.1)


def _mostly_constant(groups: int = 60, size: int = 200) -> Population:
    """Every group has its own value, and one row in fifty is ten times that."""
    rng = np.random.default_rng(4)
    cells = np.repeat(np.arange(groups), size)
    values = (5.0 + cells % 7) * np.where(rng.random(len(cells)) < 0.02, 10.0, 1.0)
    return Population(cells, values, np.zeros(groups, np.int64))


@pytest.mark.parametrize("draw", DRAWS)
def test_a_draw_keeps_what_it_says(draw: str) -> None:
    people = _mostly_constant(20)
    for share, kept in kept_cells(people, draw, SHARES, 3, 0):
        if draw == "fixed":
            assert kept.n.tolist() == [200 * share] * 20
            assert (kept.n * kept.weight).tolist() == pytest.approx([200.0] * 20)
        else:
            assert kept.weight.tolist() == [1.0 / share] * len(kept.n)
            assert 0.5 * share < kept.n.sum() / 4000 < 2.0 * share
        assert (kept.m2 >= 0.0).all()
        assert ((kept.mean >= 5.0) & (kept.mean <= 110.0)).all()


def test_moments_are_those_of_the_kept_rows() -> None:
    people = Population(np.zeros(4, np.int64), np.array([1.0, 2.0, 4.0, 9.0]), np.zeros(1, np.int64))
    ((_, kept),) = kept_cells(people, "fixed", (1.0,), 1, 0)
    y = people.values
    assert kept.mean[0] == pytest.approx(y.mean())
    assert kept.m2[0] == pytest.approx(y.var())
    assert kept.m3[0] == pytest.approx(((y - y.mean()) ** 3).mean())


def test_rare_large_values_are_what_plain_intervals_miss() -> None:
    """The laboratory in small: no width where all are equal, and a pool that knows of the others."""
    people = _mostly_constant()
    truth, found = people.mean(), {method: Tally() for method in METHODS}
    for _, kept in kept_cells(people, "fixed", SHARES, 40, 1):
        ends = intervals(kept, "mean", coins=False, share=False)
        for method in METHODS:
            found[method].add(ends[method], truth[kept.cell], np.ones(len(kept.n)))
    assert found["plain"].empty > 0.5 * found["plain"].intervals
    assert found["alone"].empty == found["pooled"].empty == 0
    shares = {method: tally.covered or 0.0 for method, tally in found.items()}
    assert shares["plain"] < 0.5
    assert shares["alone"] > shares["plain"]
    assert shares["pooled"] > 0.9


def test_shares_have_wilsons_interval() -> None:
    kept = Kept(
        np.array([0]), np.array([0]), np.array([10.0]), np.array([100.0]), np.array([0.0]),
        np.array([0.0]), np.array([0.0]), np.array([10.0]), np.array([0]),
    )  # fmt: skip
    ends = intervals(kept, "mean", coins=False, share=True)
    assert (ends["plain"]["low"][0], ends["plain"]["high"][0]) == (0.0, 0.0)
    pull = 3.8415 * 0.09
    assert ends["alone"]["high"][0] == pytest.approx(pull / (1.0 + pull), rel=1e-4)
    assert ends["alone"]["low"][0] == 0.0


def test_a_tally_counts() -> None:
    tally = Tally()
    low, high = np.array([0.0, 1.0, np.nan, 2.0]), np.array([2.0, 1.0, np.nan, 4.0])
    tally.add({"low": low, "high": high}, np.array([1.0, 3.0, 1.0, 3.0]), np.array([1.0, 0.0, 1.0, 4.0]))
    assert (tally.intervals, tally.held, tally.unknown, tally.empty) == (3, 2, 1, 1)
    assert tally.width == pytest.approx(0.5, rel=0.01)
    both = Tally()
    both.merge(tally)
    both.merge(tally)
    assert (both.intervals, both.width) == (6, tally.width)
    assert Tally().covered is Tally().width is None


def test_the_bench_says_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Grouping("green taxis", "fare_usd", ("pu_zone",), 60.0)
    away = Grouping("packets", "size_bytes", (), 1.0)
    monkeypatch.setattr(coverage, "GROUPINGS", (query, away))
    here = SimpleNamespace(people=_mostly_constant())
    monkeypatch.setattr(coverage, "SHARED", ((away, ("user",)),))
    monkeypatch.setattr(
        coverage, "population_of", lambda q, identity=(): here.people if q == query else None
    )
    with Progress(disable=True) as progress:
        result = measure(Size(3), progress)
    assert json.loads(json.dumps(result)) == result
    assert result["bench"] == "coverage"
    rows = result["context"]["tables"]["means, by data set"]
    assert {row["rows"] for row in rows} <= set(BANDS)
    assert {row["draw"] for row in rows} == set(DRAWS)
    assert all(row["half"] == "held out" for row in rows)
    assert all(row["plain"] < row["pooled"] for row in rows if row["rows"] == "10-29")
    page = markdown(result).splitlines()
    assert page[0].startswith("| data | kept rows | plain t |")
    assert len(page) == 2 + len({row["rows"] for row in rows})
    assert all(line.count("|") == 8 for line in page), "three draws do not tell the shortest interval"
    rows[0]["shortest width"] = 0.9
    assert all(line.count("|") == 9 for line in markdown(result).splitlines())
    # what an interval that knows the variance covers stands beside, on the same draws
    assert all(60.0 < row["true variance"] <= 100.0 for row in rows)
    assert result["context"]["tables"]["accuracy asked for"][0]["groups within"] > 80.0
    assert "cells that one row carries" in result["context"]["tables"]
    assert result["context"]["tables"]["rows kept together"] == []
    assert result["context"]["remarks"][-1] == "Not here: packets."
    assert 0.0 < result["ratios"]["pooled_least_held_out_10-29"] <= 1.0
    with pytest.raises(BadArgument, match="one of green taxis"):
        run(quick=True, data="taxis")


def test_half_of_the_data_sets_were_not_looked_at() -> None:
    data = {grouping.data for grouping in GROUPINGS}
    assert len(populations.TUNED) == len(data) // 2 == 4
    assert set(populations.TUNED) < data


@pytest.mark.parametrize("data", ["DEBS taxis", "packets"])
def test_a_real_population(data: str) -> None:
    query = next(g for g in GROUPINGS if g.data == data)
    people = populations.population_of(query)
    if people is None:
        pytest.skip("the data file is not here")
    assert people.sizes.min() > 0
    assert people.sizes.sum() == len(people.values) <= 2 * populations.ROWS
    assert (np.diff(people.windows) >= 0).all()
    assert people.mean() @ people.sizes == pytest.approx(people.values.sum())
