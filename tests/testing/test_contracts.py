"""Every shipped controller and policy passes the public suite; what is broken does not."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from headgate import (
    Budget,
    Controller,
    FixedRate,
    GroupRates,
    GroupStats,
    HoldDelay,
    HoldDuration,
    LoadSample,
    Plan,
    Policy,
    Uniform,
    ValueClasses,
)
from headgate.core.row_budget import RowBudget
from headgate.testing import contracts

CONTROLLERS = [
    FixedRate(0.3),
    FixedRate(1.0),
    HoldDuration("1 second"),
    HoldDuration("1 ms"),
    HoldDuration("1 hour", min_keep=0.2),
    HoldDelay("2 seconds"),
    HoldDelay("10 ms", min_keep=1.0),
]
POLICIES = [
    Uniform(),
    ValueClasses(("a",)),
    ValueClasses(("a", "b", "c")),
    GroupRates("level", {"DEBUG": 0.01, "INFO": 1.0}),
    GroupRates(("a", "b"), {("x", None): 0.5}, default=0.9),
]


@pytest.mark.parametrize("check", contracts.CONTROLLER_CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("config", CONTROLLERS, ids=repr)
def test_every_shipped_controller_passes(config: Any, check: Any) -> None:
    check(config)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_every_shipped_policy_passes(policy: Policy) -> None:
    contracts.check_policy(policy)


def test_rates_that_people_chose_for_all_groups_can_be_declared() -> None:
    half = GroupRates("level", {}, default=0.5)
    contracts.check_policy(half, own_maxima=True)
    with pytest.raises(AssertionError, match="budget of 1 shed rows"):
        contracts.check_policy(half)


def test_an_incomplete_controller_or_policy_cannot_be_made() -> None:
    class NoSnapshot(Controller):
        def decide(self, sample: LoadSample) -> Budget:
            return Budget(1.0, "idle")

    class NoPlan(Policy):
        pass

    with pytest.raises(TypeError, match="snapshot"):
        NoSnapshot()  # type: ignore[abstract]
    with pytest.raises(TypeError, match="plan"):
        NoPlan()  # type: ignore[abstract]


class Odd(RowBudget):
    """Keeps the larger share the larger a batch is."""

    def keep(self, arrived: float) -> float:
        return min(1.0, arrived / 1e7)


class Broken(Controller):
    """Keeps all, until a fault is switched on."""

    shared = itertools.count()

    def __init__(self, fault: str, snapshot: Mapping[str, Any] | None) -> None:
        self.fault = fault
        self.seen: list[float] = list((snapshot or {}).get("seen", []))

    def decide(self, sample: LoadSample) -> Budget:
        self.seen.append(sample.duration_s)
        keep = {
            "above one": 1.0 + sample.duration_s,
            "nan": float("nan"),
            "grows": 1.0,
            "forgets": 1.0 / (1 + len(self.seen)),
            "shared": 1.0 / (1 + next(self.shared)),
            "empty sheds": 0.1 if sample.arrived == 0 else 1.0,
            "odd sizes": 1.0,
        }[self.fault]
        return Budget(keep, "idle", fits=Odd(1.0) if self.fault == "odd sizes" else None)

    def snapshot(self) -> dict[str, Any]:
        return {} if self.fault in ("forgets", "empty sheds") else {"seen": self.seen}


@dataclass(frozen=True)
class BrokenConfig:
    fault: str

    def build(self, snapshot: Mapping[str, Any] | None = None) -> Controller:
        return Broken(self.fault, snapshot)


@pytest.mark.parametrize(
    ("fault", "check", "says"),
    [
        ("above one", contracts.budgets_are_legal, r"keep must be in \[0, 1\]"),
        ("nan", contracts.budgets_are_legal, r"keep must be in \[0, 1\]"),
        ("odd sizes", contracts.budgets_are_legal, "and a smaller one"),
        ("forgets", contracts.snapshot_continues_exactly, "answered otherwise than the original"),
        ("grows", contracts.snapshot_stays_small, "bytes"),
        ("empty sheds", contracts.empty_batches_are_harmless, "lowered keep"),
        ("shared", contracts.builds_are_independent, "because another one"),
        ("shared", contracts.answers_are_deterministic, "the second time"),
    ],
)
def test_a_broken_controller_fails_the_check_for_its_fault(fault: str, check: Any, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check(BrokenConfig(fault))
    with pytest.raises(AssertionError):
        contracts.check_controller(BrokenConfig(fault))


class TooMuch(Policy):
    def plan(self, budget: Budget, groups: GroupStats) -> Plan:
        return Plan(min(1.0, budget.keep + 0.01))


class ShedsAlways(Policy):
    def plan(self, budget: Budget, groups: GroupStats) -> Plan:
        return Plan(0.9 * budget.keep)


class Contrary(Policy):
    def plan(self, budget: Budget, groups: GroupStats) -> Plan:
        return Plan(1.0 if budget.keep == 1.0 else min(budget.keep, 0.4 * (1 - budget.keep)))


class Remembers(Policy):
    def __init__(self) -> None:
        self.calls = 0

    def plan(self, budget: Budget, groups: GroupStats) -> Plan:
        self.calls += 1
        return Plan(budget.keep if budget.keep == 1.0 else budget.keep / self.calls)


class ListsTheWorld(Policy):
    def plan(self, budget: Budget, groups: GroupStats) -> Plan:
        return Plan(budget.keep, dict.fromkeys(range(100), budget.keep))


class StaysAtHome(Policy):
    def __init__(self) -> None:
        self.rate = lambda keep: keep  # does not pickle

    def plan(self, budget: Budget, groups: GroupStats) -> Plan:
        return Plan(self.rate(budget.keep))


@pytest.mark.parametrize(
    ("policy", "error", "says"),
    [
        (TooMuch(), AssertionError, "would be kept"),
        (ShedsAlways(), AssertionError, "budget of 1 shed rows"),
        (Contrary(), AssertionError, "with more budget"),
        (Remembers(), AssertionError, "more budget|asked before"),
        (ListsTheWorld(), AssertionError, "exceptions for"),
        (StaysAtHome(), Exception, "pickle"),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, Policy) else None,
)
def test_a_broken_policy_fails(policy: Policy, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        contracts.check_policy(policy)
