"""`Spec`: what a call of `gate`, `guard`, `join` or `Site.result` fixed for good."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headgate.run.report import Report
from headgate.settings import GateSettings
from headgate.store.places.place import Place

if TYPE_CHECKING:
    from headgate.run.run import Run

__all__ = ["SettledSpec", "Spec"]

_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Spec(ABC):
    """Its name and its control folder; and what the control loop must know to serve it.

    The loop asks these, and nobody's type.
    """

    name: str
    control: Place

    #: Tells specs of one name apart, in this process: two may be made before either runs.
    number: int = field(default_factory=lambda: next(_NUMBERS), compare=False, kw_only=True)
    #: Whether the loop's heartbeat keeps its plans alive.
    steers: bool = field(default=True, kw_only=True)
    #: Whether it wants to know the task time of batches.
    measures_work: bool = field(default=False, kw_only=True)

    def made_of(self) -> tuple[object, ...]:
        """What tells it from another of its name, without what the frame adds."""
        return (self.control,)

    def same_as(self, other: Spec) -> bool:
        """Whether both may run under one name at once: what people read and set there is one thing."""
        return self == other

    def complete(self, report: Any, reports: Mapping[str, Report]) -> Any:
        """The report, with what it needs of the other reports of the same batch."""
        return report

    @abstractmethod
    def open(self, query: str) -> Run[Any, Any]:
        """It at work in a query."""


@dataclass(frozen=True)
class SettledSpec(Spec):
    """One with settings, which people may change while it runs (``headgate set``)."""

    settings: GateSettings
