"""The choice of comparisons: best first, within the budget, and honest about what it leaves out."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import BadArgument, SnapshotError
from headgate.joins.choice import Chosen, choose, completeness, missed
from headgate.joins.conditions import (
    Condition,
    equal,
    inner_product,
    overlap,
    predicate,
    subset,
    superset,
)
from headgate.joins.item_counts import ItemCounts, densities
from headgate.joins.lag_stats import LagStats, LagStatsConfig
from headgate.joins.rows import KeyRows, PlainRows, SetRows, VectorRows, WeightedRows
from headgate.sketches import mix64
from tests.joins import naive_pairs

pytestmark = pytest.mark.slow

RELAXED = settings(deadline=None)
SHARES = st.lists(st.lists(st.floats(0, 1), max_size=12), min_size=1, max_size=6)
ITEMS = st.sampled_from([0, 1, 2, 3, 64, 127]) | st.integers(-(2**63), 2**63 - 1)
SMALL = st.sampled_from([0, 1, 2, 3, 64, 127])


def _lists(items: st.SearchStrategy[int]) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(items, max_size=7), max_size=8)


def _flat(chosen: Chosen) -> list[tuple[int, int]]:
    return [(block, int(index)) for block, part in enumerate(chosen.picked) for index in part]


def _sets(lists: list[list[int]]) -> SetRows:
    offsets = [0, *np.cumsum([len(x) for x in lists]).tolist()]
    return SetRows.of([0] * len(lists), offsets, [x for part in lists for x in part])


@RELAXED
@given(SHARES, st.integers(1, 50), st.floats(0, 2000), st.sampled_from([0.0, 3.0, 300.0]), st.data())
def test_the_best_pairs_fill_the_budget(
    shares: list[list[float]], rows: int, budget: float, result_cost: float, data: Any
) -> None:
    targets = [rows * (block + 1) for block in range(len(shares))]
    utility = data.draw(st.none() | st.just([[1.0 + index for index in range(len(x))] for x in shares]))
    chosen = choose(shares, targets, budget, result_cost, utility, explore=0.0)
    assert not any(map(len, chosen.sampled))
    where = [(block, index) for block, part in enumerate(shares) for index in range(len(part))]
    score = [
        shares[b][p] * (utility[b][p] if utility else 1.0) / (1 + result_cost * shares[b][p])
        for b, p in where
    ]
    cost = [targets[b] * (1 + result_cost * shares[b][p]) for b, p in where]
    picked = {where.index(pair) for pair in _flat(chosen)}
    spent = sum(cost[i] for i in picked)
    assert chosen.everything == (sum(cost) <= budget)
    assert chosen.cost == pytest.approx(spent)
    assert spent <= budget * (1 + 1e-9)
    if chosen.everything:
        assert len(picked) == len(where)
        return
    # no pair left out is better than one that is in, and the next best one would not have fitted
    left = set(range(len(where))) - picked
    assert min((score[i] for i in picked), default=9e9) >= max(score[i] for i in left) * (1 - 1e-12)
    best = max(score[i] for i in left)
    assert spent + max(cost[i] for i in left if score[i] >= best * (1 - 1e-12)) > budget * (1 - 1e-9)
    if len(set(score)) == len(score):
        assert picked == naive_pairs.best_first(score, cost, budget)


def test_equal_inputs_choose_equally_and_seeds_differ() -> None:
    shares = [np.full(200, 0.1) for _ in range(4)]
    first, again, other = (choose(shares, [10] * 4, 3000.0, seed=seed) for seed in (1, 1, 2))
    assert _flat(first) == _flat(again)
    assert [part.tolist() for part in first.sampled] == [part.tolist() for part in again.sampled]
    assert _flat(first) != _flat(other)


@pytest.mark.parametrize("result_cost", [0.0, 50.0])
def test_the_budget_is_kept_with_exploration(result_cost: float) -> None:
    random = np.random.default_rng(5)
    shares = [random.exponential(0.01, 2000) for _ in range(10)]
    targets = random.integers(50, 500, 10)
    for share in (0.02, 0.1, 0.5, 0.9):
        budget = share * sum(
            float((n * (1 + result_cost * d)).sum()) for n, d in zip(targets, shares, strict=True)
        )
        chosen = choose(shares, targets, budget, result_cost, seed=3)
        spent = sum(
            float((n * (1 + result_cost * d[np.concatenate((p, s))])).sum())
            for n, d, p, s in zip(targets, shares, chosen.picked, chosen.sampled, strict=True)
        )
        assert spent == pytest.approx(chosen.cost)
        assert 0.97 * budget < spent < 1.03 * budget
        explored = sum(
            float((n * (1 + result_cost * d[s])).sum())
            for n, d, s in zip(targets, shares, chosen.sampled, strict=True)
        )
        assert 0.03 * budget < explored < 0.07 * budget
        for picked, sampled, odds in zip(
            chosen.picked, chosen.sampled, chosen.probabilities, strict=True
        ):
            assert len(np.intersect1d(picked, sampled)) == 0
            assert len(sampled) == len(odds)
            assert ((odds > 0) & (odds <= 1)).all()


def test_everything_when_it_fits() -> None:
    chosen = choose([[0.0, 0.5], [], [1.0]], [10, 20, 30], budget=50.0)
    assert chosen.everything
    assert [part.tolist() for part in chosen.picked] == [[0, 1], [], [0]]
    assert not any(map(len, chosen.sampled))
    assert choose([], [], 0.0).everything


@pytest.mark.parametrize("informed", [True, False])
def test_the_estimate_of_what_is_missed_is_unbiased(informed: bool) -> None:
    # the truth is drawn once; the densities given are right, or have nothing to do with it
    random = np.random.default_rng(11)
    rows, true = 40, [random.beta(0.3, 3.0, 300) for _ in range(6)]
    truth = [random.binomial(rows, share) for share in true]
    shares = true if informed else [random.beta(0.3, 3.0, 300) for _ in range(6)]
    whole, errors, variances = sum(int(m.sum()) for m in truth), [], []
    for seed in range(600):
        chosen = choose(shares, [rows] * 6, 0.3 * rows * 1800, explore=0.2, seed=seed)
        found = sum(int(m[p].sum()) for m, p in zip(truth, chosen.picked, strict=True))
        lots = np.concatenate([m[s] for m, s in zip(truth, chosen.sampled, strict=True)])
        lost, variance = missed(lots, np.concatenate(chosen.probabilities))
        errors.append(lost - (whole - found - int(lots.sum())))
        variances.append(variance)
    spread = float(np.std(errors))
    assert abs(np.mean(errors)) < 3.5 * spread / np.sqrt(len(errors))
    assert np.mean(variances) == pytest.approx(spread**2, rel=0.2)


def test_chances_are_those_with_which_pairs_are_drawn() -> None:
    shares = [np.linspace(0.0, 1.0, 50)]
    counts, odds, runs = np.zeros(50), np.full(50, np.nan), 4000
    for seed in range(runs):
        chosen = choose(shares, [10], 250.0, explore=0.3, seed=seed)
        counts[chosen.sampled[0]] += 1
        odds[chosen.sampled[0]] = chosen.probabilities[0]
    seen = ~np.isnan(odds)
    assert seen.sum() >= 30
    errors = np.abs(counts - runs * odds)[seen] / np.sqrt(runs * odds * (1 - odds) + 1e-9)[seen]
    assert errors.max() < 4.5


@RELAXED
@given(st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1e12))
def test_completeness_is_a_share(found: float, lost: float, variance: float) -> None:
    share, error = completeness(found, lost, variance)
    assert 0.0 <= share <= 1.0
    assert error >= 0.0
    step = 1e-6 * (found + lost)
    if found > 1e-3 and lost > 1e-3:  # the delta method is the derivative by what is missed
        slope = (
            (completeness(found, lost + step, 0)[0] - completeness(found, lost - step, 0)[0]) / step / 2
        )
        assert error == pytest.approx(abs(slope) * np.sqrt(variance), rel=1e-3, abs=1e-12)


def test_completeness_at_the_edges() -> None:
    assert completeness(0.0, 0.0, 0.0) == (1.0, 0.0)
    assert completeness(5.0, 0.0, 0.0) == (1.0, 0.0)
    assert completeness(0.0, 5.0, 4.0) == (0.0, 0.0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"budget": -1.0},
        {"result_cost": -1.0},
        {"explore": 1.0},
        {"rows": [1, 2]},
        {"densities": [[np.nan]]},
        {"densities": [[-0.1]]},
        {"utility": [[1.0, 2.0]]},
        {"utility": [[-1.0]]},
        {"seed": -1},
    ],
)
def test_what_is_refused(arguments: dict[str, Any]) -> None:
    legal: dict[str, Any] = {"densities": [[0.5]], "rows": [10], "budget": 1.0}
    choose(**legal)
    with pytest.raises(BadArgument):
        choose(**{**legal, **arguments})


def _bucket(item: int, size: int) -> int:
    return (item if 0 <= item < 128 else 128) if size == 128 else mix64(item) % size


@RELAXED
@given(
    st.lists(st.lists(ITEMS, max_size=7), max_size=8),
    st.lists(st.lists(SMALL, max_size=7), max_size=8)
    | st.lists(st.lists(ITEMS, max_size=7), max_size=8),
    st.integers(1, 5),
    st.booleans(),
)
def test_densities_of_sets(ours: Any, theirs: Any, need: int, left: bool) -> None:
    probe, counts = _sets(ours), ItemCounts.of(_sets(theirs))
    size = len(counts.table)
    assert size == (128 if all(0 <= x < 128 for part in theirs for x in part) else 4096)
    held = [_bucket(x, size) for part in theirs for x in set(part)]

    def share(x: int) -> float:
        return min(1.0, held.count(_bucket(x, size)) / max(1, len(theirs)))

    found = densities(overlap("x", at_least=need), probe, counts, left)
    want = [min(1.0, naive_pairs.elementary([share(x) for x in set(part)], need)) for part in ours]
    assert found is not None
    assert found.tolist() == pytest.approx(want)
    for condition, inside in ((subset("x"), left), (superset("x"), not left)):
        found = densities(condition, probe, counts, left)
        if not inside:
            assert found is None
            continue
        assert found is not None
        assert found.tolist() == pytest.approx([prod(share(x) for x in set(part)) for part in ours])


def test_densities_of_independent_items_are_what_is_found() -> None:
    random = np.random.default_rng(2)
    rates = random.uniform(0.02, 0.2, 100)

    def draw(count: int) -> list[list[int]]:
        return [np.flatnonzero(random.random(100) < rates / 3).tolist() for _ in range(count)]

    ours, theirs = draw(200), draw(3000)
    found = densities(overlap("x", at_least=2), _sets(ours), ItemCounts.of(_sets(theirs)))
    assert found is not None
    held = [set(part) for part in theirs]
    true = [sum(len(set(part) & other) >= 2 for other in held) / len(held) for part in ours]
    # e_2 counts a row that shares three items three times, so it is somewhat above the truth
    assert np.mean(true) < found.mean() < 1.25 * np.mean(true)
    assert np.corrcoef(found, true)[0, 1] > 0.95


@RELAXED
@given(st.lists(ITEMS, max_size=9), st.lists(ITEMS, max_size=9))
def test_densities_of_keys(ours: list[int], theirs: list[int]) -> None:
    probe, rows = KeyRows.of([0] * len(ours), ours), KeyRows.of([0] * len(theirs), theirs)
    counts = ItemCounts.of(rows)
    size = len(counts.table)
    held = [_bucket(x, size) for x in theirs]
    found = densities(equal("x"), probe, counts)
    assert found is not None
    assert found.tolist() == pytest.approx(
        [held.count(_bucket(x, size)) / max(1, len(theirs)) for x in ours]
    )


def test_densities_of_weighted_sets_rank_by_the_mean_product() -> None:
    rows = WeightedRows.of([0, 0], [0, 2, 3], [1, 900, 900], [1.0, 2.0, 4.0])
    probe = WeightedRows.of([0] * 4, [0, 1, 2, 4, 4], [900, 1, 1, 900], [1.0, 1.0, 1.0, 9.0])
    found = densities(inner_product("x", at_least=6.0), probe, ItemCounts.of(rows))
    assert found is not None
    assert found.tolist() == pytest.approx([3.0 / 6, 0.5 / 6, 1.0, 0.0])  # means 3, .5, 27.5 and 0


@pytest.mark.parametrize(
    ("condition", "probe"),
    [
        (inner_product("x", at_least=1.0), VectorRows.of([0], [[1.0]])),
        (predicate(lambda a, b: True, "x"), PlainRows.of([0])),
    ],
)
def test_content_that_says_nothing(condition: Condition, probe: Any) -> None:
    assert densities(condition, probe, ItemCounts.of(_sets([[1]]))) is None


@RELAXED
@given(
    st.lists(st.lists(ITEMS, max_size=5), max_size=8), st.lists(st.lists(SMALL, max_size=5), max_size=8)
)
def test_counts_of_two_blocks_add_up(ours: Any, theirs: Any) -> None:
    both = ItemCounts.of(_sets(ours)).add(ItemCounts.of(_sets(theirs)))
    whole = ItemCounts.of(_sets(ours + theirs))
    assert both.n == whole.n
    assert both.table.tolist() == whole.table.tolist()
    again = ItemCounts.from_bytes(both.to_bytes())
    assert (again.n, again.table.tolist(), again.weights) == (both.n, both.table.tolist(), None)


def test_counts_are_stored_compactly() -> None:
    for rows, width in ((200, 1), (300, 2), (70_000, 4)):
        counts = ItemCounts.of(KeyRows.of(np.zeros(rows), np.full(rows, 5)))
        data = counts.to_bytes()
        assert len(data) < 40 + 128 * width
        assert ItemCounts.from_bytes(data).table[5] == rows
    weighted = ItemCounts.of(WeightedRows.of([0, 0], [0, 1, 2], [1, 1], [1.5, 2.0]))
    heavy = ItemCounts.from_bytes(weighted.add(weighted).to_bytes()).weights
    assert heavy is not None
    assert heavy[1] == 7.0
    for broken in (b"", b"other bytes, other bytes", data[:-1], data[:4] + b"\x09" + data[5:]):
        with pytest.raises(SnapshotError):
            ItemCounts.from_bytes(broken)


def test_lag_stats_learn_fade_merge_and_are_stored() -> None:
    stats = LagStats(lags=3, kinds=2)
    stats.add(0, 1, [0, 1, 1], [100.0, 100.0, 100.0], [10.0, 1.0, 2.0])
    stats.add(1, 99, [7], [50.0], [5.0])  # beyond the last lag and kind
    assert stats.comparisons[0, 1].tolist() == [100.0, 200.0]
    assert stats.matches[1, 2].tolist() == [0.0, 5.0]
    again = LagStats.from_bytes(stats.to_bytes())
    again.merge(stats)
    assert again.matches[0, 1].tolist() == [20.0, 6.0]
    again.decay(elapsed=20.0, half_life=10.0)
    assert again.comparisons[0, 1].tolist() == [50.0, 100.0]
    with pytest.raises(BadArgument, match="merged"):
        again.merge(LagStats(lags=3))
    for broken in (b"", b"x" * 30, stats.to_bytes()[:-1]):
        with pytest.raises(SnapshotError):
            LagStats.from_bytes(broken)


def test_draws_follow_the_posterior() -> None:
    stats = LagStats(lags=2)
    stats.add(0, 0, [0], [1e6], [2e4])
    draws = stats.draw(np.random.default_rng(1), groups=4000)
    assert draws[:, 0, 0, 0].mean() == pytest.approx(0.02, rel=0.01)
    assert draws[:, 0, 0, 0].std() == pytest.approx(np.sqrt(2e4) / 1e6, rel=0.05)
    # a lag never tried: exponential with the pooled mean, so it is tried again and again
    unknown = draws[:, 1, 1, 0]
    assert unknown.mean() == pytest.approx(stats.pooled, rel=0.05)
    assert (unknown > 3 * stats.pooled).mean() == pytest.approx(np.exp(-3), rel=0.2)
    equal_draws = [stats.draw(np.random.default_rng(3)).tolist() for _ in range(2)]
    assert equal_draws[0] == equal_draws[1]


def test_the_number_of_a_probe_row_picks_its_draw() -> None:
    stats = LagStats(lags=2, kinds=2)
    draws = stats.draw(np.random.default_rng(1))
    kinds = np.arange(40) % 2
    found = stats.densities(draws, 1, 5, kinds, first=7)
    assert found.tolist() == [draws[(7 + row) % 32, 1, 1, row % 2] for row in range(40)]


def test_lag_stats_find_the_lag_that_pays() -> None:
    # Thompson sampling against a peak at lag 7 of 20: most of the budget must end there
    random, stats = np.random.default_rng(4), LagStats(lags=20)
    truth = np.full(20, 0.001)
    truth[7] = 0.05
    spent = np.zeros(20)
    for batch in range(60):
        draws = stats.draw(random)
        shares = [stats.densities(draws, 0, lag, np.zeros(64, np.int32)) for lag in range(20)]
        chosen = choose(shares, [100] * 20, 64 * 100.0, seed=batch)
        for lag in range(20):
            rows = len(chosen.picked[lag]) + len(chosen.sampled[lag])
            matches = random.binomial(100, truth[lag], rows)
            stats.add(0, lag, np.zeros(rows, np.int32), np.full(rows, 100.0), matches)
            spent[lag] += rows * (batch >= 10)
        stats.decay(1.0, 10.0)
    assert spent[7] > 0.7 * spent.sum()


def test_lag_stats_forget_at_once_when_what_they_promise_does_not_come() -> None:
    for came, left in ((400.0, 1.0), (100.0, 0.1)):
        stats, new = LagStats(lags=2), LagStats(lags=2)
        stats.add(0, 0, [0], [1e5], [2000.0])
        new.add(0, 0, [0], [2e4], [came])
        stats.learn(new, elapsed=0.0, half_life=10.0)
        assert stats.comparisons[0, 0, 0] == pytest.approx(left * 1e5 + 2e4)
        assert stats.matches[0, 0, 0] == pytest.approx(left * 2000.0 + came)


def test_a_hundred_expected_matches_are_too_few_for_a_surprise() -> None:
    """What is expected is that of the best draws: of few matches it is too much by chance alone."""
    stats, new = LagStats(lags=2), LagStats(lags=2)
    stats.add(0, 0, [0], [1e5], [1000.0])
    new.add(0, 0, [0], [1e4], [20.0])
    stats.learn(new, elapsed=0.0)
    assert stats.matches[0, 0, 0] == pytest.approx(1020.0)


@pytest.mark.parametrize("wrong", [{"half_life": 0.0}, {"draws": 0}, {"surprise": 1.5}])
def test_numbers_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadArgument, match=next(iter(wrong))):
        LagStatsConfig(**wrong)


def test_types_that_are_little_known_follow_their_lag() -> None:
    stats = LagStats(lags=2, kinds=3)
    stats.add(0, 1, [0], [1e5], [5000.0])
    stats.add(0, 1, [1], [1e5], [50.0])
    draws = stats.draw(np.random.default_rng(2), groups=2000).mean(axis=0)[0, 1]
    assert draws[0] == pytest.approx(0.05, rel=0.05)
    assert draws[1] == pytest.approx(0.0006, rel=0.3)
    assert draws[2] == pytest.approx(0.025, rel=0.1), "nothing seen of it: the lag's mean over all types"
