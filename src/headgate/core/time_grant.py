"""`TimeGrant`: how many rows a batch may keep for the time that it covers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.errors import BadArgument, SnapshotError

__all__ = ["TimeGrant"]


@dataclass(frozen=True)
class TimeGrant:
    """An amount that grows with time, as a share of a capacity does, and not with what arrives.

    A batch covers the time since the batch before it was planned. One that covers twice as long may
    keep twice as many rows; one that is larger because of a burst may not. Capacity that nobody used
    while a query was down is gone, so a batch is granted rows for `most_s` seconds at most.

    >>> grant = TimeGrant(rows_per_s=1000.0, least_s=1.0, most_s=2.0)
    >>> [grant.rows(covers_s) for covers_s in (0.1, 1.5, 60.0, None)]
    [1000.0, 1500.0, 2000.0, 2000.0]
    """

    rows_per_s: float
    #: Seconds. A batch counts as covering at least so much: one that began late makes the next one begin
    #: early, and that has its trigger's rows all the same.
    least_s: float = 0.0
    #: Seconds. A batch counts as covering at most so much, and just so much where nobody can tell.
    most_s: float = math.inf

    def __post_init__(self) -> None:
        if not self.rows_per_s >= 0.0:
            raise BadArgument(f"rows_per_s={self.rows_per_s!r}: give rows a second, 0 or more")
        if not (0.0 <= self.least_s <= self.most_s and self.most_s > 0.0):
            raise BadArgument(
                f"least_s={self.least_s!r}, most_s={self.most_s!r}: seconds with "
                "0 <= least_s <= most_s, and most_s above 0"
            )

    def rows(self, covers_s: float | None = None) -> float:
        """The rows that a batch may keep which covers so many seconds; None: nobody can tell."""
        seconds = self.most_s if covers_s is None else max(self.least_s, min(self.most_s, covers_s))
        return self.rows_per_s * seconds if self.rows_per_s > 0.0 else 0.0

    def to_json(self) -> list[float | None]:
        """As JSON; None stands for what has no bound."""
        values = (self.rows_per_s, self.least_s, self.most_s)
        return [value if math.isfinite(value) else None for value in values]

    @classmethod
    def from_json(cls, value: Any) -> TimeGrant:
        """What `to_json` wrote."""
        try:
            if isinstance(value, Mapping | str) or len(value) != 3:
                raise ValueError("it has not three numbers")
            return cls(*(math.inf if one is None else float(one) for one in value))
        except (TypeError, ValueError, OverflowError) as error:
            raise SnapshotError(
                f"{value!r} is no grant ({error}): start with a new control folder"
            ) from error
