"""`BatchReport`: what Spark reported of one batch at one gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.core.groups import Strata
from headgate.run.report import Report

__all__ = ["BatchReport", "Drawn"]


@dataclass(frozen=True)
class Drawn:
    """What the tasks of a gate saw that draws rows by the groups of their own batch."""

    strata: Strata
    #: Strata that kept no row, and the largest of them by label, with their rows.
    yielded: int = 0
    yielded_groups: Mapping[str, int] = field(default_factory=dict)
    #: Tasks that could not have the batch's plan, and failed open or closed.
    tasks_without_plan: int = 0


@dataclass(frozen=True, kw_only=True)
class BatchReport(Report):
    """What a gate's meters and tasks counted."""

    #: The weight of the rows that passed, as Spark saw it: 1 / the rate that they really met. None
    #: where none passed, or where rows have different rates.
    weight: float | None = None
    #: Rows by group key: of value classes, or of the heaviest groups.
    counts: Mapping[int, int] = field(default_factory=dict)
    #: Of a gate that draws by the batch's own groups; None elsewhere.
    drawn: Drawn | None = None
    #: In front of a join: the groups of the other gate's stream, as a bitmap.
    met: bytes | None = None
    #: The latest event time in microseconds, where somebody needs it.
    latest_us: int | None = None
    #: Of the kept rows, whatever their order; empty where nobody counted it.
    fingerprint: str = ""
