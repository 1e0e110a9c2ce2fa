"""The policy without Spark: budgets become levels, and bad use is told at the call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headgate as hg
from headgate.core.groups import GroupStats, Strata
from headgate.core.load import Budget
from headgate.core.plan import Plan
from headgate.policies.by_group.level import Rule
from headgate.testing.contracts import check_policy

SIZES = np.array([6000, 3000, 900, 90, 9, 1])


def _concept(policy: hg.ConceptDriven, sizes: np.ndarray = SIZES) -> GroupStats:
    needs = np.full(len(sizes), 50.0)
    rule = policy.rule(sizes.sum() / len(sizes) if policy.allocation == "congress" else 1.0)
    shares = rule.shares(sizes, np.ones(len(sizes)), needs)
    curve = rule.curve(sizes, shares)
    return GroupStats(total=int(sizes.sum()), strata=Strata(len(sizes), tuple(curve), 1.0))


def _kept(policy: hg.ConceptDriven, plan: Plan, sizes: np.ndarray = SIZES) -> int:
    rule = policy.rule(plan.draw.reference)
    shares = rule.shares(sizes, np.ones(len(sizes)), np.full(len(sizes), 50.0))
    assert plan.level is not None
    return int(rule.quotas(plan.level, sizes, shares, np.full(len(sizes), 0.5)).sum())


@pytest.mark.parametrize("counts", ["batch", "partition", "history"])
@pytest.mark.parametrize("rule", ["senate", "proportional", "congress", "sqrt"])
def test_the_contract_holds(counts: str, rule: str) -> None:
    check_policy(hg.ConceptDriven("route", counts=counts, allocation=rule))


@pytest.mark.parametrize("rule", ["senate", "proportional", "congress", "sqrt", "neyman"])
@pytest.mark.parametrize("keep", [0.02, 0.1, 0.5])
def test_the_level_fills_the_budget(rule: str, keep: float) -> None:
    policy = hg.ConceptDriven("route", allocation=rule, value="fare" if rule == "neyman" else None)
    plan = policy.plan(Budget(keep, "shedding"), _concept(policy))
    assert _kept(policy, plan) == pytest.approx(keep * SIZES.sum(), rel=0.06)


@pytest.mark.parametrize("rule", ["senate", "proportional", "sqrt"])
def test_a_batch_that_will_be_ten_times_larger_gets_the_level_for_that(rule: str) -> None:
    policy = hg.ConceptDriven("route", allocation=rule)
    plan = policy.plan(Budget(0.02, "shedding", rows=2000.0), _concept(policy))
    assert _kept(policy, plan, 10 * SIZES) == pytest.approx(2000, rel=0.06)


def test_a_trickle_before_a_burst_does_not_open_the_gate() -> None:
    policy = hg.ConceptDriven("route")
    trickle = np.array([3, 2, 1])
    plan = policy.plan(Budget(0.1, "shedding", rows=1000.0), _concept(policy, trickle))
    assert _kept(policy, plan, np.array([5000, 3000, 2000])) <= 1700


def test_without_a_batch_to_learn_from_the_tasks_decide() -> None:
    plan = hg.ConceptDriven("route").plan(Budget(0.1, "shedding"), GroupStats())
    assert (plan.default, plan.level) == (0.1, None)


def test_a_level_above_every_group_keeps_all_of_them() -> None:
    sizes = np.array([5, 3])
    kept = Rule().quotas(100.0, sizes, np.ones(2), np.zeros(2))
    assert kept.tolist() == [5, 3]


WISH = hg.Accuracy("fare", within=0.02)


@pytest.mark.parametrize(
    ("prefer", "level", "says"),
    [("latency", 0.2, "accuracy yields to latency"), ("accuracy", 1.0, "latency yields to accuracy")],
)
def test_the_stated_preference_decides_and_the_ledger_says_so(
    prefer: str, level: float, says: str
) -> None:
    policy = hg.ConceptDriven("route", accuracy=WISH, prefer=prefer)
    sizes = np.full(10, 1000)
    groups = _concept(policy, sizes)  # 50 rows needed of each: 500 in all
    plan = policy.plan(Budget(0.01, "shedding"), groups)
    assert plan.level == pytest.approx(level, rel=0.05)
    assert says in policy.remark(plan, groups)


def test_with_time_for_more_than_the_accuracy_needs_more_is_kept() -> None:
    generous = hg.ConceptDriven("route", accuracy=WISH)
    groups = _concept(generous, np.full(10, 1000))
    plan = generous.plan(Budget(0.2, "shedding"), groups)
    assert plan.level == pytest.approx(4.0, rel=0.05)
    assert generous.remark(plan, groups) == ""
    thrifty = hg.ConceptDriven("route", accuracy=WISH, thrifty=True)
    assert thrifty.plan(Budget(0.2, "shedding"), groups).level == 1.0
    assert thrifty.plan(Budget(1.0, "idle"), groups).level == 1.0
    assert generous.plan(Budget(1.0, "idle"), groups).keeps_everything


def test_needs_are_those_of_the_textbook() -> None:
    sizes, part = np.array([100_000, 1000, 20]), np.ones(3)
    needs = hg.Accuracy("x", within=0.1).needs(sizes, np.full(3, 10.0), np.full(3, 5.0), part)
    first = (1.959964 * 5.0 / 1.0) ** 2
    assert needs[0] == pytest.approx(first / (1 + first / 1e5) + 2)
    assert needs[1] == pytest.approx(first / (1 + first / 1e3) + 2)
    assert needs[2] == 0.0, "fewer than least_rows"
    tenth = hg.Accuracy("x", within=0.1).needs(
        sizes[:1] // 10, np.array([10.0]), np.array([5.0]), part[:1] / 10
    )
    assert tenth[0] == pytest.approx(needs[0] / 10)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"by": ()}, "at least one"),
        ({"window": "10 minutes"}, "needs time="),
        ({"slide": "10 minutes"}, "need window="),
        ({"time": "at"}, "need window="),
        ({"window": "10 minutes", "slide": "30 minutes", "time": "at"}, "longer than window"),
        ({"window": "-1 minutes", "time": "at", "slide": "1 minute"}, "positive duration"),
        ({"allocation": "house"}, "'senate'"),
        ({"allocation": "neyman"}, "needs value="),
        ({"overflow": "burst"}, "'exceed'"),
        ({"counts": "guess"}, "'batch'"),
        ({"draw": "straws"}, "'fixed'"),
        ({"prefer": "both"}, "'latency'"),
        ({"least": 0}, "at least 1"),
        ({"accuracy": 0.02}, "numeric column"),
        ({"accuracy": WISH, "counts": "history"}, "counts='batch'"),
        ({"accuracy": WISH, "allocation": "sqrt"}, "leave allocation out"),
        ({"thrifty": True}, "needs accuracy="),
        ({"accuracy": WISH, "overflow": "random"}, "leave overflow out"),
    ],
)
def test_bad_use_is_told_at_the_call(given: dict[str, Any], says: str) -> None:
    with pytest.raises(hg.BadArgument, match=says):
        hg.ConceptDriven(**{"by": "route", **given})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"of": None}, "numeric column"),
        ({"within": 0}, "outside"),
        ({"within": "2 %"}, "not a number"),
        ({"confidence": 95}, "outside"),
        ({"least_rows": 0}, "at least 1"),
    ],
)
def test_an_accuracy_must_make_sense(given: dict[str, Any], says: str) -> None:
    with pytest.raises(hg.BadArgument, match=says):
        hg.Accuracy(**{"of": "fare", "within": 0.02, **given})


def test_a_thrifty_policy_with_little_time_keeps_what_fits() -> None:
    """Its controller thinks in the rows that are needed (500 here), not in those that come."""
    policy = hg.ConceptDriven("route", accuracy=WISH, thrifty=True)
    groups = _concept(policy, np.full(10, 1000))
    plan = policy.plan(Budget(0.5, "shedding", rows=250.0), groups)
    assert plan.level == pytest.approx(0.5, rel=0.05)
    assert policy.would_keep(plan, groups) == pytest.approx(0.025, rel=0.05)


def test_nothing_fits_at_all() -> None:
    assert hg.ConceptDriven("route").plan(Budget(0.0, "shedding"), GroupStats()).keeps_nothing
