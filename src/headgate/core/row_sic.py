"""`RowSic`: what each row of a source's batch is worth, once the batch's size is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from headgate.errors import SnapshotError

__all__ = ["RowSic"]


@dataclass(frozen=True)
class RowSic:
    """The source information content of a row: 1 / (rows of its source in a window x sources).

    themis-2016, Eq. 1. Section 6 has the count over a window that slides on with the rows themselves,
    updated before they are passed on. Whoever pins a batch's plan knows how many rows it brings, so the
    window ends with this batch: rows of a burst are worth less in the batch in which they come, and all
    that a source sends in a window is worth 1 together. What came before fills the rest of the window at
    its mean rate. Ours: no more than `most` rows count, what was agreed with the source.

    >>> worth = RowSic(per_s=100.0, stw_s=10.0, sources=2, usual_s=1.0)
    >>> worth.at(100, 1.0), round(1 / worth.at(1100, 1.0))
    (0.0005, 4000)
    """

    #: Rows a second that came so far.
    per_s: float
    #: The source time window, in seconds, and how many sources the whole query has.
    stw_s: float
    sources: int
    #: Seconds that a batch collects for, where nobody can tell or it came after a pause.
    usual_s: float
    #: Seconds. What lies further back than this is a pause, in which nothing was collected.
    pause_s: float = math.inf
    #: The most rows in a window that count.
    most: float = math.inf

    def at(self, arrived: float, covers_s: float | None = None) -> float:
        """What each row of a batch of so many is worth, that covers so many seconds."""
        seconds = self.usual_s if covers_s is None or not covers_s <= self.pause_s else covers_s
        seconds = max(seconds, 1e-3)  # Spark's clock ticks in milliseconds
        before = self.per_s * max(0.0, self.stw_s - seconds)
        count = min(before + max(0.0, arrived) * min(1.0, self.stw_s / seconds), self.most)
        return 1.0 / (max(count, 1e-9) * max(1, self.sources))

    def to_json(self) -> dict[str, Any]:
        """As JSON; None stands for what has no bound."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value if math.isfinite(value) else None for name, value in values.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RowSic:
        """What `to_json` wrote."""
        try:
            found = {
                f.name: math.inf if value[f.name] is None else float(value[f.name]) for f in fields(cls)
            }
            sources = int(found.pop("sources"))
            return cls(sources=sources, **found)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise SnapshotError(
                f"what was stored is no row's SIC ({error!r}): start with a new control folder"
            ) from error
