"""What every controller and every policy must do, as checks that anyone can run over their own.

>>> from headgate import HoldDuration, Uniform
>>> check_controller(HoldDuration("1 second"))
>>> check_policy(Uniform())

A check that fails raises AssertionError and says what was expected, with the sample or the groups
that shows it. Everything is seeded: a failure comes again.
"""

from __future__ import annotations

import itertools
import json
import math
import pickle
import random
from collections.abc import Callable, Iterator

from headgate.control import Controller, ControllerConfig
from headgate.core.groups import GroupStats
from headgate.core.load import Budget, LoadSample
from headgate.core.plan import Plan
from headgate.policies import Policy
from headgate.policies.group_rates import label

__all__ = [
    "CONTROLLER_CHECKS",
    "POLICY_CHECKS",
    "check_controller",
    "check_policy",
    "legal_groups",
    "legal_samples",
]

#: The largest snapshot allowed, in bytes of JSON: it is written after every batch.
LARGEST_SNAPSHOT = 8192
_BUDGETS = (0.0, 1e-6, 0.01, 0.1, 0.25, 0.5, 0.75, 0.99, 1.0)


def _require(holds: bool, message: str) -> None:
    """Like ``assert``, but python -O does not take it away."""
    if not holds:
        raise AssertionError(message)


# ------------------------------------------------------------------------------------ controllers


def legal_samples(seed: int, count: int) -> Iterator[LoadSample]:
    """Samples that can happen: jumps of load, empty batches, lost clocks, backlogs, no arrivals."""
    rng = random.Random(seed)
    now, keep = 1.7e9, 1.0
    for batch in range(count):
        scale = 10.0 ** rng.uniform(0, 8)
        arrived = 0 if rng.random() < 0.1 else int(scale * rng.random())
        keep = rng.choice((keep, 1.0, rng.random(), 0.01))
        duration = rng.choice((0.0, 0.05, rng.expovariate(1.0), 10.0 ** rng.uniform(-3, 4)))
        oldest = None if rng.random() < 0.3 else now - rng.expovariate(0.5)
        backlog = rng.choice((None, 0, int(scale)))
        yield LoadSample(batch, now, duration, arrived, round(arrived * keep), oldest, backlog)
        # A clock that was set back, or two starts in one millisecond, are legal too.
        now += rng.choice((duration, duration + rng.expovariate(1.0), 0.0, -0.5))


def _overload(count: int, seed: int = 1) -> Iterator[LoadSample]:
    """A plain overload: three times what fits into a second, at a steady pace."""
    rng = random.Random(seed)
    for batch in range(count):
        arrived = 30_000 + rng.randrange(1000)
        kept = round(arrived * rng.uniform(0.2, 0.4))
        start = 1.7e9 + 1.5 * batch
        yield LoadSample(batch, start, 0.25 + 0.75e-4 * kept, arrived, kept, start - 1.0)


def _decide_all(controller: Controller, samples: Iterator[LoadSample]) -> list[Budget]:
    return [controller.decide(sample) for sample in samples]


def budgets_are_legal(config: ControllerConfig) -> None:
    """The keep share is a number in [0, 1], whatever the samples are, and for a batch of any size."""
    for seed in range(20):
        controller = config.build()
        budget = controller.opening(1.7e9)
        _require(_legal(budget), f"opening of a fresh controller answered {budget}")
        for sample in legal_samples(seed, 60):
            budget = controller.decide(sample)
            _require(_legal(budget), f"keep must be in [0, 1]; {budget} after {sample}")
            _require_sizes(budget, f"{budget} after {sample}")
        budget = config.build(controller.snapshot()).opening(1.8e9)
        _require(_legal(budget), f"opening after a restart answered {budget}")


#: Sizes of batches for which a budget is asked.
_SIZES = (0, 1, 10, 1_000, 10**5, 10**7, 10**10)


def _require_sizes(budget: Budget, told: str) -> None:
    """For a batch of any size the share is legal; a larger batch keeps no larger share of its rows."""
    before = 1.0
    for rows in _SIZES:
        resolved = budget.at(rows)
        _require(_legal(resolved), f"a batch of {rows} rows gets {resolved}: {told}")
        if budget.fits is not None and rows:
            _require(
                resolved.keep <= before + 1e-9,
                f"a batch of {rows} rows keeps {resolved.keep}, and a smaller one {before}: {told}",
            )
            before = resolved.keep


def _legal(budget: Budget) -> bool:
    keep = budget.keep
    return isinstance(keep, int | float) and math.isfinite(keep) and 0.0 <= keep <= 1.0


