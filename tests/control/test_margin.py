"""The quantile of the misses, whatever their distribution, and what it makes of the aim."""

from __future__ import annotations

import json
import random

import pytest

from headgate.control.margin import Margin


def _outside(draw: random.Random, heavy: bool, inside: float) -> float:
    """The share of misses above the tracked quantile, once it has been found."""
    margin, outside = Margin(inside), 0
    for batch in range(6_000):
        miss = draw.gauss(0.0, 0.1)
        if heavy and draw.random() < 0.1:
            miss = abs(miss) * 2.0
        if batch >= 1_000:
            outside += miss > margin.quantile * 0.1
        margin.add(miss, 0.1)
    return outside / 5_000


@pytest.mark.parametrize("heavy", [False, True], ids=["normal", "heavy tail"])
@pytest.mark.parametrize("inside", [0.8, 0.95])
def test_the_wanted_share_is_inside_whatever_the_tail(heavy: bool, inside: float) -> None:
    assert _outside(random.Random(1), heavy, inside) == pytest.approx(1 - inside, rel=0.15)


def test_doubt_and_rows_that_are_not_as_planned_lower_the_aim() -> None:
    margin = Margin(0.95)
    plain = margin.aim(0.1, 0.0, 0.8)
    assert margin.aim(0.1, 0.1, 0.8) < plain
    for kept in (500, 2_000) * 20:
        margin.missed_rows(kept, 1_000)
    assert margin.aim(0.1, 0.0, 0.8) < 0.7 * plain
    assert margin.aim(0.1, 0.0, 0.0) == plain, "where rows cost nothing their number does not matter"


def test_the_aim_has_its_bounds() -> None:
    margin = Margin(0.95)
    assert margin.aim(5.0, 0.0, 1.0) == 0.5
    assert margin.aim(5.0, 5.0, 1.0) < 0.2, "what is not known of prices has no bound"
    assert margin.aim(0.0, 0.0, 1.0) == 0.97


def test_a_snapshot_goes_on() -> None:
    margin, again = Margin(0.9), Margin(0.9)
    for miss in (0.3, -0.1, 0.2):
        margin.add(miss, 0.1)
    margin.missed_rows(10, 20)
    again.restore(json.loads(json.dumps(margin.snapshot())))
    assert again.aim(0.1, 0.1, 0.5) == margin.aim(0.1, 0.1, 0.5)
