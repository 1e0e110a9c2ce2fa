"""Every controller, policy and shedder passes the public suite; what is broken does not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headgate import (
    Budget,
    ConceptDriven,
    Controller,
    Drawing,
    GroupRates,
    GroupStats,
    LoadSample,
    Plan,
    Policy,
    Uniform,
)
from headgate.core.row_budget import RowBudget
from headgate.guards.inline import KEEP, LATE, Answer, InlineShedder
from headgate.guards.inline_published import InlineBaseLine
from headgate.guards.verdict import Shedder, Verdict
from headgate.testing import contracts
from headgate.testing.contracts import drawings, shedders
from headgate_lab.papers.las.baselines import BaseLine
from tests.testing.shipped import (
    CONTROLLERS,
    ELSEWHERE,
    INLINE_SHEDDERS,
    POLICIES,
    QUEUE_SHEDDERS,
    shipped,
)

_LISTS: list[tuple[type, Mapping[type, list[Any]]]] = [
    (Controller, CONTROLLERS),
    (Policy, POLICIES),
    (InlineShedder, INLINE_SHEDDERS),
    (Shedder, QUEUE_SHEDDERS),
]


def _examples(registry: Mapping[Any, list[Any]]) -> list[Any]:
    return [
        pytest.param(kind, example, id=f"{kind.__name__}-{number}")
        for kind, examples in registry.items()
        for number, example in enumerate(examples)
    ]


@pytest.mark.parametrize(("base", "registry"), _LISTS, ids=lambda v: getattr(v, "__name__", ""))
def test_every_class_has_an_example(base: type, registry: Mapping[type, list[Any]]) -> None:
    missing = shipped(base) - {kind for kind, examples in registry.items() if examples} - set(ELSEWHERE)
    assert not missing, f"give {missing} an example in tests/testing/shipped.py"


def test_a_class_without_an_example_is_found() -> None:
    class Forgotten(Uniform):
        pass

    Forgotten.__module__ = "headgate.policies.forgotten"
    assert Forgotten in shipped(Policy)
    Forgotten.__module__ = __name__  # it lives on in __subclasses__ until it is collected
    assert Forgotten not in shipped(Policy)


def test_what_is_checked_elsewhere_is_checked_there() -> None:
    for kind, page in ELSEWHERE.items():
        text = Path(page).read_text()
        assert "contracts.CONTROLLER_CHECKS" in text
        assert kind.__name__ in text


@pytest.mark.parametrize("check", contracts.CONTROLLER_CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize(("kind", "config"), _examples(CONTROLLERS))
def test_every_controller_passes(kind: type, config: Any, check: Any) -> None:
    assert type(config.build()) is kind
    check(config)


@pytest.mark.parametrize(("kind", "policy"), _examples(POLICIES))
def test_every_policy_passes(kind: type, policy: Policy) -> None:
    assert type(policy) is kind
    contracts.check_policy(policy)


@pytest.mark.parametrize(("kind", "build"), _examples(INLINE_SHEDDERS))
def test_every_shedder_in_a_worker_passes(kind: type, build: Any) -> None:
    assert type(build(None)) is kind
    shedders.check_shedder(build, by_chance=kind is InlineBaseLine)


@pytest.mark.parametrize(("kind", "build"), _examples(QUEUE_SHEDDERS))
def test_every_shedder_before_a_queue_passes(kind: type, build: Any) -> None:
    assert type(build()) is kind
    shedders.check_queue_shedder(build, by_chance=kind is BaseLine)


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

    def keep(self, arrived: float, covers_s: float | None = None) -> float:
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


@dataclass(frozen=True)
class BrokenDrawing(Policy):
    """Draws by a rule of its own, or by a level, with the fault of its name."""

    fault: str

    def plan(self, budget: Budget, groups: GroupStats) -> Plan:
        return Plan(budget.keep)

    @property
    def drawing(self) -> Drawing:
        fault, made = self.fault, next(_MADE)
        rules: dict[str, Callable[[Any, Plan], Any]] = {
            "other groups": lambda sizes, plan: np.zeros(1),
            "not a number": lambda sizes, plan: np.full(len(sizes), np.nan),
            "negative": lambda sizes, plan: -sizes,
            "neighbours": lambda sizes, plan: np.full(len(sizes), 10.0 / max(1, len(sizes))),
            "order": lambda sizes, plan: np.arange(len(sizes)),
            "contrary": lambda sizes, plan: (1.0 - plan.default) * sizes,
            "writes": lambda sizes, plan: sizes.fill(0) or sizes,
            "moody": lambda sizes, plan: np.minimum(sizes, made % 3),
        }
        return Drawing(
            by=() if fault == "no column" else ("route",), rule=fault, quotas=rules.get(fault)
        )


_MADE = itertools.count()


@pytest.mark.parametrize(
    ("fault", "check", "says"),
    [
        ("no column", drawings.quotas_are_legal, "names no column"),
        ("no rule", drawings.quotas_are_legal, "one of senate"),
        ("other groups", drawings.quotas_are_legal, "quotas for"),
        ("not a number", drawings.quotas_are_legal, "nan"),
        ("negative", drawings.quotas_are_legal, "quotas"),
        ("writes", drawings.quotas_are_legal, "changed the sizes"),
        ("neighbours", drawings.quotas_are_the_groups_own, "in two tasks"),
        ("order", drawings.quotas_are_the_groups_own, "must follow from the group's own rows"),
        ("contrary", drawings.more_budget_draws_no_group_less, "with a budget of"),
        ("moody", drawings.drawings_travel, "other quotas"),
    ],
)
def test_a_broken_drawing_fails_the_check_for_its_fault(fault: str, check: Any, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check(BrokenDrawing(fault))
    with pytest.raises(AssertionError):
        contracts.check_policy(BrokenDrawing(fault))


class Generous(Policy):
    """Its level is that of twice the budget."""

    def plan(self, budget: Budget, groups: GroupStats) -> Plan:
        good = POLICIES[ConceptDriven][0]
        return good.plan(replace(budget, keep=min(1.0, 2.0 * budget.keep)), groups)

    @property
    def drawing(self) -> Drawing:
        return Drawing(by=("route",), rule="senate")


def test_a_level_beyond_the_budget_fails() -> None:
    with pytest.raises(AssertionError, match="are allowed"):
        drawings.drawn_within_the_budget(Generous())


class BrokenShedder(InlineShedder):
    """Keeps all but for its fault."""

    calls = itertools.count()

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def offer(self, key: Hashable, arrived_s: float, now_s: float) -> Answer:
        if self.fault == "half a row":
            return (0.5, "")
        if self.fault == "no reason":
            return (0.0, "")
        if self.fault == "drops the idle":
            return LATE if key == "key 3" else KEEP
        return LATE if self.fault == "by whim" and next(self.calls) % 7 == 0 else KEEP

    def done(self, key: Hashable, seconds: float, now_s: float) -> None:
        if self.fault != "learns nothing":
            super().done(key, seconds, now_s)

    def state(self) -> dict[str, Any]:
        return {"at": id(self)} if self.fault == "forgets" else {}


@pytest.mark.parametrize(
    ("fault", "check", "says"),
    [
        ("half a row", shedders.answers_are_legal, "is no answer"),
        ("no reason", shedders.answers_are_legal, "is no answer"),
        ("by whim", shedders.shedding_is_deterministic, "the second time"),
        ("forgets", shedders.state_is_json_and_comes_back, "remembers"),
        ("learns nothing", shedders.lessons_are_what_was_executed, "lessons"),
        ("drops the idle", shedders.rows_that_do_not_wait_are_kept, "waited for nothing"),
    ],
)
def test_a_broken_shedder_fails_the_check_for_its_fault(fault: str, check: Any, says: str) -> None:
    def build(state: Mapping[str, Any] | None) -> InlineShedder:
        return BrokenShedder(fault)

    with pytest.raises(AssertionError, match=says):
        check(build)
    with pytest.raises(AssertionError):
        shedders.check_shedder(build)


class BrokenQueueShedder(Shedder):
    """Keeps all but for its fault."""

    calls = itertools.count()

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def offer(self, key: int, now_s: float, known_s: float | None = None) -> Verdict:
        if self.fault == "no chance":
            return Verdict(True, 0.0)
        if self.fault == "by whim":
            return Verdict(next(self.calls) % 7 > 0, 0.5)
        return Verdict(self.fault != "drops the idle", 0.5)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("no chance", "is no verdict"),
        ("by whim", "the second time"),
        ("drops the idle", "waited for nothing"),
    ],
)
def test_a_broken_shedder_before_a_queue_fails(fault: str, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        shedders.check_queue_shedder(lambda: BrokenQueueShedder(fault))
