"""How a gate opens again: the stated bound holds, and a load at the edge does not flap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.control.release import LONGEST_PATIENCE, PATIENCE, SOON, Release

START = st.floats(min_value=1e-6, max_value=1.0, exclude_max=True)


def _batches_until_open(release: Release, wanted: float = 1.0, reach: float = 0.0) -> int:
    for batches in range(1, 1000):
        if release.step(wanted, fits=True, reach=reach) >= 1.0:
            return batches
    raise AssertionError("never opened")


@given(START, st.floats(min_value=0.0, max_value=2.0))
def test_a_load_that_fits_is_not_shed_after_the_stated_number_of_batches(
    start: float, reach: float
) -> None:
    release = Release()
    release.step(start, fits=False)
    assert release.rate == start
    assert _batches_until_open(release, reach=reach) <= Release.batches_to_zero(start)


@given(START, st.integers(min_value=0, max_value=5))
def test_the_bound_holds_with_a_longer_patience_too(start: float, resumptions: int) -> None:
    release = Release()
    for _ in range(resumptions):
        release.step(0.9, fits=False)
        _batches_until_open(release)
    release.step(start, fits=False)
    assert _batches_until_open(release) <= Release.batches_to_zero(start, release.patience)


@given(START, st.lists(st.floats(min_value=0.001, max_value=1.0), max_size=30))
def test_the_rate_never_more_than_doubles_before_the_last_step(
    start: float, wanted: list[float]
) -> None:
    release = Release()
    release.step(start, fits=False)
    for want in wanted:
        before = release.rate
        after = release.step(want, fits=False)
        assert after <= max(2 * before, want)
        assert after <= want or after == before or want >= 1.0
        if want < before:
            assert after == want


def test_shedding_tightens_in_one_step() -> None:
    release = Release()
    assert release.step(0.02, fits=False) == 0.02


def test_resuming_soon_at_the_edge_doubles_the_patience_up_to_its_limit() -> None:
    release = Release()
    seen = []
    for _ in range(8):
        release.step(0.8, fits=False)
        seen.append(release.patience)
        _batches_until_open(release)
    assert seen == [2, 4, 8, 16, 32, 32, 32, 32]
    assert seen[-1] == LONGEST_PATIENCE


def test_a_burst_that_cuts_deep_leaves_the_patience_alone() -> None:
    release = Release()
    for _ in range(5):
        release.step(0.05, fits=False)
        _batches_until_open(release)
    assert release.patience == PATIENCE


def test_a_long_calm_restores_the_patience() -> None:
    release = Release()
    for _ in range(3):
        release.step(0.8, fits=False)
        _batches_until_open(release)
    assert release.patience > PATIENCE
    for _ in range(5 * SOON + 1):
        release.step(1.0, fits=True)
    assert release.patience == PATIENCE


def test_one_batch_that_does_not_fit_begins_the_patience_again() -> None:
    release = Release()
    release.step(0.8, fits=False)
    assert release.step(1.0, fits=True) < 1.0
    assert release.step(0.8, fits=False) < 1.0
    assert release.step(1.0, fits=True) < 1.0
    assert release.step(1.0, fits=True) == 1.0


def test_after_one_large_batch_the_rate_follows_the_rows() -> None:
    release = Release()
    release.step(0.01, fits=False)
    assert release.step(0.5, fits=False, reach=0.8) == 0.5
