"""Groups that people name, and the most they want kept of each."""

from __future__ import annotations

import pytest

from headgate import BadArgument, Budget, GroupRates, GroupStats


@pytest.mark.parametrize(
    ("by", "one", "other"),
    [
        ("level", None, "null"),
        ("level", 1, "1"),
        ("level", "a", ("a",)),
        (("a", "b"), ("x | y", "z"), ("x", "y | z")),
    ],
)
def test_groups_that_are_shown_alike_are_refused(by: str, one: object, other: object) -> None:
    """A plan has rates by what groups are called: of two of one name, one would be nobody's."""
    with pytest.raises(BadArgument) as caught:
        GroupRates(by, {one: 0.01, other: 0.5})
    assert repr(one) in str(caught.value)
    assert repr(other) in str(caught.value)


def test_each_named_group_has_its_own_rate() -> None:
    policy = GroupRates(("a", "b"), {("x", None): 0.01, ("x", "y"): 0.5}, default=0.9)
    plan = policy.plan(Budget(0.5, "shedding"), GroupStats(keys={"x | null": 1, "x | y": 2}))
    assert (plan.rate_of(1), plan.rate_of(2), plan.rate_of(3)) == (0.005, 0.25, 0.45)
