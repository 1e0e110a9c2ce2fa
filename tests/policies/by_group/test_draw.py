"""Draws from strata, against slow and obvious twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate.policies.by_group.counted import MOST, counted, is_counted
from headgate.policies.by_group.draw import draw_fixed, toss_coins


def naive_fixed(codes: list[int], hashes: list[int], quotas: list[int]) -> list[bool]:
    """Sort every stratum; keep up to the quota's last hash."""
    kept = []
    for code, mine in zip(codes, hashes, strict=True):
        stratum = sorted(h for c, h in zip(codes, hashes, strict=True) if c == code)
        quota = min(quotas[code], len(stratum))
        kept.append(quota > 0 and mine <= stratum[quota - 1])
    return kept


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_fixed_draws_are_the_lowest_hashes_of_each_stratum(data: st.DataObject) -> None:
    groups = data.draw(st.integers(1, 6))
    rows = data.draw(st.integers(1, 60))
    codes = data.draw(st.lists(st.integers(0, groups - 1), min_size=rows, max_size=rows))
    few = data.draw(st.booleans())  # many ties, or hardly any
    hashes = data.draw(
        st.lists(st.integers(0, 5 if few else (1 << 62) - 1), min_size=rows, max_size=rows)
    )
    quotas = data.draw(st.lists(st.integers(0, 8), min_size=groups, max_size=groups))
    sizes = np.bincount(codes, minlength=groups)
    weights = draw_fixed(np.array(codes), np.array(hashes), sizes, np.array(quotas))
    assert (weights > 0).tolist() == naive_fixed(codes, hashes, quotas)
    for group in range(groups):
        mine = weights[np.array(codes) == group]
        if (mine > 0).any():
            assert mine.sum() == pytest.approx(sizes[group], abs=1e-4)


def test_coins_keep_their_rate_and_weigh_its_inverse() -> None:
    rng = np.random.default_rng(5)
    codes = np.repeat([0, 1, 2], [50_000, 50_000, 10])
    hashes = rng.integers(0, 1 << 62, len(codes))
    sizes, quotas = np.array([50_000, 50_000, 10]), np.array([5000, 500, 10])
    weights = toss_coins(codes, hashes, sizes, quotas)
    for group in (0, 1):
        kept = weights[codes == group] > 0
        assert kept.sum() == pytest.approx(quotas[group], rel=0.15)
        assert weights[codes == group].max() == pytest.approx(sizes[group] / quotas[group])
    assert (weights[codes == 2] == 1.0).all()
    assert not is_counted(weights[weights > 0]).any()


@given(st.integers(1, 10**9), st.integers(1, 10**6))
def test_counted_weights_are_marked_once_and_hardly_moved(rows: int, kept: int) -> None:
    weight = max(rows, kept) / kept
    marked = float(counted(weight))
    assert counted(marked) == marked
    assert abs(marked - weight) <= 2.0**-21
    assert bool(is_counted(marked)) == (1.0 < weight < MOST)


@pytest.mark.parametrize("rate", [1.0, 0.5, 0.1, 1 / 3, 0.02, 0.01, 2.0**-10, 1e-6])
def test_a_coins_weight_is_not_taken_for_a_counted_one(rate: float) -> None:
    assert not is_counted(1.0 / rate)


@pytest.mark.parametrize("weight", [0.5, float("nan"), float("inf"), -1.0])
def test_what_is_no_weight_is_refused(weight: float) -> None:
    with pytest.raises(BadArgument, match="from 1 on"):
        counted(weight)
