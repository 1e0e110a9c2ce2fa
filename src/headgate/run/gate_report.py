"""`BatchReport`: what Spark reported of one batch at one gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.core.load import Concept
from headgate.run.report import Report

__all__ = ["BatchReport"]


@dataclass(frozen=True, kw_only=True)
class BatchReport(Report):
    """What a gate's meters and tasks counted."""

    #: The weight of the rows that passed, as Spark saw it: 1 / the rate that they really met. None
    #: where none passed, or where rows have different rates.
    weight: float | None = None
    counts: Mapping[int, int] = field(default_factory=dict)
    #: Of a gate that draws by the batch's own groups: its strata, those that kept no row, their mean
    #: standard deviation, and the rows that each level of the rule's grid would have kept.
    cells: int = 0
    yielded: int = 0
    #: The largest of those that kept no row, by label, with their rows.
    yielded_groups: Mapping[str, int] = field(default_factory=dict)
    deviation: float = 0.0
    curve: tuple[float, ...] = ()
    #: Tasks that could not have the batch's plan, and failed open or closed.
    astray: int = 0
    #: In front of a join: the groups of this batch as a bitmap, the latest event time in microseconds,
    #: and the other stream's groups.
    present: bytes | None = None
    latest_us: int | None = None
    met: bytes | None = None
    #: Of the kept rows, whatever their order; empty where nobody counted it.
    fingerprint: str = ""

    def concept(self, keys: Mapping[str, int]) -> Concept:
        """What the batch says of the groups in front of the gate."""
        return Concept(self.counts, self.sample.arrived, keys, self.cells, self.curve, self.deviation)
