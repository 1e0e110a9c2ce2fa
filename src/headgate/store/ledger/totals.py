"""Sums over records: what a ledger says of batches whose records nobody needs to read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

__all__ = ["Totals", "newest_by_batch"]

_SUMS = ("batches", "arrived", "kept", "shed")


def newest_by_batch(values: Iterable[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """The last of each batch's records, which is the one that counts."""
    return {int(value["batch"]): value for value in values}


@dataclass(frozen=True)
class Totals:
    """Batches and rows, each batch once; how many of each kind and origin; from when to when."""

    batches: int = 0
    arrived: int = 0
    kept: int = 0
    shed: int = 0
    first_batch: int | None = None
    last_batch: int | None = None
    #: When the first and the last of them began; None where no record says.
    first_at: float | None = None
    last_at: float | None = None
    #: Batches by the kind of record, and by why they met their plan. Both have few names.
    kinds: Mapping[str, int] = field(default_factory=dict)
    origins: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Iterable[Mapping[str, Any]]) -> Totals:
        """Of records as JSON; of a batch recorded twice, the last one counts."""
        found = newest_by_batch(values)
        if not found:
            return cls()
        kinds: dict[str, int] = {}
        origins: dict[str, int] = {}
        for value in found.values():
            kind, origin = value.get("kind", "gate"), value.get("origin", "plan")
            kinds[kind] = kinds.get(kind, 0) + 1
            origins[origin] = origins.get(origin, 0) + 1
        began = [at for value in found.values() if (at := float(value.get("started_at", 0.0))) > 0.0]
        return cls(
            batches=len(found),
            arrived=sum(int(v.get("arrived", 0)) for v in found.values()),
            kept=sum(int(v.get("kept", 0)) for v in found.values()),
            shed=sum(int(v.get("shed", 0)) for v in found.values()),
            first_batch=min(found),
            last_batch=max(found),
            first_at=min(began, default=None),
            last_at=max(began, default=None),
            kinds=kinds,
            origins=origins,
        )

    def plus(self, other: Totals) -> Totals:
        """Both together, if they have no batch in common."""
        return Totals(
            **{name: getattr(self, name) + getattr(other, name) for name in _SUMS},
            first_batch=_least(self.first_batch, other.first_batch),
            last_batch=_most(self.last_batch, other.last_batch),
            first_at=_least(self.first_at, other.first_at),
            last_at=_most(self.last_at, other.last_at),
            kinds=_added(self.kinds, other.kinds, 1),
            origins=_added(self.origins, other.origins, 1),
        )

    def beyond(self, part: Totals) -> Totals:
        """What these have more than a part of them: what `part` needs to become these."""
        return Totals(
            **{name: getattr(self, name) - getattr(part, name) for name in _SUMS},
            first_batch=self.first_batch,
            last_batch=self.last_batch,
            first_at=self.first_at,
            last_at=self.last_at,
            kinds=_added(self.kinds, part.kinds, -1),
            origins=_added(self.origins, part.origins, -1),
        )

    def to_json(self) -> dict[str, Any]:
        """As a JSON object of sums."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Totals:
        """The sums that `to_json` wrote."""
        known = {f.name: value[f.name] for f in fields(cls) if f.name in value}
        for name, given in known.items():
            if name in ("kinds", "origins"):
                right = isinstance(given, dict) and all(type(n) is int for n in given.values())
            elif name in _SUMS:
                right = type(given) is int
            else:
                right = given is None or type(given) in (int, float)
            if not right:
                raise ValueError(f"{name} is {str(given)[:40]!r}, and no sum of records")
        return cls(**known)


def _added(one: Mapping[str, int], other: Mapping[str, int], sign: int) -> dict[str, int]:
    summed = {n: one.get(n, 0) + sign * other.get(n, 0) for n in (*one, *other)}
    return {name: count for name, count in summed.items() if count}


def _least(one: Any, other: Any) -> Any:
    return min((v for v in (one, other) if v is not None), default=None)


def _most(one: Any, other: Any) -> Any:
    return max((v for v in (one, other) if v is not None), default=None)
