"""What a join's plan is made of once the size of its batch is known; and who makes it then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from headgate.control.allowance import WorkBudget
from headgate.core.batch_size import BatchSize, RowsExpected, Sizing
from headgate.core.plan import Plan
from headgate.core.plan_parts import WorkLimit
from headgate.core.row_budget import RowBudget
from headgate.errors import SnapshotError
from headgate.spark.gate.pin.batch_size import sizes_of_batch
from headgate.spark.gate.pin.resolver import SizedBatches
from headgate.spark.join.left_out.rows_seen import draw_of
from headgate.store.places.place import Place
from headgate.store.plans import Resolved

__all__ = ["JoinOffer", "JoinResolver", "both_sources"]


def both_sources(sizes: Sequence[BatchSize]) -> tuple[BatchSize, ...]:
    """Sizes of a join's sources as one, where they count alike: the rows of both are its rows."""
    if len(sizes) < 2 or len({size.unit for size in sizes}) > 1:
        return tuple(sizes)
    return (BatchSize(sum(size.units for size in sizes), sizes[0].unit),)


@dataclass(frozen=True)
class JoinOffer:
    """Rows and comparisons that fit in a batch of any size, and what rows were like lately."""

    rows: RowBudget
    work: WorkBudget
    sizing: Sizing = field(default_factory=Sizing)
    #: The share of rows in each class of expected matches, and what they are scored by; None: unknown.
    classes: Sequence[float] | None = None
    items: str | None = None
    #: The units that a shard may spend whatever the time, given by hand.
    most_units: float | None = None

    def plan(self, arrived: float) -> Plan:
        """The plan of a batch of so many rows."""
        share = self.rows.keep(arrived)
        units = self.work.units(self.rows.seconds(arrived))
        if self.most_units is not None:
            units = min(units, self.most_units)
        draw = None if share >= 1.0 else draw_of(self.classes, self.items, share)
        return Plan(1.0, work=WorkLimit(units, self.work.result_units), rows=draw)

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "rows": self.rows.to_json(),
            "work": asdict(self.work),
            "sizing": self.sizing.to_json(),
            "classes": None if self.classes is None else list(self.classes),
            "items": self.items,
            "most_units": self.most_units,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> JoinOffer:
        """What `to_json` wrote."""
        try:
            return cls(
                RowBudget.from_json(value["rows"]),
                WorkBudget(**{name: float(number) for name, number in value["work"].items()}),
                Sizing.from_json(value["sizing"]),
                value["classes"],
                value["items"],
                value["most_units"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SnapshotError(f"what was published is no join's offer ({error!r})") from error


@dataclass(frozen=True)
class JoinResolver(SizedBatches):
    """Makes the plan of a join's batch in a worker, from what the loop published."""

    def resolve(self, published: Mapping[str, Any], control: Place, query: str, batch: int) -> Resolved:
        """The plan for this batch, if one is offered and the size is known."""
        given = published.get("offer")
        if given is None:
            return Resolved()
        checkpoint, note = self.checkpoint_of(control, query, wait=bool(published.get("opening")))
        sizes = None if checkpoint is None else sizes_of_batch(checkpoint, batch)
        if sizes is None:
            return Resolved(note=note)
        offer, sizes = JoinOffer.from_json(given), both_sources(sizes)
        rows = offer.sizing.rows(sizes)
        if rows is None:  # the batch will show what they mean
            return Resolved(expected=RowsExpected(None, "", sizes), note=note)
        expected = RowsExpected(rows, offer.sizing.unit(sizes), sizes)
        return Resolved(offer.plan(rows), expected, note)
