"""Overlap and distances: 0 for the same, 1 for nothing in common, and a triangle between."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate_lab.papers.cod import (
    concept_overlap,
    footrule_distance,
    hellinger_distance,
    top_k,
    total_variation,
)

RANKING = st.lists(st.integers(0, 12), min_size=6, max_size=6, unique=True)
SHARES = st.dictionaries(st.integers(0, 8), st.floats(0.1, 50), min_size=1)


@given(RANKING, RANKING, RANKING)
def test_rankings(a: list[int], b: list[int], c: list[int]) -> None:
    assert concept_overlap(a, b) == len(set(a) & set(b)) / 6
    assert footrule_distance(a, a) == 0.0
    assert 0.0 <= footrule_distance(a, b) == footrule_distance(b, a) <= 1.0
    assert footrule_distance(a, c) <= footrule_distance(a, b) + footrule_distance(b, c) + 1e-12
    assert (footrule_distance(a, b) == 1.0) == (concept_overlap(a, b) == 0.0)


@pytest.mark.parametrize("distance", [total_variation, hellinger_distance])
@given(SHARES, SHARES, SHARES)
def test_distributions(
    distance: object, a: dict[int, float], b: dict[int, float], c: dict[int, float]
) -> None:
    assert callable(distance)
    twice = {key: 2 * share for key, share in a.items()}
    assert distance(a, twice) == pytest.approx(0.0, abs=1e-7)
    assert 0.0 <= distance(a, b) <= 1.0 + 1e-12
    assert distance(a, b) == pytest.approx(distance(b, a))
    assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-9
    apart = {key + 100: share for key, share in b.items()}
    assert distance(a, apart) == pytest.approx(1.0)


def test_an_order_that_turns_has_overlap_and_distance() -> None:
    """Two dimensions, which set difference has not (erratum 12)."""
    assert (concept_overlap("abcd", "dcba"), footrule_distance("abcd", "dcba")) == (1.0, 8 / 20)


def test_the_top_is_in_order_and_ties_are_settled() -> None:
    keys, scores = np.array([5, 3, 9, 1]), np.array([2.0, 7.0, 7.0, 7.0])
    assert top_k(keys, scores, 3) == [1, 3, 9]
    assert top_k(keys, scores) == [1, 3, 9, 5]


def test_what_is_not_legal_is_refused() -> None:
    with pytest.raises(BadArgument, match="twice"):
        footrule_distance("aa", "ab")
    with pytest.raises(BadArgument, match="not all 0"):
        total_variation({}, {"a": 1})
    with pytest.raises(BadArgument, match="at least 1"):
        top_k(np.array([1]), np.array([1]), 0)
