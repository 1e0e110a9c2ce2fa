"""Quotas: they add up, stay between least and most, and do what each rule says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate_lab.papers.cod import OVERFLOWS, RULES, allocate
from tests.lab.papers.cod import naive

SIZES = st.lists(st.integers(0, 300), min_size=1, max_size=30)


@given(
    SIZES, st.integers(0, 2000), st.sampled_from(RULES), st.sampled_from(OVERFLOWS), st.integers(0, 3)
)
def test_quotas_add_up_and_stay_in_bounds(
    sizes: list[int], budget: int, rule: str, overflow: str, least: int
) -> None:
    deviations = 1 + np.arange(len(sizes)) % 3
    found = allocate(sizes, budget, rule, least=least, overflow=overflow, deviations=deviations)
    assert (found.quotas >= 0).all()
    assert (found.quotas <= np.array(sizes)).all()
    floor = int(np.minimum(sizes, least).sum())
    if floor <= budget:
        assert found.kept == min(budget, sum(sizes))
        assert (found.quotas >= np.minimum(sizes, least)).all()
        assert not found.exceeded
    elif overflow == "exceed":
        assert found.quotas.tolist() == np.minimum(sizes, least).tolist()
    else:
        assert found.kept <= budget
        assert found.quotas.max(initial=0) <= 1


@given(SIZES, st.integers(0, 2000), st.integers(0, 2))
def test_senate_fills_up_from_the_lowest(sizes: list[int], budget: int, least: int) -> None:
    found = allocate(sizes, max(budget, sum(min(s, least) for s in sizes)), least=least)
    twin = naive.water_level(sizes, least, round(found.asked))
    assert sorted(found.quotas.tolist()) == sorted(twin)  # ties may go to other groups


@given(SIZES, st.floats(0.0, 1.0))
def test_proportional_is_within_a_row_of_the_share(sizes: list[int], share: float) -> None:
    budget = round(share * sum(sizes))
    found = allocate(sizes, budget, "proportional", least=0)
    exact = np.array(sizes) * (budget / max(1, sum(sizes)))
    assert (np.abs(found.quotas - exact) <= 1.0 + 1e-6).all()


def test_a_hard_budget_goes_to_the_largest_or_by_order() -> None:
    sizes = [5, 1, 9, 0, 7]
    assert allocate(sizes, 2, overflow="smallest").quotas.tolist() == [0, 0, 1, 0, 1]
    assert allocate(sizes, 2, overflow="random", order=[1, 0, 4, 3, 2]).quotas.tolist() == [
        1,
        1,
        0,
        0,
        0,
    ]
    assert allocate(sizes, 2, overflow="smallest").yielded.tolist() == [0, 1]
    assert allocate(sizes, 2).one_row_each == 4 / 22


def test_neyman_gives_nothing_beyond_the_least_to_groups_without_spread() -> None:
    assert allocate([50, 50], 20, "neyman", deviations=[0.0, 1.0]).quotas.tolist() == [1, 19]
    assert allocate([50, 50], 20, "neyman", deviations=[0.0, 0.0]).kept == 20


def test_neyman_keeps_to_its_budget_when_groups_without_spread_take_what_is_left() -> None:
    assert allocate([10, 10, 10, 10], 35, "neyman", deviations=[0, 1, 2, 0]).kept == 35


def test_what_is_not_legal_is_refused() -> None:
    with pytest.raises(BadArgument, match="senate"):
        allocate([1], 1, "house")
    with pytest.raises(BadArgument, match="exceed"):
        allocate([1], 1, overflow="drop")
    with pytest.raises(BadArgument, match="at least 0"):
        allocate([1], -1)
    with pytest.raises(BadArgument, match="deviations"):
        allocate([5, 5], 3, "neyman")
