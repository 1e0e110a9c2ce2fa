"""Chances of rows, their scores as text, and the variance of what drawn rows say of all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import BadArgument, SnapshotError
from headgate.joins.conditions import overlap
from headgate.joins.item_counts import ItemCounts, densities
from headgate.joins.row_draw.chances import chances, drawn
from headgate.joins.row_draw.scores import CLASSES, Part, RowScores, Shares
from headgate.joins.row_draw.totals import RowTotals
from headgate.joins.rows import SetRows

COUNTS = st.lists(st.integers(0, 10_000), min_size=CLASSES, max_size=CLASSES)


@settings(max_examples=200, deadline=None)
@given(COUNTS, st.floats(0.01, 0.99))
def test_chances_keep_the_share_and_rise_with_the_class(rows, share):
    found = chances(rows, share)
    if not sum(rows):
        assert found == ()
        return
    assert len(found) == CLASSES
    assert all(0.0 < chance <= 1.0 for chance in found)
    assert list(found) == sorted(found), "who is expected to match more has no smaller chance"
    kept = float(np.dot(rows, found))
    # No chance is below one in a thousand, which is more where that is all that may be kept.
    assert kept == pytest.approx(share * sum(rows), rel=0.03, abs=0.0011 * sum(rows))


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5])
def test_shares_that_mean_nothing_are_refused(share):
    with pytest.raises(BadArgument, match="share"):
        chances(np.ones(CLASSES), share)


def test_coins_follow_their_chances_and_sides_toss_their_own():
    hashes = np.arange(100_000, dtype=np.int64) * 7919
    odds = np.full(len(hashes), 0.3)
    left, right = (drawn(hashes, odds, 5, side) for side in (0, 1))
    assert left.mean() == pytest.approx(0.3, abs=0.01)
    assert (left & right).mean() == pytest.approx(0.09, abs=0.005), "independent, for equal rows too"
    assert (drawn(hashes, odds, 5, 0) == left).all()
    assert (drawn(hashes, np.full(len(hashes), 0.5), 5, 0) >= left).all(), "a larger chance keeps them"


@pytest.mark.parametrize("most", [100, 10**6])
def test_shares_as_bytes_score_as_the_counts_do(most):
    random = np.random.default_rng(2)
    items = np.floor(most * random.random(4 * 500) ** 4).astype(np.int64)
    rows = SetRows.of(np.arange(500), np.arange(0, 2001, 4), items)
    counts, condition = ItemCounts.of(rows), overlap("items", at_least=2)
    scores = RowScores(((Part(1.0, Shares.of(counts)),), ()), (0.5, 2.0))
    back = RowScores.from_text(scores.to_text())
    met, ahead = back.expected(condition, rows, 0)
    exact = densities(condition, rows, counts)
    assert not ahead.any()
    assert exact is not None
    assert np.corrcoef(met, exact)[0, 1] > 0.9  # 4096 buckets are folded to 1024
    flat, _ = back.expected(condition, rows, 1)
    assert (flat == 2.0).all(), "of the right side nothing is known but what its rows match on average"


def test_damaged_text_is_refused():
    with pytest.raises(SnapshotError, match="scored"):
        RowScores.from_text("bm90aGluZw==")


def test_the_variance_of_drawn_rows_is_unbiased():
    """Against the spread of the estimates themselves, over many draws of both sides."""
    random = np.random.default_rng(8)
    matches = random.random((40, 50)) < 0.15
    ours, theirs = random.uniform(0.2, 1.0, 40), random.uniform(0.2, 1.0, 50)
    windows = np.arange(40) // 20
    estimates, variances, by_window = [], [], []
    for _ in range(4000):
        kept = (random.random(40) < ours)[:, None] & (random.random(50) < theirs)[None, :] & matches
        i, j = np.nonzero(kept)
        totals = RowTotals()
        for window in (0, 1):
            own = windows[i] == window
            totals.add(window, ("a", 0, ours), i[own], ("b", 1, theirs), j[own])
        whole, parts = totals.variance()
        estimates.append(float((1.0 / (ours[i] * theirs[j])).sum()))
        variances.append(whole)
        by_window.append(sum(parts.values()))
    assert np.mean(estimates) == pytest.approx(matches.sum(), rel=0.02)
    assert np.mean(variances) == pytest.approx(np.var(estimates), rel=0.1)
    assert np.mean(by_window) < np.mean(variances), "windows have rows in common"
