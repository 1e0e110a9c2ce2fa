"""What the demo measures of a run: its batches, and the figures that sum them up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["SETTLING", "Batch", "Side", "quantile"]

#: Batches at the start of a run that `Side.inside_target` leaves out, if there are more than these.
SETTLING = 10
#: A query falls behind if later delays are so many times the first one: in a snowball each batch is
#: longer than the one before it, and a query that keeps up has delays of one size.
_BEHIND = 1.5


@dataclass(frozen=True)
class Batch:
    """One batch that carried rows. Instants are seconds since 1970, the rest is seconds and rows."""

    number: int
    started_at: float
    duration_s: float
    #: From the arrival of its oldest row to its end.
    delay_s: float
    arrived: int
    kept: int
    #: Its rows are those that arrived up to here.
    until: float
    #: Whether the rows counted are exactly those that the source's offsets say it handed out.
    counted: bool = True
    #: Cut short, over the target, when the run's time was up; duration and delay are those so far.
    running: bool = False

    @property
    def ended_at(self) -> float:
        """When it was over, or cut short."""
        return self.started_at + self.duration_s


@dataclass
class Side:
    """One run of the query, without or with a gate."""

    target_s: float
    began_at: float
    query: str = ""
    batches: list[Batch] = field(default_factory=list)
    ledger_balanced: bool = False

    @property
    def judged(self) -> list[Batch]:
        """The batches after the tenth; all of them if there are ten or fewer."""
        return self.batches[SETTLING:] if len(self.batches) > SETTLING else self.batches

    @property
    def inside_target(self) -> float:
        """The share of the judged batches that ended within the target."""
        inside = [not b.running and b.duration_s <= self.target_s for b in self.judged]
        return sum(inside) / len(inside) if inside else 0.0

    @property
    def kept(self) -> float:
        """Rows kept / rows arrived, over the batches that ended."""
        return _share_kept(self.batches)

    @property
    def kept_settled(self) -> float:
        """The same over the judged batches: what is kept once costs are known; of all, if none ended."""
        return _share_kept(self.judged if any(b.arrived for b in self.judged) else self.batches)

    @property
    def rising(self) -> bool:
        """Whether it fell behind to the end: cut short, with delays far above its first batch's."""
        if not self.batches or not self.batches[-1].running:
            return False
        delays = [b.delay_s for b in self.batches]
        return len(delays) == 1 or max(delays[len(delays) // 2 :]) > _BEHIND * delays[0]

    def delay(self, share: float) -> float:
        """The delay that this share of all the batches did not exceed."""
        return quantile([b.delay_s for b in self.batches], share)

    def to_json(self) -> dict[str, Any]:
        """What `headgate demo --json` prints of a side."""
        cut = [b.duration_s for b in self.batches if b.running]
        return {
            "batches": len(self.batches),
            "inside_target": round(self.inside_target, 4),
            "p50_delay_s": round(self.delay(0.5), 3),
            "p95_delay_s": round(self.delay(0.95), 3),
            "max_delay_s": round(self.delay(1.0), 3),
            "kept": round(self.kept, 4),
            "kept_settled": round(self.kept_settled, 4),
            "ledger_balanced": self.ledger_balanced,
            "rows_arrived": sum(b.arrived for b in self.batches),
            "rows_kept": sum(b.kept for b in self.batches),
            "max_batch_s": round(max((b.duration_s for b in self.batches), default=0.0), 3),
            "cut_short_after_s": round(cut[0], 3) if cut else None,
        }

    def details(self) -> list[dict[str, Any]]:
        """Every batch, with its start in seconds since the run began."""
        rows = []
        for batch in self.batches:
            row = asdict(batch)
            row["started_s"] = round(row.pop("started_at") - self.began_at, 3)
            row.pop("until")
            rows.append(row)
        return rows


def _share_kept(batches: Sequence[Batch]) -> float:
    arrived = sum(b.arrived for b in batches)
    return sum(b.kept for b in batches) / arrived if arrived else 1.0


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed; 0 where there is none.

    >>> quantile([3.0, 1.0, 2.0, 4.0], 0.5), quantile([3.0, 1.0], 1.0)
    (2.0, 3.0)
    """
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
