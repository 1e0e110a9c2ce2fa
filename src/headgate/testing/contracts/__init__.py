"""What every controller, policy and shedder must do, as checks that anyone can run over their own.

>>> from headgate import HoldDuration, Uniform
>>> check_controller(HoldDuration("1 second"))
>>> check_policy(Uniform())

A check that fails raises AssertionError and says what was expected, with the sample or the groups
that shows it. Everything is seeded: a failure comes again. The checks of a policy that draws rows by
their own batch's groups are in `drawings`, those of a guard's shedders in `shedders`; both need numpy,
and are loaded when they are used.
"""

from headgate.testing.contracts.controllers import (
    CONTROLLER_CHECKS,
    LARGEST_SNAPSHOT,
    answers_are_deterministic,
    budgets_are_legal,
    builds_are_independent,
    check_controller,
    empty_batches_are_harmless,
    legal_samples,
    snapshot_continues_exactly,
    snapshot_stays_small,
)
from headgate.testing.contracts.policies import (
    POLICY_CHECKS,
    a_whole_budget_keeps_everything,
    check_policy,
    expected_share,
    legal_groups,
    more_budget_keeps_no_group_less,
    plans_are_legal_and_short,
    plans_stay_within_the_budget,
    policies_are_stateless_and_travel,
)

__all__ = [
    "CONTROLLER_CHECKS",
    "LARGEST_SNAPSHOT",
    "POLICY_CHECKS",
    "a_whole_budget_keeps_everything",
    "answers_are_deterministic",
    "budgets_are_legal",
    "builds_are_independent",
    "check_controller",
    "check_policy",
    "empty_batches_are_harmless",
    "expected_share",
    "legal_groups",
    "legal_samples",
    "more_budget_keeps_no_group_less",
    "plans_are_legal_and_short",
    "plans_stay_within_the_budget",
    "policies_are_stateless_and_travel",
    "snapshot_continues_exactly",
    "snapshot_stays_small",
]
