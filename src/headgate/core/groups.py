"""`GroupStats`: what is known of the groups in front of a gate; a policy's other input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["GroupStats", "Strata"]


@dataclass(frozen=True)
class Strata:
    """The groups (and panes) of one batch, where rows are drawn by the groups of their own batch."""

    count: int
    #: The rows that each level of the rule's grid would have kept.
    curve: tuple[float, ...] = ()
    #: Their mean standard deviation, weighted by rows; 0 where no value counts.
    deviation: float = 0.0


@dataclass(frozen=True)
class GroupStats:
    """What is known of the groups of the last batch, as far as it was counted.

    >>> groups = GroupStats(counts={1: 10}, total=40)
    >>> groups.share(1), groups.share(2)
    (0.25, 0.0)
    """

    #: Rows by group key; the rest of the batch is in no listed group.
    counts: Mapping[int, int] = field(default_factory=dict)
    total: int = 0
    #: Keys of groups that were named by people, by label.
    keys: Mapping[str, int] = field(default_factory=dict)
    #: Where rows are drawn by their own batch's groups; None while no batch was.
    strata: Strata | None = None
    #: How far event time went in a batch, in microseconds; None while that is unknown.
    span_us: int | None = None
    #: In front of a join: the groups that the other stream has had lately; None while that is unknown.
    present: str | None = None

    def share(self, key: int) -> float:
        """The share of the last batch's rows that is in this group."""
        return self.counts.get(key, 0) / self.total if self.total > 0 else 0.0

    @property
    def one_row_each(self) -> float:
        """The share of the rows that one row of each stratum is; 0 where there are none."""
        return self.strata.count / self.total if self.strata and self.total > 0 else 0.0
