"""`RowBudget`: how many rows of a batch may be kept, once the batch's size is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from headgate.core.time_grant import TimeGrant
from headgate.core.versions import require_version
from headgate.errors import BadArgument, SnapshotError

__all__ = ["RowBudget"]

_VERSION = 1
#: The part that is a value of its own; files from before sites granted amounts do not have it.
_GRANT = "grant"


@dataclass(frozen=True)
class RowBudget:
    """A controller's answer for a batch of any size: the prices that it believes, and its aim.

    A batch takes ``fixed_s + per_kept_s * kept + per_arrived_s * arrived`` seconds. One with at most
    `whole` rows runs whole; of a larger one so many rows are kept that it is expected to take `aim_s`.
    Whoever pins the plan of a batch knows its size and asks `keep`. Kept rows change in proportion with
    an error of the size, and never more: a size that is 20 % too small keeps a quarter too many. At a
    site, which shares its cores among many, there is no aim but a `grant`, by the time that it covers.

    >>> budget = RowBudget(aim_s=0.85, fixed_s=0.25, per_kept_s=75e-6, whole=9_000)
    >>> budget.keep(5_000), round(budget.keep(80_000), 3), round(budget.rows(80_000))
    (1.0, 0.1, 8000)
    """

    #: Seconds that a batch which has to be cut is expected to take.
    aim_s: float
    #: The prices, in seconds: of a batch, of each kept row, of each row that arrived. While nothing is
    #: known of costs a kept row has the price 0.
    fixed_s: float = 0.0
    per_kept_s: float = 0.0
    per_arrived_s: float = 0.0
    #: Batches of at most so many rows run whole.
    whole: float = math.inf
    #: The most rows that are kept, whatever the prices say: the bound for a first batch.
    most: float = math.inf
    #: The least and the largest share of a batch that is kept.
    min_keep: float = 0.0
    max_keep: float = 1.0
    #: What a site grants for the time that the batch covers; no more rows than that are kept.
    grant: TimeGrant | None = None

    def __post_init__(self) -> None:
        for name in ("aim_s", "fixed_s", "per_kept_s", "per_arrived_s"):
            value = getattr(self, name)
            if not 0.0 <= value < math.inf:
                raise BadArgument(f"{name}={value!r}: give finite seconds, 0 or more")
        for name in ("whole", "most"):
            value = getattr(self, name)
            if not value >= 0.0:
                raise BadArgument(f"{name}={value!r}: give a number of rows, 0 or more")
        if not 0.0 <= self.min_keep <= self.max_keep <= 1.0:
            raise BadArgument(
                f"min_keep={self.min_keep!r}, max_keep={self.max_keep!r}: "
                "shares with 0 <= min_keep <= max_keep <= 1"
            )

    def keep(self, arrived: float, covers_s: float | None = None) -> float:
        """The share to keep of a batch of so many rows; None: nobody can tell how long it covers."""
        if arrived <= 0:
            return self.max_keep
        rows = self._fitting(arrived)
        if self.grant is not None:
            rows = min(rows, self.grant.rows(covers_s))
        if rows >= arrived:
            return self.max_keep
        return min(self.max_keep, max(self.min_keep, rows / arrived))

    def rows(self, arrived: float, covers_s: float | None = None) -> float:
        """The rows to keep of a batch of so many."""
        return self.keep(arrived, covers_s) * max(0.0, arrived)

    def _fitting(self, arrived: float) -> float:
        if arrived <= min(self.whole, self.most):
            return arrived
        if self.per_kept_s <= 0.0:
            return self.most
        room = self.aim_s - self.fixed_s - self.per_arrived_s * arrived
        return min(self.most, max(0.0, room) / self.per_kept_s)

    def seconds(self, arrived: float) -> float | None:
        """What a batch of so many rows is expected to take under this budget; None while unknown."""
        if self.per_kept_s <= 0.0:
            return None
        return (
            self.fixed_s + self.per_kept_s * self.rows(arrived) + self.per_arrived_s * max(0.0, arrived)
        )

    def to_json(self) -> dict[str, Any]:
        """A versioned value for JSON; `from_json` gives an equal budget back."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != _GRANT}
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        grant = {} if self.grant is None else {_GRANT: self.grant.to_json()}
        return {"v": _VERSION, **finite, **grant}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RowBudget:
        """The budget that `to_json` wrote."""
        version = value.get("v") if isinstance(value, Mapping) else None
        require_version("a row budget", version, _VERSION, "start with a new control folder")
        try:
            grant = value.get(_GRANT)
            return cls(
                **{
                    f.name: math.inf if value[f.name] is None else float(value[f.name])
                    for f in fields(cls)
                    if f.name != _GRANT
                },
                grant=None if grant is None else TimeGrant.from_json(grant),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise SnapshotError(
                f"what was stored is no row budget ({error!r}): start with a new control folder"
            ) from error
