"""`Plan`: what a gate does to one batch; the one value between controllers, policies and Spark."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.core.plan_parts import DrawLevel, RowDraw, WorkLimit
from headgate.core.versions import require_version
from headgate.errors import BadArgument, SnapshotError

__all__ = ["KEEP_ALL", "SCALE", "Plan", "threshold"]

#: Row hashes are 62-bit: a row is kept when its hash is below ``rate * SCALE``. With 62 bits both
#: ends are exact in a signed 64-bit integer: rate 1 keeps every row, and rate 0 keeps none.
SCALE = 1 << 62

_VERSION = 1


def threshold(rate: float) -> int:
    """The integer below which a 62-bit row hash is kept.

    >>> threshold(1.0) == SCALE, threshold(0.0)
    (True, 0)
    """
    return min(SCALE, max(0, round(rate * SCALE)))


def _legal(rate: float) -> bool:
    return isinstance(rate, int | float) and not isinstance(rate, bool) and 0.0 <= rate <= 1.0


@dataclass(frozen=True)
class Plan:
    """A default keep rate, and a short list of exceptions from group key to keep rate.

    Group keys are 64-bit integers (a class number, or a hash of the grouping columns), so that the
    plan stays small and any policy's groups fit. Labels are for people and never decide anything.
    What a mechanism needs besides rates is a value of its own: `draw`, `work`, `rows`, `sic`.

    >>> Plan(0.5, {7: 1.0}).rate_of(7), Plan(0.5, {7: 1.0}).rate_of(8)
    (1.0, 0.5)
    """

    default: float
    exceptions: Mapping[int, float] = field(default_factory=dict)
    labels: Mapping[int, str] = field(default_factory=dict, compare=False)
    #: Where rows are drawn by the groups of their own batch: how many of each group.
    draw: DrawLevel | None = None
    #: For a join: what it may compare. None where it may compare everything, or the share `default`.
    work: WorkLimit | None = None
    #: For a join: which rows it takes in. None where it takes all.
    rows: RowDraw | None = None
    #: At a site: what each kept row is worth, its source information content (SIC); None elsewhere.
    sic: float | None = None

    def __post_init__(self) -> None:
        if not _legal(self.default):
            raise BadArgument(f"default keep rate {self.default!r} is outside [0, 1]")
        for key, rate in self.exceptions.items():
            if not _legal(rate):
                raise BadArgument(f"keep rate {rate!r} of group {key} is outside [0, 1]")
            if not -(1 << 63) <= key < 1 << 63:
                raise BadArgument(f"group key {key} does not fit in 64 bits")
        if self.sic is not None and not 0.0 <= self.sic < float("inf"):
            raise BadArgument(f"SIC {self.sic!r} of a row is not a finite number, 0 or more")

    @property
    def level(self) -> float | None:
        """The level at which rows are drawn; None where no level is known, or none are drawn."""
        return None if self.draw is None else self.draw.level

    @property
    def keeps_everything(self) -> bool:
        """Whether no row can be shed under this plan."""
        whole = self.default >= 1.0 and self.level is None and self.work is None
        return whole and self.rows is None and all(rate >= 1.0 for rate in self.exceptions.values())

    @property
    def keeps_nothing(self) -> bool:
        """Whether no row can be kept under this plan."""
        return self.default <= 0.0 and all(rate <= 0.0 for rate in self.exceptions.values())

    def rate_of(self, key: int) -> float:
        """The keep rate of the group with this key."""
        return self.exceptions.get(key, self.default)

    def thresholds(self) -> tuple[int, dict[int, int]]:
        """The default's and every exception's threshold, as Spark compares them."""
        return threshold(self.default), {k: threshold(r) for k, r in self.exceptions.items()}

    @property
    def default_weight(self) -> float | None:
        """The weight of a row kept at the default rate, to the bit as Spark computes it."""
        limit = threshold(self.default)
        return float(SCALE) / limit if limit else None

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that name what this plan keeps (labels do not count)."""
        default, exceptions = self.thresholds()
        parts: list[Any] = [default, sorted(exceptions.items())]
        for part in (self.draw, self.work, self.rows):
            parts += [] if part is None else part.decides()
        text = json.dumps(parts, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def to_json(self) -> dict[str, Any]:
        """A versioned value for JSON; `from_json` gives an equal plan back.

        The parts' fields lie flat beside the rates, as 0.1.0 wrote them.
        """
        groups = [
            [key, rate, self.labels[key]] if key in self.labels else [key, rate]
            for key, rate in sorted(self.exceptions.items())
        ]
        value = {"v": _VERSION, "default": self.default, "exceptions": groups}
        for part in (self.draw, self.work, self.rows):
            value |= {} if part is None else part.to_json()
        return value if self.sic is None else {**value, "sic": self.sic}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Plan:
        """The plan that `to_json` wrote."""
        version = value.get("v") if isinstance(value, Mapping) else None
        require_version("a plan", version, _VERSION, "start with a new control folder")
        try:
            groups = value["exceptions"]
            return cls(
                default=float(value["default"]),
                exceptions={int(g[0]): float(g[1]) for g in groups},
                labels={int(g[0]): str(g[2]) for g in groups if len(g) > 2},
                draw=DrawLevel.from_json(value),
                work=WorkLimit.from_json(value),
                rows=RowDraw.from_json(value),
                sic=None if value.get("sic") is None else float(value["sic"]),
            )
        except SnapshotError:
            raise
        except (KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise SnapshotError(
                f"what was stored is no plan ({error!r}): start with a new control folder"
            ) from error


#: The plan of a gate that sheds nothing.
KEEP_ALL = Plan(1.0)
