"""Allocations of a central planner, against slow twins and against what defines them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate.fairness import jain
from headgate_lab.papers.themis import Fluid, fit, log_utility, max_min

pytestmark = pytest.mark.slow

linprog = pytest.importorskip("scipy.optimize").linprog


@st.composite
def fluids(draw: st.DrawFn) -> Fluid:
    queries, nodes = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    query, node = [], []
    for number in range(queries):
        for place in draw(st.sets(st.integers(0, nodes - 1), min_size=1)):
            query.append(number)
            node.append(place)
    rows = len(query)
    load = np.array(draw(st.lists(st.integers(1, 40), min_size=rows, max_size=rows)), float)
    sources = np.bincount(query)[query]
    capacity = np.array(draw(st.lists(st.integers(0, 60), min_size=nodes, max_size=nodes)), float)
    return Fluid(np.array(query), np.array(node), load, 1.0 / sources, capacity)


def fits(fluid: Fluid, kept: Any) -> bool:
    used = np.bincount(fluid.node, fluid.load * kept, minlength=len(fluid.capacity))
    within = (used <= fluid.capacity * (1 + 1e-8) + 1e-6).all()
    return bool(within and (kept >= 0).all() and (kept <= 1).all())


def best(fluid: Fluid, gain: Any, floors: Any) -> float:
    """The most of gain @ kept with every query at its floor at least."""
    rows = len(fluid.query)
    usage = np.zeros((len(fluid.capacity), rows))
    usage[fluid.node, np.arange(rows)] = fluid.load
    sic = np.zeros((fluid.queries, rows))
    sic[fluid.query, np.arange(rows)] = fluid.sic
    found = linprog(
        -gain,
        A_ub=np.vstack([usage, -sic]),
        b_ub=np.concatenate([fluid.capacity, 1e-9 - floors]),
        bounds=(0, 1),
        options={"primal_feasibility_tolerance": 1e-10},
    )
    assert found.status == 0, found.message
    return -float(found.fun)


@settings(max_examples=40, deadline=None)
@given(fluids(), st.booleans())
def test_nobody_can_be_lifted_but_at_the_cost_of_one_that_is_no_higher(
    fluid: Fluid, weighted: bool
) -> None:
    """That is what lexicographic max-min means, asked of each query by a programme of its own."""
    weights = 1.0 + np.arange(fluid.queries) % 3 if weighted else np.ones(fluid.queries)
    found = max_min(fluid, weights)
    assert fits(fluid, found.kept)
    share = found.q_sic / weights
    for query in range(fluid.queries):
        lower = share <= share[query] + 1e-7
        floors = np.where(lower, found.q_sic, 0.0)
        mine = np.where(fluid.query == query, fluid.sic, 0.0)
        assert best(fluid, mine, floors - 1e-8) <= found.q_sic[query] + 1e-5


def crowded(seed: int) -> Fluid:
    """Some 570 queries of 1 to 6 fragments on 18 nodes, the first of which are the most popular."""
    random = np.random.default_rng(seed)
    chances = 1.0 / np.arange(1, 19)
    counts = random.integers(1, 7, 570)
    places = [random.choice(18, count, replace=False, p=chances / chances.sum()) for count in counts]
    query = np.repeat(np.arange(len(counts)), counts)
    load = 150.0 * random.choice([2, 10, 20], len(counts))[query]
    capacity = np.full(18, 0.5 * load.sum() / 18)
    return Fluid(query, np.concatenate(places), load, 1.0 / counts[query], capacity)


@pytest.mark.parametrize("seed", range(8))
def test_many_levels_are_filled_one_after_the_other(seed: int) -> None:
    """Closed queries kept too exactly to their levels once made later programmes infeasible."""
    fluid = crowded(seed)
    found = max_min(fluid)
    assert fits(fluid, found.kept)
    assert len(np.unique(found.q_sic.round(4))) > 3
    for query in np.argsort(found.q_sic)[:: fluid.queries // 4]:
        floors = np.where(found.q_sic <= found.q_sic[query] + 1e-6, found.q_sic, 0.0)
        mine = np.where(fluid.query == query, fluid.sic, 0.0)
        assert best(fluid, mine, floors - 2e-8) <= found.q_sic[query] + 1e-3


@settings(max_examples=40, deadline=None)
@given(fluids())
def test_fit_is_the_most_in_all(fluid: Fluid) -> None:
    found = fit(fluid)
    assert fits(fluid, found.kept)
    assert found.q_sic.sum() == pytest.approx(best(fluid, fluid.sic, np.zeros(fluid.queries)), abs=1e-6)
    assert found.q_sic.sum() >= max_min(fluid).q_sic.sum() - 1e-6


@settings(max_examples=30, deadline=None)
@given(fluids())
def test_log_utility_is_proportionally_fair(fluid: Fluid) -> None:
    """No other allocation has a positive sum of relative changes."""
    fluid = Fluid(fluid.query, fluid.node, fluid.load, fluid.sic, fluid.capacity + 1.0)
    found = log_utility(fluid)
    assert fits(fluid, found.kept)
    other = best(fluid, fluid.sic / found.q_sic[fluid.query], np.zeros(fluid.queries))
    assert other <= fluid.queries * (1 + 2e-3)
    assert found.q_sic.min() <= max_min(fluid).q_sic.min() + 1e-6


def simple(queries: int = 60, capacity: float = 3.4) -> Fluid:
    """Section 7.5: equal queries, all their sources on one of two nodes."""
    numbers = np.arange(queries)
    return Fluid(
        numbers,
        np.zeros(queries, np.int64),
        np.ones(queries),
        np.ones(queries),
        np.array([capacity, 1e9]),
    )


def test_fit_serves_three_queries_and_part_of_a_fourth() -> None:
    sic = np.sort(fit(simple()).q_sic)[::-1]
    assert sic[:4] == pytest.approx([1.0, 1.0, 1.0, 0.4])
    assert (sic[4:] == 0).all()
    assert jain(sic) == pytest.approx(0.061, abs=5e-4)


def test_log_utility_is_fair_in_the_simple_set_up() -> None:
    found = log_utility(simple())
    assert jain(found.q_sic) == pytest.approx(1.0, abs=1e-3)
    assert found.q_sic.sum() == pytest.approx(3.4, abs=1e-3)


def complex_set_up(cap: float, seed: int) -> Fluid:
    """Section 7.5: 20 queries in 3 fragments of 10 sources, 20 in 2 of 2, 20 in 2 of 20; 4 nodes."""
    random = np.random.default_rng(seed)
    kinds = [(3, 10)] * 20 + [(2, 2)] * 20 + [(2, 20)] * 20
    query = np.concatenate([[number] * parts for number, (parts, _) in enumerate(kinds)])
    node = np.concatenate([random.choice(4, parts, replace=False) for parts, _ in kinds])
    load = np.concatenate([[float(sources)] * parts for parts, sources in kinds])
    sic = np.concatenate([[1.0 / parts] * parts for parts, _ in kinds])
    return Fluid(query, node, load, sic, np.full(4, cap * load.sum() / 4))


def test_log_utility_is_less_fair_in_the_complex_set_up() -> None:
    seen = []
    for cap in (0.1, 0.3, 0.5, 0.7):
        fluid = complex_set_up(cap, seed=1)
        log, fair = log_utility(fluid), max_min(fluid)
        assert jain(log.q_sic) < jain(fair.q_sic)
        assert log.q_sic.mean() > fair.q_sic.mean()
        assert log.q_sic.min() < fair.q_sic.min()
        seen.append(jain(log.q_sic))
    assert seen == sorted(seen)


def test_weights_are_shares() -> None:
    found = max_min(simple(3, 1.2), [1.0, 2.0, 3.0])
    assert found.q_sic == pytest.approx([0.2, 0.4, 0.6])


def test_a_query_at_its_limit_leaves_room() -> None:
    """Node 0 serves only query 0 and has room; the others share node 1."""
    one = np.array([0, 1, 2])
    fluid = Fluid(one, np.array([0, 1, 1]), np.full(3, 10.0), np.ones(3), np.array([20.0, 5.0]))
    assert max_min(fluid).q_sic == pytest.approx([1.0, 0.25, 0.25])


@pytest.mark.parametrize(
    "call",
    [
        lambda: Fluid(np.array([0]), np.array([1]), np.ones(1), np.ones(1), np.ones(1)),
        lambda: Fluid(np.array([0]), np.array([0]), np.ones(2), np.ones(1), np.ones(1)),
        lambda: Fluid(np.array([-1]), np.array([0]), np.ones(1), np.ones(1), np.ones(1)),
        lambda: Fluid(np.array([0]), np.array([0]), -np.ones(1), np.ones(1), np.ones(1)),
        lambda: max_min(simple(2, 1.0), [1.0, 0.0]),
        lambda: fit(simple(2, 1.0), [1.0]),
        lambda: log_utility(Fluid(np.array([1]), np.array([0]), np.ones(1), np.ones(1), np.ones(1))),
    ],
)
def test_bad_use_is_told(call: Callable[[], object]) -> None:
    with pytest.raises(BadArgument):
        call()
