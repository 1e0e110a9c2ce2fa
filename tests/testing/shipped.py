"""Every controller, policy and shedder there is, found by its class, with examples to check.

A class that has no example here fails `test_every_class_has_an_example`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import headgate
import headgate_lab
from headgate import (
    Accuracy,
    ConceptDriven,
    Controller,
    FixedRate,
    GroupRates,
    HoldDelay,
    HoldDuration,
    Policy,
    Uniform,
    ValueClasses,
    average,
)
from headgate.control.delay import HoldDelayController
from headgate.control.duration import HoldDurationController
from headgate.control.fixed import FixedRateController
from headgate.guards.inline import InlineShedder, KeepAll
from headgate.guards.inline_policy import InlinePolicy
from headgate.guards.inline_price import InlinePrice
from headgate.guards.inline_published import (
    InlineBaseLine,
    InlineLas,
    InlineQueueCheck,
    InlineStrawMan,
)
from headgate.guards.published.messages import Pair
from headgate.guards.published.settings import LasSettings
from headgate.guards.published.shedder import LoadShedder
from headgate.guards.verdict import Shedder
from headgate.sites.controller import SiteShareController
from headgate.sketches.cost_sketch import CostSketch
from headgate.sketches.keys import stable_key
from headgate_lab.papers.las.baselines import BaseLine, FullKnowledge, StrawMan
from headgate_lab.papers.las.price_shedder import AckedPrice, PriceShedder

__all__ = [
    "CONTROLLERS",
    "ELSEWHERE",
    "INLINE_SHEDDERS",
    "POLICIES",
    "QUEUE_SHEDDERS",
    "shipped",
]

_T = TypeVar("_T")
TARGET = average("20 ms")

#: By the class of the controller that they build.
CONTROLLERS: dict[type[Controller], list[Any]] = {
    FixedRateController: [FixedRate(0.3), FixedRate(1.0)],
    HoldDurationController: [
        HoldDuration("1 second"),
        HoldDuration("1 ms"),
        HoldDuration("1 hour", min_keep=0.2),
    ],
    HoldDelayController: [HoldDelay("2 seconds"), HoldDelay("10 ms", min_keep=1.0)],
}

#: Classes whose checks need more than an example: where they are run.
ELSEWHERE: dict[type, str] = {SiteShareController: "tests/sites/test_site_controller.py"}

_WISH = Accuracy("fare", within=0.02)
POLICIES: dict[type[Policy], list[Policy]] = {
    Uniform: [Uniform()],
    ValueClasses: [ValueClasses(("a",)), ValueClasses(("a", "b", "c"))],
    GroupRates: [
        GroupRates("level", {"DEBUG": 0.01, "INFO": 1.0}),
        GroupRates(("a", "b"), {("x", None): 0.5}, default=0.9),
    ],
    ConceptDriven: [
        *(ConceptDriven("route", allocation=r) for r in ("senate", "proportional", "congress", "sqrt")),
        ConceptDriven(("a", "b"), allocation="neyman", value="fare"),
        ConceptDriven("route", least=2, counts="partition", draw="coin"),
        *(ConceptDriven("route", overflow=o) for o in ("smallest", "random")),
        ConceptDriven("route", window="1 minute", slide="10 seconds", time="at"),
        ConceptDriven("route", accuracy=_WISH),
        ConceptDriven("route", accuracy=_WISH, prefer="accuracy"),
        ConceptDriven("route", meets="other", within="1 minute", time="at"),
        ConceptDriven("route", counts="history"),
    ],
}


def _guarded(which: Any) -> Callable[[Mapping[str, Any] | None], InlineShedder]:
    policy = InlinePolicy(which, TARGET)
    return lambda state: policy.build(policy.costs(), 0.002, 7, state)


#: By the class that they build; each takes a state, or None.
INLINE_SHEDDERS: dict[type[InlineShedder], list[Any]] = {
    KeepAll: [_guarded("none")],
    InlinePrice: [_guarded(which) for which in ("balanced", "hard", "soft")],
    InlineBaseLine: [_guarded(0.25)],
    InlineQueueCheck: [_guarded("full-knowledge")],
    InlineStrawMan: [_guarded("straw-man")],
    InlineLas: [_guarded("las"), _guarded(LasSettings(window=64, target=TARGET))],
}


def _las() -> LoadShedder:
    """Past its first matrices: before them it keeps everything."""
    settings = LasSettings(target=TARGET)
    costs = CostSketch(settings.shape)
    for key in range(20):
        costs.add(stable_key(f"key {key}"), 0.0002 * (1 + key))
    shedder = settings.shedder()
    shedder.receive(Pair(costs))
    return shedder


QUEUE_SHEDDERS: dict[type[Shedder], list[Callable[[], Shedder]]] = {
    LoadShedder: [_las],
    BaseLine: [lambda: BaseLine(0.25)],
    StrawMan: [lambda: StrawMan(0.002, TARGET)],
    FullKnowledge: [lambda: FullKnowledge(TARGET)],
    PriceShedder: [
        lambda: AckedPrice(target=TARGET).shedder(),
        lambda: AckedPrice(target=TARGET, costs="known").shedder(),
    ],
}


def _import_all() -> None:
    for package in (headgate, headgate_lab):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)


def shipped(base: type[_T]) -> set[type[_T]]:
    """Every class of product and laboratory that is one, and that somebody can use."""
    _import_all()
    found, waiting = set[type[_T]](), [base]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            public = kind.__module__.startswith(("headgate.", "headgate_lab."))
            if public and not kind.__name__.startswith("_") and not inspect.isabstract(kind):
                found.add(kind)
    return found
