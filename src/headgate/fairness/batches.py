"""What a shedder decides about: a batch of tuples under one header (themis-2016, section 6).

The published header has one SIC value for the whole batch, a query and a timestamp. Ours holds the
SIC of each tuple, because a batch may be cut by a quota and its tuples stay worth the same; and it
names the source, because a batch that comes from a source and one that was derived by another
fragment are not alike: the second stands for all the work that was done upstream.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from headgate.errors import BadArgument

__all__ = ["Batch"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Tuples of one query that wait at one node.

    >>> batch = Batch("top-routes", "rome", tuples=50, sic=0.0001)
    >>> batch.derived, round(batch.total, 6)
    (False, 0.005)
    """

    query: Hashable
    #: Where the tuples come from; None if another fragment derived them.
    source: Hashable | None
    tuples: int
    #: The source information content of each tuple.
    sic: float

    def __post_init__(self) -> None:
        if self.tuples < 0:
            raise BadArgument(f"tuples={self.tuples!r}: a batch has 0 tuples or more")
        if not 0.0 <= self.sic < float("inf"):
            raise BadArgument(f"sic={self.sic!r}: the SIC of a tuple is a finite number, 0 or more")

    @property
    def derived(self) -> bool:
        """Whether another fragment of the query made these tuples."""
        return self.source is None

    @property
    def total(self) -> float:
        """The SIC of the whole batch: what the published header holds."""
        return self.tuples * self.sic