def snapshot_continues_exactly(config: ControllerConfig) -> None:
    """A snapshot is JSON, and a controller built from it goes on as the original does."""
    for seed in range(6):
        samples = list(legal_samples(seed, 80)) + list(_overload(40, seed))
        original = config.build()
        copies: list[tuple[int, Controller]] = []
        for cut, sample in enumerate(samples):
            answer = original.decide(sample)
            for begun, copy in copies:
                _require(
                    copy.decide(sample) == answer,
                    f"built from the snapshot after sample {begun}, it answered otherwise than "
                    f"the original after sample {cut}: {sample}",
                )
            if cut % 17 == 0:
                stored = json.loads(json.dumps(original.snapshot(), allow_nan=False))
                copies.append((cut, config.build(stored)))


def snapshot_stays_small(config: ControllerConfig) -> None:
    """What is learned does not grow with the number of batches."""
    controller = config.build()
    _decide_all(controller, legal_samples(0, 500))
    _decide_all(controller, _overload(500))
    size = len(json.dumps(controller.snapshot()))
    _require(size <= LARGEST_SNAPSHOT, f"a snapshot after 1,000 batches has {size} bytes")


def empty_batches_are_harmless(config: ControllerConfig) -> None:
    """A batch without rows is no reason to shed more."""
    fresh = config.build()
    keep = fresh.opening(1.7e9).keep
    for batch in range(5):
        after = fresh.decide(LoadSample(batch, 1.7e9 + batch, 0.1, 0, 0)).keep
        _require(after >= keep, f"empty batches alone lowered keep from {keep} to {after}")
    controller = config.build()
    keep = _decide_all(controller, _overload(50))[-1].keep
    for batch in range(50, 60):
        after = controller.decide(LoadSample(batch, 1.7e9 + 1.5 * batch, 0.1, 0, 0)).keep
        _require(after >= keep - 1e-12, f"an empty batch lowered keep from {keep} to {after}")
        keep = after


def builds_are_independent(config: ControllerConfig) -> None:
    """Two controllers of one configuration share nothing, and the configuration does not change."""
    before = repr(config)
    alone = _decide_all(config.build(), _overload(30))
    first, second = config.build(), config.build()
    _decide_all(first, legal_samples(3, 60))
    beside = _decide_all(second, _overload(30))
    _require(alone == beside, "a controller answered otherwise because another one of its config ran")
    _require(repr(config) == before, f"building changed the configuration: {before} -> {config!r}")


def answers_are_deterministic(config: ControllerConfig) -> None:
    """The same samples give the same budgets: no clock, no chance."""
    for seed in range(5):
        first = _decide_all(config.build(), legal_samples(seed, 80))
        second = _decide_all(config.build(), legal_samples(seed, 80))
        _require(first == second, f"the samples of seed {seed} gave other budgets the second time")


CONTROLLER_CHECKS: tuple[Callable[[ControllerConfig], None], ...] = (
    budgets_are_legal,
    snapshot_continues_exactly,
    snapshot_stays_small,
    empty_batches_are_harmless,
    builds_are_independent,
    answers_are_deterministic,
)


def check_controller(config: ControllerConfig) -> None:
    """Run every controller check; raises AssertionError at the first that fails."""
    for check in CONTROLLER_CHECKS:
        check(config)


# --------------------------------------------------------------------------------------- policies


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
            _require(all(0 <= r <= 1 for r in rates), f"{plan} has a rate outside [0, 1]")
            known = len(groups.counts) + len(groups.keys) + len(policy.grouping.classes)
            _require(
                len(plan.exceptions) <= known,
                f"{len(plan.exceptions)} exceptions for {known} known groups",
            )


def plans_stay_within_the_budget(policy: Policy) -> None:
    """On the rows that these statistics describe, a plan keeps no more than the budget allows."""
    for groups in legal_groups(policy, 1, 100):
        for keep in _BUDGETS:
            share = expected_share(policy.plan(_budget(keep), groups), groups)
            _require(share <= keep + 1e-9, f"a budget of {keep} and {groups}: {share} would be kept")


def more_budget_keeps_no_group_less(policy: Policy) -> None:
    """Rates never fall when the budget rises."""
    for groups in legal_groups(policy, 2, 50):
        plans = [policy.plan(_budget(keep), groups) for keep in _BUDGETS]
        for lower, higher in itertools.pairwise(plans):
            for key in {*lower.exceptions, *higher.exceptions, *groups.counts, -1}:
                _require(
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
    _require(before == after, "a policy must answer the same whatever it was asked before")
    _require(fresh.grouping == policy.grouping, "pickling changed the policy's grouping")


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
            _require(plan == maximum, f"a budget of 1 gave {maximum}, and with {groups} it gave {plan}")
        else:
            _require(plan.keeps_everything, f"a budget of 1 shed rows: {plan} with {groups}")


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
    `a_whole_budget_keeps_everything`.
    """
    for check in POLICY_CHECKS:
        if check is not a_whole_budget_keeps_everything:
            check(policy)
    a_whole_budget_keeps_everything(policy, own_maxima)
