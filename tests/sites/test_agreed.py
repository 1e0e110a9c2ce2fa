"""What a source may send and have it count."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import BadArgument
from headgate.sites.agreed import Agreed


def _steady(count: float, seconds: int, agreed: Agreed | None = None) -> Agreed:
    agreed = agreed or Agreed(patience_s=600)
    for _ in range(seconds):
        agreed.learn(count, 1.0)
    return agreed


def test_a_quarter_above_the_usual_counts() -> None:
    assert _steady(1000.0, 100).limit == pytest.approx(1250.0)


def test_ten_times_as_much_at_once_does_not_count() -> None:
    agreed = _steady(1000.0, 300)
    _steady(10_000.0, 60, agreed)
    assert agreed.limit < 1.05 * 1250.0


def test_growth_that_lasts_is_granted_a_quarter_in_every_patience() -> None:
    agreed = _steady(1000.0, 300)
    _steady(10_000.0, 600, agreed)
    assert agreed.limit == pytest.approx(1250.0 * math.exp(0.25), rel=0.01)
    _steady(10_000.0, 600 * 12, agreed)
    assert agreed.limit >= 10_000.0, "in the end it is what is usual"


def test_what_is_less_is_learned_too() -> None:
    agreed = _steady(1000.0, 300)
    _steady(100.0, 3000, agreed)
    assert agreed.limit == pytest.approx(125.0, rel=0.1)


def test_a_new_source_is_taken_at_its_word() -> None:
    agreed = Agreed(patience_s=600)
    agreed.learn(10.0, 1.0)  # a first batch that has hardly anything
    _steady(1000.0, 20, agreed)
    assert agreed.limit > 1000.0


def test_a_small_first_batch_does_not_bind_a_stream_with_a_long_trigger() -> None:
    agreed = Agreed(patience_s=600)
    agreed.learn(10.0, 60.0)
    for _ in range(4):
        agreed.learn(1000.0, 60.0)
    assert agreed.limit > 900.0
    for _ in range(10):
        agreed.learn(10_000.0, 60.0)
    assert agreed.limit < 1800.0, "and then it binds"


def test_silence_teaches_nothing() -> None:
    agreed = _steady(1000.0, 100)
    before = agreed.usual
    for count in (0.0, -5.0):
        agreed.learn(count, 1000.0)
    assert agreed.usual == before


def test_what_was_given_holds_whatever_comes() -> None:
    agreed = _steady(1e9, 100, Agreed(500.0))
    assert agreed.limit == 500.0
    assert Agreed(math.inf).limit == math.inf
    assert Agreed().limit == math.inf, "nothing is known yet: all counts"


@pytest.mark.parametrize("given_", [0.0, -1.0, math.nan])
def test_what_is_no_rate_is_refused(given_: float) -> None:
    with pytest.raises(BadArgument, match="above 0"):
        Agreed(given_)


def test_after_a_restart_a_noisy_source_is_not_new() -> None:
    again = Agreed(patience_s=600)
    again.restore(_steady(1000.0, 300).usual)
    _steady(10_000.0, 60, again)
    assert again.limit < 1.05 * 1250.0


@pytest.mark.parametrize("usual", [None, 0.0, -1.0, math.nan, math.inf])
def test_what_cannot_have_been_usual_is_not_remembered(usual: float | None) -> None:
    agreed = Agreed(patience_s=600)
    agreed.restore(usual)
    assert agreed.usual is None


@given(st.lists(st.tuples(st.floats(0.0, 1e6), st.floats(-1.0, 30.0)), max_size=100))
@settings(max_examples=100, deadline=None)
def test_the_limit_grows_by_a_quarter_a_patience_at_most(steps: list[tuple[float, float]]) -> None:
    agreed = Agreed(patience_s=600)
    agreed.restore(100.0)
    passed = 0.0
    for count, seconds in steps:
        agreed.learn(count, seconds)
        passed += max(0.0, seconds)
        assert 0.0 < agreed.limit <= 125.0 * math.exp(0.25 * passed / 600.0) * (1 + 1e-9)
