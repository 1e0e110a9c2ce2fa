"""What intervals are measured with: the narrowest that would do, cells of one row, earlier windows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from rich.progress import Progress

from headgate_lab.bench.coverage import earlier_windows
from headgate_lab.bench.coverage.carried import Carried
from headgate_lab.bench.coverage.draws import Kept, kept_cells
from headgate_lab.bench.coverage.history import METHODS, before
from headgate_lab.bench.coverage.populations import GROUPINGS, Grouping, Population, population_of
from headgate_lab.bench.coverage.shortest import Errors, shortest
from headgate_lab.bench.coverage.tally import BANDS


def _comes_again(groups: int = 30, windows: int = 6, size: int = 60) -> Population:
    """Groups whose spread differs a hundredfold, and stays what it is from window to window."""
    rng = np.random.default_rng(8)
    cells = np.repeat(np.arange(groups * windows), size)
    group = np.arange(groups * windows) % groups
    scale = np.geomspace(0.1, 10.0, groups)[group]
    values = 20.0 + scale[cells] * rng.normal(size=len(cells))
    return Population(cells, values, np.arange(groups * windows) // groups, group)


def test_the_shortest_stretch_that_has_95_percent() -> None:
    assert shortest(np.arange(100.0)) == 94.0
    # five of a hundred far away: they are what it leaves out
    assert shortest(np.concatenate([np.full(95, 1.0), np.full(5, 1e6)])) == 0.0
    rng = np.random.default_rng(1)
    errors = Errors()
    for _ in range(400):
        errors.add(np.array([0.0, 1.0]), np.array([3.0, 12.0]), rng.normal(size=2), np.full(2, 3.92))
    few, five, ten, more = errors.widths(BANDS.values())
    assert five is more is None
    assert few == pytest.approx(1.0, abs=0.12)
    assert ten == pytest.approx(1.0, abs=0.12)
    assert Errors().widths(BANDS.values()) == [None] * 4


def test_a_row_that_carries_its_cell() -> None:
    rng = np.random.default_rng(2)
    cells = np.repeat(np.arange(3), 200)
    values = rng.normal(3.0, 1.0, 600)
    values[0] = 90_000.0
    people = Population(cells, values, np.zeros(3, np.int64))
    found = Carried.of(people)
    assert found.cells.tolist() == [True, False, False]
    assert found.large == 3
    # without the trip the mean is 3, with it 453; one kept row's interval is 3.92 wide
    assert found.reach[0] == pytest.approx(450.0 / 3.92, rel=0.1)
    truth = people.mean()
    for _, kept in kept_cells(people, "fixed", (0.1,), 20, 0):
        off = np.full(len(kept.n), 1.0)
        ends = {"alone": {"low": kept.mean - off, "high": kept.mean + off}}
        found.add(kept, "fixed", ends, truth[kept.cell], off)
    (row,) = found.rows({"query": "miles"}, ("alone",))
    assert (row["cells"], row["of"], row["row missing"]) == (1, 3, 90.0)
    assert row["alone, there"] < 20.0 < 90.0 < row["alone, elsewhere"]
    assert row["width it takes"] > 100.0
    assert Carried.of(_comes_again()).rows({}, ("alone",)) == []


def test_a_window_looks_back_and_never_ahead() -> None:
    windows = np.array([0, 0, 1, 3, 3, 14])
    groups = np.array([5, 6, 5, 5, 6, 5])
    one = np.ones(6)
    kept = Kept(np.arange(6), windows, 3 * one, 9 * one, one, one, one, 3 * one, np.zeros(6, np.int64))
    seen = [sorted(int(at[cell]) for at in before(kept, groups) if at[cell] >= 0) for cell in range(6)]
    assert seen == [[], [], [0], [0, 2], [1], []]


def test_earlier_windows_help_where_groups_repeat_their_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Grouping("green taxis", "fare_usd", ("pu_zone",), 60.0)
    away = Grouping("packets", "size_bytes", (), 1.0)
    monkeypatch.setattr(earlier_windows, "QUERIES", (query, away))
    made = _comes_again()
    monkeypatch.setattr(earlier_windows, "population_of", lambda q, rows: made if q == query else None)
    with Progress(disable=True) as progress:
        result = earlier_windows.measure(4, progress)
    assert json.loads(json.dumps(result)) == result
    rows = {row["rows"]: row for row in result["context"]["tables"]["earlier windows, by data set"]}
    few = rows["2-4"]
    assert few["half"] == "held out"
    assert few["pooled, earlier width"] < 0.8 * few["pooled width"]
    assert few["pooled, earlier"] > 93.0
    assert result["ratios"]["width_held_out_2-4"] < 0.8
    assert "packets: size_bytes" in result["context"]["remarks"][-1]
    page = earlier_windows.markdown(result).splitlines()
    assert all(line.count("|") == len(METHODS) + 3 for line in page)
    assert len(page) == 2 + len(rows)


def test_a_group_is_the_same_one_in_every_window() -> None:
    query = next(g for g in GROUPINGS if g.data == "DEBS taxis" and g.by == ("payment_type",))
    people = population_of(query)
    if people is None:
        pytest.skip("the data file is not here")
    assert people.groups is not None
    assert len(people.groups) == len(people.windows)
    assert len(set(zip(people.windows.tolist(), people.groups.tolist(), strict=True))) == len(
        people.groups
    )
    assert len(np.unique(people.groups)) <= 6
