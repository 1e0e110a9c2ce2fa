"""`GateSettings`: what a person decides about a gate; some of it can change while the query runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from headgate.control import ControllerConfig, FixedRate, HoldDelay, HoldDuration
from headgate.control.duration import FIRST_ROWS, check_first_rows, check_inside
from headgate.control.fixed import check_rate
from headgate.durations import Duration, seconds
from headgate.errors import BadArgument

__all__ = ["FOREVER", "LIVE", "MODES", "ON_FAILURE", "RETENTION_S", "GateSettings", "retention_s"]

MODES = ("off", "monitor", "shed")
ON_FAILURE = ("open", "closed")
#: Settings that `headgate set` may change while the query runs.
LIVE = ("mode", "hold", "delay", "rate", "min_keep", "inside", "retention")
#: What a name was called in files of 0.1.0.
_FORMERLY = {"floor": "min_keep"}
#: Records are kept so long where nobody says: as long as Kafka keeps its data by default. What is older
#: could not be read again for a backfill anyway.
RETENTION_S = 7 * 86_400.0
FOREVER = "forever"
_LEAST_RETENTION_S = 3600.0


def retention_s(value: Duration) -> float:
    """A retention in seconds.

    >>> retention_s("7 days"), retention_s("forever")
    (604800.0, inf)
    """
    if value == FOREVER:
        return math.inf
    try:
        found = seconds(value, "retention")
    except BadArgument:
        raise BadArgument(
            f"retention={value!r} is not how long records are kept: write '7 days', '12 hours', or "
            "'forever'"
        ) from None
    if found < _LEAST_RETENTION_S:
        raise BadArgument(
            f"retention={value!r} is less than an hour: give '1 hour' or more; without records there "
            "is neither backfill nor verify"
        )
    return found


def _one_of(name: str, value: object, legal: tuple[str, ...]) -> None:
    if value not in legal:
        raise BadArgument(f"{name}={value!r} is not one of {', '.join(map(repr, legal))}")


@dataclass(frozen=True)
class GateSettings:
    """Exactly one of `hold`, `delay` and `rate` says how much; the rest says how.

    - mode: ``off`` (keep all, measure), ``monitor`` (keep all, report what would be shed), ``shed``.
    - min_keep: the least share that a controller may keep.
    - inside: the share of batches that should end within the target.
    - first_rows: what a first batch keeps at most for each second of the target, while nothing is known
      of what rows cost.
    - on_failure: ``open`` keeps all when the control folder or loop is gone, ``closed`` `min_keep` (in
      the mode ``shed``).
    - retention: how long the ledger keeps records, an hour at least, or ``forever``; sums stay.
    """

    hold: Duration | None = None
    delay: Duration | None = None
    rate: float | None = None
    mode: str = "shed"
    min_keep: float = 0.01
    on_failure: str = "open"
    retention: Duration = RETENTION_S
    inside: float = 0.95
    first_rows: float = FIRST_ROWS

    def __post_init__(self) -> None:
        given = [n for n in ("hold", "delay", "rate") if getattr(self, n) is not None]
        if len(given) != 1:
            raise BadArgument(
                f"give exactly one of hold= (batch duration), delay= (arrival to processed) and "
                "rate= (share to keep), or a policy with accuracy=; got "
                f"{' and '.join(given) or 'none of them'}"
            )
        _one_of("mode", self.mode, MODES)
        _one_of("on_failure", self.on_failure, ON_FAILURE)
        check_rate(self.min_keep, "min_keep")
        if self.hold is not None:
            seconds(self.hold, "hold")
        if self.delay is not None:
            seconds(self.delay, "delay")
        if self.rate is not None:
            check_rate(self.rate)
        retention_s(self.retention)
        check_inside(self.inside)
        check_first_rows(self.first_rows)

    def controller_config(self) -> ControllerConfig:
        """The controller that these settings ask for."""
        if self.rate is not None:
            return FixedRate(self.rate)
        if self.delay is not None:
            return HoldDelay(self.delay, self.min_keep, self.inside, self.first_rows)
        assert self.hold is not None
        return HoldDuration(self.hold, self.min_keep, self.inside, self.first_rows)

    @property
    def target_s(self) -> float | None:
        """The duration or delay to hold, in seconds."""
        value = self.hold if self.hold is not None else self.delay
        return None if value is None else seconds(value)

    @property
    def target_of(self) -> str:
        """What is to be held: a batch's ``duration``, its oldest row's ``delay``, or a ``share``."""
        if self.rate is not None:
            return "share"
        return "duration" if self.delay is None else "delay"

    @property
    def retention_s(self) -> float:
        """How long records are kept, in seconds; infinite for ever."""
        return retention_s(self.retention)

    @property
    def fails(self) -> str:
        """``open`` or ``closed``, as people asked; in the modes that shed nothing it is ``open``."""
        return self.on_failure if self.mode == "shed" else "open"

    def changed(self, overrides: Mapping[str, Any]) -> GateSettings:
        """These settings with live changes on top; a new target replaces the old kind of target."""
        overrides = _named_as_now(overrides)
        unknown = sorted(set(overrides) - set(LIVE))
        if unknown:
            raise BadArgument(
                f"{', '.join(unknown)} cannot be changed while a query runs; "
                f"these can: {', '.join(LIVE)}"
            )
        merged: dict[str, Any] = dict(overrides)
        if any(merged.get(n) is not None for n in ("hold", "delay", "rate")):
            for name in ("hold", "delay", "rate"):
                merged.setdefault(name, None)
        return replace(self, **merged)

    def to_json(self) -> dict[str, Any]:
        """As JSON; durations as seconds."""
        value = asdict(self)
        for name in ("hold", "delay"):
            if value[name] is not None:
                value[name] = seconds(value[name])
        if self.retention != FOREVER:
            value["retention"] = retention_s(self.retention)
        value["first_rows"] = self.first_rows if math.isfinite(self.first_rows) else None
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GateSettings:
        """What `to_json` wrote; unknown names are passed over, so that an older Headgate reads on."""
        names, value = {f.name for f in fields(cls)}, _named_as_now(value)
        if "first_rows" in value and value["first_rows"] is None:
            value["first_rows"] = math.inf
        return cls(**{k: v for k, v in value.items() if k in names})


def _named_as_now(value: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as 0.1.0 wrote them, under the names that they have now."""
    if not isinstance(value, Mapping):
        raise BadArgument(f"{str(value)[:40]!r} are no settings: give names and values")
    return {_FORMERLY.get(name, name): given for name, given in value.items()}
