"""What every policy must do: legal and short plans within the budget, from no memory of its own."""

from __future__ import annotations

import itertools
import pickle
import random
from collections.abc import Callable, Iterator

from headgate.core.groups import GroupStats
from headgate.core.load import Budget
from headgate.core.plan import Plan
from headgate.policies import Policy
from headgate.policies.group_rates import label
from headgate.testing.contracts.require import require

__all__ = [
    "POLICY_CHECKS",
    "a_whole_budget_keeps_everything",
    "check_policy",
    "expected_share",
    "legal_groups",
    "more_budget_keeps_no_group_less",
    "plans_are_legal_and_short",
    "plans_stay_within_the_budget",
    "policies_are_stateless_and_travel",
]

#: Shares of a batch that a controller may allow.
_BUDGETS = (0.0, 1e-6, 0.01, 0.1, 0.25, 0.5, 0.75, 0.99, 1.0)


def legal_groups(policy: Policy, seed: int, count: int) -> Iterator[GroupStats]:
    """What could be known of the groups that this policy tells apart, nothing included."""
    rng = random.Random(seed)
    grouping = policy.grouping
    keys = {label(values): 1000 + i for i, values in enumerate(grouping.named)}
    groups = [*range(1, len(grouping.classes) + 1), *keys.values()]
    if grouping.columns:
        groups += [rng.getrandbits(63) for _ in range(5)]
    yield GroupStats(keys=keys)
    for _ in range(count):
        counts = {g: rng.choice((0, 1, rng.randrange(10**6))) for g in groups if rng.random() < 0.8}
        rest = rng.choice((0, 1, rng.randrange(10**6)))
        yield GroupStats(counts, sum(counts.values()) + rest, keys)


def expected_share(plan: Plan, groups: GroupStats) -> float:
    """The share of the groups' rows that the plan keeps on average."""
    listed = sum(groups.counts.values())
    kept = (groups.total - listed) * plan.default
    kept += sum(n * plan.rate_of(key) for key, n in groups.counts.items())
    return kept / groups.total if groups.total else 0.0


def _budget(keep: float) -> Budget:
    return Budget(keep, "shedding" if keep < 1 else "idle")


def plans_are_legal_and_short(policy: Policy) -> None:
    """Every rate is in [0, 1], and the plan lists no more groups than are known."""
    for groups in legal_groups(policy, 0, 50):
        for keep in _BUDGETS:
            plan = policy.plan(_budget(keep), groups)
            rates = [plan.default, *plan.exceptions.values()]
            require(all(0 <= r <= 1 for r in rates), f"{plan} has a rate outside [0, 1]")
            known = len(groups.counts) + len(groups.keys) + len(policy.grouping.classes)
            require(
                len(plan.exceptions) <= known,
                f"{len(plan.exceptions)} exceptions for {known} known groups",
            )


def plans_stay_within_the_budget(policy: Policy) -> None:
    """On the rows that these statistics describe, a plan keeps no more than the budget allows."""
    for groups in legal_groups(policy, 1, 100):
        for keep in _BUDGETS:
            share = expected_share(policy.plan(_budget(keep), groups), groups)
            require(share <= keep + 1e-9, f"a budget of {keep} and {groups}: {share} would be kept")


def more_budget_keeps_no_group_less(policy: Policy) -> None:
    """Rates never fall when the budget rises."""
    for groups in legal_groups(policy, 2, 50):
        plans = [policy.plan(_budget(keep), groups) for keep in _BUDGETS]
        for lower, higher in itertools.pairwise(plans):
            for key in {*lower.exceptions, *higher.exceptions, *groups.counts, -1}:
                require(
                    lower.rate_of(key) <= higher.rate_of(key) + 1e-12,
                    f"group {key} is kept at {lower.rate_of(key)}, and with more budget at "
                    f"{higher.rate_of(key)} ({groups})",
                )


def policies_are_stateless_and_travel(policy: Policy) -> None:
    """One object serves many gates, in many processes: no memory, and it pickles."""
    statistics = list(legal_groups(policy, 3, 20))
    fresh: Policy = pickle.loads(pickle.dumps(policy))
    before = [fresh.plan(_budget(0.3), c) for c in statistics]
    for groups in reversed(statistics):
        policy.plan(_budget(0.7), groups)
    after = [policy.plan(_budget(0.3), c) for c in statistics]
    require(before == after, "a policy must answer the same whatever it was asked before")
    require(fresh.grouping == policy.grouping, "pickling changed the policy's grouping")


def a_whole_budget_keeps_everything(policy: Policy, own_maxima: bool | None = None) -> None:
    """With a budget of 1 nothing is shed.

    A policy for which people chose rates of their own (`own_maxima`; by default one that names
    groups) sheds to those and no further: they do not depend on what the stream brings.
    """
    if own_maxima is None:
        own_maxima = bool(policy.grouping.named)
    statistics = list(legal_groups(policy, 4, 50))
    maximum = policy.plan(_budget(1.0), statistics[0])
    for groups in statistics:
        plan = policy.plan(_budget(1.0), groups)
        if own_maxima:
            require(plan == maximum, f"a budget of 1 gave {maximum}, and with {groups} it gave {plan}")
        else:
            require(plan.keeps_everything, f"a budget of 1 shed rows: {plan} with {groups}")


POLICY_CHECKS: tuple[Callable[[Policy], None], ...] = (
    plans_are_legal_and_short,
    plans_stay_within_the_budget,
    more_budget_keeps_no_group_less,
    policies_are_stateless_and_travel,
    a_whole_budget_keeps_everything,
)


def check_policy(policy: Policy, own_maxima: bool | None = None) -> None:
    """Run every policy check; raises AssertionError at the first that fails.

    `own_maxima` says whether people chose rates that hold without overload too; see
    `a_whole_budget_keeps_everything`. A policy that draws rows by the groups of their own batch
    (`Policy.drawing`) passes the checks of `headgate.testing.contracts.drawings` besides.
    """
    for check in POLICY_CHECKS:
        if check is not a_whole_budget_keeps_everything:
            check(policy)
    a_whole_budget_keeps_everything(policy, own_maxima)
    if policy.drawing is not None:
        # numpy, which a policy that draws needs anyhow, and others do not.
        from headgate.testing.contracts.drawings import check_drawing

        check_drawing(policy)
