"""The level over counts is Algorithm 1 a tuple at a time; quotas add up, weights and costs count."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate.fairness import water_level
from headgate_lab.bench.themis.decision import decision_ms
from tests.fairness import naive

Rows = list[tuple[int, int, Fraction]]


@st.composite
def sites(draw: st.DrawFn) -> tuple[Rows, list[Fraction], list[int]]:
    """Rows of up to 6 queries, where the queries start, and their weights."""
    queries = draw(st.integers(1, 6))
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, queries - 1), st.integers(0, 40), st.integers(1, 4000)),
            min_size=1,
            max_size=24,
        )
    )
    start = draw(st.lists(st.integers(-20, 50), min_size=queries, max_size=queries))
    weights = draw(st.lists(st.integers(1, 5), min_size=queries, max_size=queries))
    return (
        [(query, offered, Fraction(1, inverse)) for query, offered, inverse in rows],
        [Fraction(value, 100) for value in start],
        weights,
    )


@settings(max_examples=300)
@given(sites(), st.floats(0, 1.1), st.booleans())
def test_the_level_equals_algorithm_1(
    site: tuple[Rows, list[Fraction], list[int]], share: float, weighted: bool
) -> None:
    rows, start, weights = site
    if not weighted:
        weights = [1] * len(start)
    capacity = round(share * sum(offered for _, offered, _ in rows))
    found = water_level(
        [query for query, _, _ in rows],
        [offered for _, offered, _ in rows],
        [float(sic) for _, _, sic in rows],
        [float(value) for value in start],
        capacity,
        weights=weights if weighted else None,
    )
    twin = naive.tuple_by_tuple(rows, start, capacity, weights)
    queries = np.array([query for query, _, _ in rows])
    mine = np.bincount(queries, found.keep, minlength=len(start))
    assert found.keep.sum() == sum(twin)
    assert np.abs(mine - np.array(twin)).max() <= 1
    sic = np.array([float(value) for value in start]) + np.bincount(
        queries, found.keep * np.array([float(sic) for _, _, sic in rows]), minlength=len(start)
    )
    assert found.sic == pytest.approx(sic)


@given(sites(), st.floats(0, 1), st.data())
def test_costs_are_paid_and_nothing_is_left_that_fits(
    site: tuple[Rows, list[Fraction], list[int]], share: float, data: st.DataObject
) -> None:
    rows, start, weights = site
    cost = np.array(data.draw(st.lists(st.floats(0.5, 9), min_size=len(rows), max_size=len(rows))))
    offered = np.array([count for _, count, _ in rows])
    capacity = share * float((offered * cost).sum())
    found = water_level(
        [query for query, _, _ in rows],
        offered,
        [float(sic) for _, _, sic in rows],
        [float(value) for value in start],
        capacity,
        weights=weights,
        cost=cost,
    )
    left = capacity - float((found.keep * cost).sum())
    assert left >= -1e-6
    assert ((found.keep >= 0) & (found.keep <= offered)).all()
    assert (cost[found.keep < offered] > left - 1e-6).all()


@given(sites(), st.floats(0, 1))
def test_within_a_query_the_most_valuable_are_taken(
    site: tuple[Rows, list[Fraction], list[int]], share: float
) -> None:
    rows, start, _ = site
    total = sum(offered for _, offered, _ in rows)
    found = water_level(
        [query for query, _, _ in rows],
        [offered for _, offered, _ in rows],
        [float(sic) for _, _, sic in rows],
        [float(value) for value in start],
        share * total,
    )
    for (query, offered, sic), kept in zip(rows, found.keep, strict=True):
        if kept < offered:  # then nothing that is worth less was taken
            worse = [n for (q, _, s), n in zip(rows, found.keep, strict=True) if q == query and s < sic]
            assert not any(worse)


def test_expensive_tuples_of_a_query_wait() -> None:
    found = water_level([0, 0], [10, 10], [0.02, 0.015], [0.0], 10.0, cost=[4.0, 1.0])
    assert found.keep.tolist() == [0, 10]


def test_equal_queries_share_alike() -> None:
    """All take their next tuple at one level, so there is a step of as many tuples as queries."""
    found = water_level(
        np.arange(500), np.full(500, 40), np.full(500, 1 / 400), np.zeros(500), 7 * 500 + 3
    )
    assert sorted(found.keep.tolist()) == [7] * 497 + [8] * 3


def test_few_steps_are_needed() -> None:
    random = np.random.default_rng(1)
    query = np.repeat(np.arange(300), 20)
    offered = random.integers(10, 66, len(query))
    for share in (0.01, 0.1, 0.3, 0.7, 0.99):
        capacity = int(share * offered.sum())
        start = random.uniform(-0.1, 0.3, 300)
        found = water_level(query, offered, 1 / (800.0 * offered), start, capacity)
        assert found.keep.sum() == capacity
        assert found.steps <= 30
        # Served queries end within a tuple of the level; the others were above it or gave all they had.
        kept = np.bincount(query, found.keep)
        served = (kept > 0) & (kept < np.bincount(query, offered))
        assert np.abs(found.sic[served] - found.level).max() <= 2 / (800.0 * 10)
        assert (found.sic[kept == 0] >= found.level - 1e-12).all()


def test_nothing_offered_and_nothing_fits() -> None:
    assert water_level([], [], [], [0.1], 5).keep.tolist() == []
    assert water_level([0], [5], [0.1], [0.0], 0).keep.tolist() == [0]
    assert water_level([0], [5], [0.1], [0.0], 0.9).keep.tolist() == [0]
    assert water_level([0], [5], [0.1], [0.0], 5).level == np.inf


@pytest.mark.parametrize(
    "call",
    [
        lambda: water_level([0], [1, 2], [0.1], [0.0], 1),
        lambda: water_level([1], [1], [0.1], [0.0], 1),
        lambda: water_level([-1], [1], [0.1], [0.0], 1),
        lambda: water_level([0], [-1], [0.1], [0.0], 1),
        lambda: water_level([0], [1], [0.0], [0.0], 1),
        lambda: water_level([0], [1], [float("nan")], [0.0], 1),
        lambda: water_level([0], [1], [0.1], [float("nan")], 1),
        lambda: water_level([0], [1], [0.1], [0.0], 1, weights=[0.0]),
        lambda: water_level([0], [1], [0.1], [0.0], 1, weights=[1.0, 1.0]),
        lambda: water_level([0], [1], [0.1], [0.0], 1, cost=[0.0]),
    ],
)
def test_bad_use_is_told(call: Callable[[], object]) -> None:
    with pytest.raises(BadArgument):
        call()


def test_the_decision_is_timed() -> None:
    found = decision_ms(fragments=40, sources=5, repeats=2)
    assert (
        set(found["cpu_ms"]) == set(found["wall_ms"]) == {"mirror", "uniform", "random", "BALANCE-SIC"}
    )
    assert all(value > 0 for value in found["wall_ms"].values())
    assert found["share_of_interval"] < 1
