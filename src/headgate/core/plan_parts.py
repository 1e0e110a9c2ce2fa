"""What single mechanisms add to a plan: each part checks, names and writes itself.

A part's fields lie flat in the plan's JSON, each under a name of its own, as they always have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from headgate.errors import BadArgument

__all__ = ["DrawLevel", "RowDraw", "WorkLimit"]


@dataclass(frozen=True)
class DrawLevel:
    """How many rows of each group a batch keeps, where its own groups decide.

    >>> DrawLevel.from_json(DrawLevel(2.0, rule="senate").to_json())
    DrawLevel(level=2.0, reference=1.0, rule='senate', span_us=None, present=None)
    """

    #: A group's quota is this times its share; None while no batch has shown what a level keeps.
    level: float | None = None
    #: What the rule measures groups by, where it has a measure: rows, or a standard deviation.
    reference: float = 1.0
    #: The allocation that the level is one of; to another rule it says nothing.
    rule: str = ""
    #: How far event time goes in a batch, in microseconds, as far as that is known.
    span_us: int | None = None
    #: In front of a join: the groups that the other stream has had lately (`KeyFilter` as text).
    present: str | None = None

    def __post_init__(self) -> None:
        if self.level is not None and not 0.0 < self.level < float("inf"):
            raise BadArgument(f"level {self.level!r} is not a positive number")

    def decides(self) -> list[Any]:
        """What of it changes which rows are kept; nothing, while it knows neither level nor groups."""
        if self.level is None and self.present is None:
            return []
        return [self.level, self.reference, self.rule, self.span_us, self.present]

    def to_json(self) -> dict[str, Any]:
        """The fields that are known, for the plan's JSON object."""
        value: dict[str, Any] = {}
        if self.level is not None:
            value |= {"level": self.level, "reference": self.reference, "rule": self.rule}
            value |= {} if self.span_us is None else {"span_us": self.span_us}
        return value if self.present is None else {**value, "present": self.present}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self | None:
        """The part of a plan; None if it has none."""
        level, present = value.get("level"), value.get("present")
        if level is None and present is None:
            return None
        return cls(
            level=None if level is None else float(level),
            reference=float(value.get("reference", 1.0)),
            rule=str(value.get("rule", "")),
            span_us=value.get("span_us"),
            present=present,
        )


@dataclass(frozen=True)
class WorkLimit:
    """What a join may compare in a batch (`headgate.control.allowance`)."""

    #: Units that each of its tasks may spend; a comparison is one.
    units: float
    #: What a result counts, in units.
    result_units: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.units < float("inf"):
            raise BadArgument(f"work {self.units!r} is not a number of units, 0 or more")

    def decides(self) -> list[Any]:
        """All of it changes what is compared."""
        return [self.units, self.result_units]

    def to_json(self) -> dict[str, Any]:
        """As a plan has it."""
        return {"work": self.units, "result_units": self.result_units}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self | None:
        """The part of a plan; None if it has none."""
        work = value.get("work")
        return None if work is None else cls(float(work), float(value.get("result_units", 0.0)))


@dataclass(frozen=True)
class RowDraw:
    """Which rows a join takes in, where rows alone would not fit (`headgate.joins.row_draw.scores`).

    >>> RowDraw.from_json(RowDraw(0.25, (0.1, 1.0)).to_json())
    RowDraw(share=0.25, chances=(0.1, 1.0), items=None)
    """

    #: The share of the batch's rows that this is expected to keep.
    share: float
    #: The chance of a row, by the class of its expected matches; empty: all rows have that share.
    chances: tuple[float, ...] = ()
    #: What rows are expected to match by (`RowScores` as text); None while nobody can tell.
    items: str | None = None

    def __post_init__(self) -> None:
        for chance in (self.share, *self.chances):
            if not 0.0 < chance <= 1.0:
                raise BadArgument(
                    f"a row's chance {chance!r} is outside (0, 1]: a row that can never be kept stands "
                    "for nothing, and no estimate knows of it"
                )

    def decides(self) -> list[Any]:
        """All of it changes which rows are kept."""
        return [self.share, self.chances, self.items]

    def to_json(self) -> dict[str, Any]:
        """As a plan has it."""
        value: dict[str, Any] = {"row_share": self.share}
        value |= {"row_chances": list(self.chances)} if self.chances else {}
        return value if self.items is None else {**value, "row_items": self.items}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self | None:
        """The part of a plan; None if it has none."""
        share = value.get("row_share")
        if share is None:
            return None
        chances = tuple(float(chance) for chance in value.get("row_chances", ()))
        return cls(float(share), chances, value.get("row_items"))
