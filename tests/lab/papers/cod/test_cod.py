"""Algorithms 1 and 2 on complete windows: every reading keeps what it says, and no more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate_lab.papers.cod import CONCEPT_DRIVEN, READINGS, cod_shed, group_concept, uniform_shed
from headgate_lab.papers.cod.cod import known_quotas
from headgate_lab.papers.cod.stratified import keep_by_coin, keep_fixed
from tests.lab.papers.cod import naive

CODES = st.lists(st.integers(0, 12), min_size=1, max_size=200)
KEEP = st.floats(0.01, 0.99)


def _dense(codes: list[int]) -> np.ndarray:
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def _rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(CODES, st.integers(0, 9))
def test_the_lowest_lots_of_each_group_stay(codes: list[int], quota: int) -> None:
    quotas = [(quota + g) % 7 for g in range(13)]
    lots = _rng(quota).random(len(codes))
    found = keep_fixed(np.array(codes), np.array(quotas), lots)
    assert found.tolist() == naive.keep_fixed(codes, quotas, lots.tolist())


@pytest.mark.parametrize("lots", [lambda n: _rng().random(n), lambda n: 0.9 + _rng().random(n) // 0.1])
def test_so_they_do_where_most_rows_are_not_looked_at(lots: Callable[[int], np.ndarray]) -> None:
    """Of large groups hardly any row can be chosen; of lots that are all high, or alike, any may be."""
    codes, quotas = _rng(2).integers(0, 5, 4000), np.array([0, 1, 20, 300, 4000])
    drawn = lots(len(codes))
    found = keep_fixed(codes, quotas, drawn)
    assert found.tolist() == naive.keep_fixed(codes.tolist(), quotas.tolist(), drawn.tolist())


def test_a_coin_keeps_the_rate() -> None:
    codes = np.repeat([0, 1], 50_000)
    kept = keep_by_coin(codes, np.array([0.1, 0.5]), _rng().random(len(codes)))
    assert np.bincount(codes[kept]) / 50_000 == pytest.approx([0.1, 0.5], abs=0.01)


@given(st.integers(0, 500), KEEP)
def test_uniform_keeps_its_share(rows: int, keep: float) -> None:
    kept = uniform_shed(rows, keep, _rng(), "fixed")
    assert len(kept) == round(keep * rows)
    assert len(set(kept.tolist())) == len(kept)
    coin = uniform_shed(rows, keep, _rng())
    assert abs(len(coin) - keep * rows) <= 6 * np.sqrt(rows * keep * (1 - keep)) + 1


@given(CODES, KEEP, st.sampled_from(list(READINGS)), st.integers(0, 3))
def test_every_reading_does_what_its_name_says(
    codes: list[int], keep: float, name: str, seed: int
) -> None:
    reading, dense = READINGS[name], _dense(codes)
    rows, counts = len(dense), np.bincount(dense)
    sample = uniform_shed(rows, reading.sample_share(keep), _rng(seed + 10), "fixed")
    kept = cod_shed(dense, keep, _rng(seed), reading, sample=None if reading.exact else sample)
    assert (np.diff(kept) > 0).all()
    had = np.bincount(dense[kept], minlength=len(counts))
    known = counts > 0 if reading.exact else np.bincount(dense[sample], minlength=len(counts)) > 0
    budget = round(keep * rows)
    if reading.overflow == "random":
        assert len(kept) == budget
    elif reading.least:
        assert (had[known] >= 1).all()
    if not reading.exact:
        wanted = {"shed": np.zeros_like(counts), "keep": counts, "one": np.ones_like(counts)}[
            reading.absent
        ]
        assert (had[~known] == wanted[~known]).all()
    if reading.exact and len(counts) <= budget:
        assert len(kept) == budget
    assert (
        cod_shed(dense, keep, _rng(seed), reading, sample=None if reading.exact else sample) == kept
    ).all()


@given(CODES, KEEP)
def test_ours_misses_no_group_and_caps_alike(codes: list[int], keep: float) -> None:
    dense = _dense(codes)
    counts = np.bincount(dense)
    had = np.bincount(dense[cod_shed(dense, keep, _rng())], minlength=len(counts))
    assert had.min() >= 1
    cut = had < counts
    if cut.any():  # whoever gave rows up has as many as any other, but for a row left over
        assert had[cut].min() >= had.max() - 1


def test_proportional_quotas_of_a_sample_are_what_the_sample_holds() -> None:
    """Section VI-C2 with Algorithm 2: the second pass draws again what the first one had."""
    codes = _dense((_rng(5).zipf(1.6, 5000) % 400).tolist())
    sample = uniform_shed(len(codes), 0.02, _rng(6), "fixed")
    concept = group_concept(codes, int(codes.max()) + 1, sample)
    quotas = known_quotas(concept, len(sample), READINGS["cod sample, absent shed"], _rng())
    assert np.abs(quotas - concept.frequencies).max() <= 1
    assert quotas.sum() == len(sample)


def test_fixed_draws_are_uniform_within_a_group() -> None:
    codes = np.repeat([0, 1], [20, 5])
    hits = np.zeros(25)
    for seed in range(4000):
        hits[cod_shed(codes, 0.4, _rng(seed))] += 1  # 5 rows of each
    assert hits[20:].tolist() == [4000.0] * 5
    assert hits[:20] / 4000 == pytest.approx(np.full(20, 0.25), abs=0.035)


def test_a_coin_with_a_mean_of_one_misses_one_group_in_three() -> None:
    """e^-1 of the large groups; a fixed draw misses none."""
    codes = np.repeat(np.arange(2000), 50)
    coin = cod_shed(codes, 0.02, _rng(), draw="coin")
    assert 1 - len(np.unique(codes[coin])) / 2000 == pytest.approx(np.exp(-1), abs=0.03)
    assert len(np.unique(codes[cod_shed(codes, 0.02, _rng())])) == 2000


def test_a_query_without_groups_gets_a_uniform_sample() -> None:
    for reading in READINGS.values():
        assert len(cod_shed(np.zeros(1000, np.int64), 0.02, _rng(), reading)) == 20


def test_the_ends_of_the_range() -> None:
    for reading in READINGS.values():
        assert cod_shed([0, 1, 0], 1.0, _rng(), reading).tolist() == [0, 1, 2]
        assert cod_shed([], 0.5, _rng(), reading).tolist() == []


def test_what_is_not_legal_is_refused() -> None:
    for keep in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(BadArgument, match=r"keep=0\.02"):
            cod_shed([0], keep, _rng())
        with pytest.raises(BadArgument, match="share"):
            uniform_shed(3, keep, _rng())
    with pytest.raises(BadArgument, match="coin"):
        cod_shed([0], 0.5, _rng(), draw="toss")
    with pytest.raises(BadArgument, match="binomial"):
        uniform_shed(3, 0.5, _rng(), "toss")
    with pytest.raises(BadArgument, match="one row"):
        cod_shed([0], 0.5, _rng(), READINGS["cod sample, absent one each"], draw="coin")


def test_the_default_is_exact_senate_at_least_one_and_soft() -> None:
    assert CONCEPT_DRIVEN.exact
    assert (CONCEPT_DRIVEN.rule, CONCEPT_DRIVEN.least, CONCEPT_DRIVEN.overflow) == (
        "senate",
        1,
        "exceed",
    )
    assert len(READINGS) == 10
