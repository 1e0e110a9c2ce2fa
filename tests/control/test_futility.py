"""The futility guard: gives up where rows are not the cause, and only there."""

from __future__ import annotations

import json

import pytest

from headgate.control.futility import FutilityCheck, FutilitySettings

AFTER, AGAIN = FutilitySettings().after, FutilitySettings().again
LONGEST_AGAIN = FutilitySettings().longest_again


def _give_up(guard: FutilityCheck, kept: int = 1000, duration: float = 3.0) -> int:
    """Feed a stall that no shedding shortens; how many batches it took."""
    guard.add(kept, duration, 1.0)
    for batches in range(1, 50):
        if guard.add(kept // 100, 0.98 * duration, 1.0):
            return batches
    raise AssertionError("never gave up")


def test_a_stall_is_given_up_after_four_batches_in_vain() -> None:
    guard = FutilityCheck()
    assert _give_up(guard) == AFTER
    assert guard.futile
    assert guard.relaxed_s == pytest.approx(2 * 2.94)


def test_shedding_that_shortens_the_batch_is_not_in_vain() -> None:
    guard = FutilityCheck()
    guard.add(100_000, 7.75, 1.0)
    for _ in range(50):
        assert not guard.add(15_000, 1.375, 1.0)  # still over, and on the way
    assert not guard.futile


def test_a_stall_counts_although_a_longer_batch_was_shortened_a_little() -> None:
    guard = FutilityCheck()
    guard.add(2_000, 3.3, 1.0)
    guard.add(16_000, 4.4, 1.0)  # more rows had come while it stalled
    assert any(guard.add(160, 3.25, 1.0) for _ in range(AFTER))


def test_a_target_below_the_fixed_price_is_given_up() -> None:
    guard = FutilityCheck()
    guard.add(5_000, 0.6, 0.05)
    assert [guard.add(50, 0.25, 0.05) for _ in range(AFTER)] == [False, False, False, True]


def test_one_batch_inside_the_target_begins_the_count_again() -> None:
    guard = FutilityCheck()
    guard.add(1000, 3.0, 1.0)
    for _ in range(20):
        for _ in range(AFTER - 1):
            assert not guard.add(10, 3.0, 1.0)
        guard.add(10, 0.9, 1.0)
        guard.add(1000, 3.0, 1.0)
    assert not guard.futile


def test_keeping_more_than_half_proves_nothing() -> None:
    guard = FutilityCheck()
    guard.add(1000, 3.0, 1.0)
    for _ in range(50):
        assert not guard.add(501, 3.0, 1.0)


def test_empty_batches_prove_nothing() -> None:
    guard = FutilityCheck()
    assert not any(guard.add(0, 3.0, 1.0) for _ in range(50))


def test_it_is_tried_again_and_each_time_in_vain_doubles_the_wait() -> None:
    guard = FutilityCheck()
    waits = []
    _give_up(guard)
    for _ in range(5):
        waits.append(next(n for n in range(1, 1000) if not _open(guard)))
        for _ in range(AFTER):
            guard.add(10, 2.94, 1.0)
        assert guard.futile
    assert waits == [AGAIN, 2 * AGAIN, 4 * AGAIN, LONGEST_AGAIN, LONGEST_AGAIN]


def _open(guard: FutilityCheck) -> bool:
    guard.add(1000, 3.0, 1.0)
    return guard.futile


def test_a_batch_inside_the_target_ends_it_at_once() -> None:
    guard = FutilityCheck()
    _give_up(guard)
    guard.add(1000, 0.9, 1.0)
    assert not guard.futile
    assert guard.relaxed_s == 0.0


def test_a_batch_much_shorter_than_the_empty_ones_were_ends_it_too() -> None:
    guard = FutilityCheck()
    _give_up(guard)
    guard.add(1000, 2.0, 1.0)  # over the target, but the cause is gone
    assert not guard.futile


def test_a_snapshot_goes_on_in_the_middle_of_a_count() -> None:
    guard = FutilityCheck()
    guard.add(1000, 3.0, 1.0)
    for _ in range(AFTER - 1):
        guard.add(10, 3.0, 1.0)
    again = FutilityCheck()
    again.restore(json.loads(json.dumps(guard.snapshot())))
    assert again.add(10, 3.0, 1.0)
