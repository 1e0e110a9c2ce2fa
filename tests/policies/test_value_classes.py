"""The budget goes to the best class first, and a sample of every class stands for the rest of it."""

from __future__ import annotations

import pytest

from headgate import BadArgument, Budget, GroupStats, ValueClasses

VIP = ValueClasses(("vip",))


def _kept(policy: ValueClasses, keep: float, counts: dict[int, int], total: int) -> dict[int, float]:
    plan = policy.plan(Budget(keep, "shedding"), GroupStats(counts=counts, total=total))
    rest = {0: total - sum(counts.values())}
    return {group: plan.rate_of(group) * rows for group, rows in {**counts, **rest}.items()}


@pytest.mark.parametrize("keep", [0.01, 0.05, 0.1, 0.3, 0.7])
@pytest.mark.parametrize("counts", [{1: 0}, {1: 100}, {1: 900}, {1: 1000}, {1: 100, 2: 500}])
def test_the_budget_is_what_is_kept(keep: float, counts: dict[int, int]) -> None:
    policy = ValueClasses(tuple(f"c{i}" for i in counts))
    kept = _kept(policy, keep, counts, 1000)
    assert sum(kept.values()) == pytest.approx(1000 * keep)


@pytest.mark.parametrize("keep", [0.01, 0.05, 0.1, 0.3])
def test_rows_of_every_class_are_kept_to_stand_for_it(keep: float) -> None:
    """Of a class of which none is kept, no weight would tell: sums would be too small without a word."""
    counts = {1: 400, 2: 300}
    kept = _kept(ValueClasses(("best", "better")), keep, counts, 1000)
    for group, rows in {**counts, 0: 300}.items():
        assert kept[group] >= min(0.01, 0.1 * keep) * rows * (1 - 1e-9), group
    assert kept[1] >= min(400, 0.9 * 1000 * keep) - 1e-9, "the best yields a tenth of the budget at most"


def test_a_class_that_fits_is_kept_whole() -> None:
    assert _kept(VIP, 0.2, {1: 150}, 1000) == {1: 150, 0: pytest.approx(50)}


def test_without_a_sample_the_others_are_shed_whole() -> None:
    policy = ValueClasses(("vip",), sample=0.0)
    assert _kept(policy, 0.1, {1: 400}, 1000) == {1: pytest.approx(100), 0: 0.0}


@pytest.mark.parametrize("sample", [-0.1, 1.5, True, float("nan")])
def test_a_sample_is_a_share(sample: float) -> None:
    with pytest.raises(BadArgument, match="sample="):
        ValueClasses(("vip",), sample=sample)
