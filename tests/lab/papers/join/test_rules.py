"""Our own rules: capacity control, cells, content; and the comparison that `bench join-rules` prints."""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate.joins.conditions import Overlap
from headgate_lab.papers.join.bound import clairvoyant
from headgate_lab.papers.join.capacity import CapacityControl, fraction_for
from headgate_lab.papers.join.cells import CellCounts, fill
from headgate_lab.papers.join.content import choose_pairs, elementary, item_table, scores
from headgate_lab.papers.join.rules import Cells, Content, Directed, Rule
from headgate_lab.papers.join.selectors import Layout, build, coming_sizes
from headgate_lab.sim.join.bound import bound
from headgate_lab.sim.join.compare import RULES, SCENARIOS, compare
from headgate_lab.sim.join.cpu import JoinSetup, run
from headgate_lab.sim.join.stream import Workload, stream

positive = st.floats(0.01, 100.0)


@given(st.floats(0.0, 1.5), st.floats(0.0, 1.0))
def test_the_fraction_for_a_share_pays_for_the_sample_too(share: float, sampling: float) -> None:
    fraction = fraction_for(share, sampling)
    assert 0 <= fraction <= 1
    assert fraction + sampling * fraction * (1 - fraction) == pytest.approx(min(1.0, share), abs=1e-9)


def test_capacity_control_divides_the_speed_among_those_who_come_and_wait() -> None:
    control = CapacityControl(margin=1.0)
    assert control.per_tuple(100, 0) == float("inf")
    control.observe(comparisons=1000, busy_s=0.5)
    control.observe(comparisons=0, busy_s=0.0)
    assert control.per_tuple(100, 100) == pytest.approx(2000 / 150)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=12), st.floats(0.0, 500.0))
def test_fill_is_the_optimal_fractional_knapsack(
    items: list[tuple[float, float]], budget: float
) -> None:
    value, volume = (np.array(column) for column in zip(*items, strict=True))
    taken = fill(value[None, :], volume, budget)[0]
    assert np.all((taken >= 0) & (taken <= 1))
    assert (taken * volume).sum() == pytest.approx(min(budget, volume.sum()))
    left, best = budget, 0.0
    for worth, size in sorted(items, reverse=True):
        best += worth * min(size, max(0.0, left))
        left -= size
    assert (taken * volume * value).sum() == pytest.approx(best)
    assert np.allclose(clairvoyant(value, np.ones(len(value)), volume, budget), taken * volume)


@given(st.lists(st.floats(0.0, 2.0), max_size=7), st.integers(1, 5))
def test_the_score_is_the_sum_of_all_products(values: list[float], degree: int) -> None:
    truth = sum(prod(some) for some in combinations(values, degree))
    assert elementary(np.array(values), degree).item() == pytest.approx(truth)


def test_scores_look_into_blocks_and_the_best_pairs_fill_the_budget() -> None:
    table = item_table([frozenset({0, 1}), frozenset({2})], 3)
    shares = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.25]])
    assert np.allclose(scores(table, shares, 2), [[0.25, 0.0], [0.0, 0.0]])
    assert np.allclose(scores(table, shares, 1), [[1.0, 1.0], [0.0, 0.25]])
    chosen = choose_pairs(scores(table, shares, 2), np.full((2, 2), 10.0), 5.0)
    assert chosen.tolist() == [[0.5, 0.0], [0.0, 0.0]]
    with pytest.raises(BadArgument, match="1 or more"):
        elementary(np.ones(3), 0)


def counts(half_life_s: float = 10.0, kinds: int = 1) -> CellCounts:
    return CellCounts((2, 2), np.ones((kinds, kinds)), half_life_s)


def test_plans_spend_the_budget_on_what_yields_and_try_what_is_unknown() -> None:
    cells, random = counts(), np.random.default_rng(1)
    seen = np.array([[[1e5], [0.0]], [[1e5], [1e5]]])
    cells.add(seen, seen, np.array([[[1000.0], [0.0]], [[10.0], [10.0]]]), np.full((2, 1), 50.0), 1.0)
    sizes, probes = np.full((2, 2), 100.0), np.full(2, 0.5)
    shares = cells.plan(sizes, probes, 50.0, 400, random)
    assert shares.shape == (400, 2, 1, 2)
    spent = (shares.transpose(0, 1, 3, 2) * sizes[None, :, :, None] * 0.5).sum(axis=(1, 2, 3))
    assert np.allclose(spent, 50.0)
    mean = shares.mean(axis=0)[:, 0]
    assert mean[0, 0] > 0.6  # known to be good
    assert 0.02 < mean[0, 1] < 0.2  # unknown: tried in some plans
    assert mean[1].max() < 0.01  # known to be bad


def test_counts_fade_and_a_broken_promise_makes_them_forget() -> None:
    cells, one = counts(), np.ones((2, 2, 1))
    fetched = np.ones((2, 1))
    cells.add(1000 * one, 1000 * one, 100 * one, fetched, 1.0)
    cells.add(0 * one, 0 * one, 0 * one, fetched, 10.0)
    assert cells._stats.matches[0, 0, 0] == pytest.approx(50.0)
    cells.add(1000 * one, 1000 * one, 98 * one, fetched, 10.0)
    assert cells._stats.matches[0, 0, 0] == pytest.approx(123.0)  # as promised
    cells.add(1000 * one, 1000 * one, 0 * one, fetched, 10.0)
    assert cells._stats.matches[0, 0, 0] == pytest.approx(6.15)


def test_a_rare_dear_type_is_searched_first() -> None:
    cells = CellCounts((1, 1), np.array([[9.0, 9.0], [9.0, 1.0]]))
    seen = np.full((2, 1, 2), 1e5)
    cells.add(seen, seen, np.full((2, 1, 2), 1000.0), np.array([[10.0, 90.0], [10.0, 90.0]]), 1.0)
    shares = cells.plan(np.full((2, 1), 100.0), np.full(2, 0.5), 10.0, 8, np.random.default_rng(0))
    assert np.allclose(shares[:, :, 0], 1.0)
    assert shares[:, :, 1].max() < 0.01


def test_sizes_to_come_follow_the_shift() -> None:
    layout = Layout((3.0, 2.0), 1.0, np.ones((1, 1)))
    now = np.array([[40.0, 100.0, 100.0, 60.0], [10.0, 20.0, 10.0, 0.0]])
    later = coming_sizes(now, np.array([100.0, 20.0]), layout, 1.0)
    assert later[0].tolist() == [50.0, 100.0, 100.0, 50.0]
    assert later[1].tolist() == [10.0, 20.0, 10.0, 0.0]


def test_content_has_no_selector() -> None:
    with pytest.raises(BadArgument, match="chooses pairs itself"):
        build(Content(), Layout((2.0, 2.0), 1.0, np.ones((1, 1))))
    for wrong in (lambda: Cells(draws=0), lambda: Cells(half_life_s=0), lambda: Content(batch_s=0)):
        with pytest.raises(BadArgument):
            wrong()


def test_our_rules_beat_the_published_ones_also_when_the_shift_jumps() -> None:
    work = Workload(rates=((100.0, 500.0),), skew=0.8, shift_s=((0.0, 25.0), (50.0, 5.0)))
    setup, streams = JoinSetup(Overlap("x", "x", 3)), stream(work, 4)
    most = bound(work, setup).output_rate(20)
    share: dict[str, float] = {}
    rules: tuple[Rule, ...] = (Directed(), Cells(), Content())
    for rule in rules:
        share[rule.name] = run(streams, setup, rule).output_rate(20) / most
    assert share["cells"] > 0.75
    assert share["content"] > 1.8 * share["rate+time+direction"]


def test_the_comparison_has_a_row_for_every_rule_and_the_bound() -> None:
    chosen = [one for one in SCENARIOS if one.name in ("after the burst", "unequal rates, one jump")]
    short = tuple(one for one in RULES if one.rule.name in ("random drop", Directed.name, "cells"))
    rows = compare(quick=True, scenarios=chosen, rules=short)
    by_scenario: dict[str, dict[str, float]] = {}
    for row in rows:
        by_scenario.setdefault(row["scenario"], {})[row["policy"]] = row["share_of_bound"]
    assert len(by_scenario) == 2
    for shares in by_scenario.values():
        assert set(shares) == {"random drop", "rate+time+direction", "cells", "bound"}
        assert shares["bound"] == 1.0
        assert shares["cells"] > shares["rate+time+direction"]
        assert shares["cells"] > 0.95 * shares["random drop"]
